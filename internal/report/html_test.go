package report

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/net/html"

	"lapse/correlate/model"
	"lapse/timeline"
)

// shell is a page like the real one, with all in it that could break out of an element.
func shell() fstest.MapFS {
	return fstest.MapFS{
		"index.html": {Data: []byte(`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8" />
    <title>Lapse</title>
    <link rel="icon" href="data:image/svg+xml,%3Csvg/%3E" />
    <script type="module" crossorigin src="./page.js"></script>
    <link rel="stylesheet" crossorigin href="./page.css">
  </head>
  <body>
    <div id="page"></div>
  </body>
</html>
`)},
		"page.js":  {Data: []byte("const a = \"</script><script>alert(1)</script><!--\";\r\nconst b = '</body>$1';\n")},
		"page.css": {Data: []byte("body::after { content: \"</style>\"; }\n")},
	}
}

// document renders a run and reads it as a browser does that runs scripts, or that does not.
func parsed(t *testing.T, tl *model.Timeline, scripts bool) (*html.Node, []byte) {
	t.Helper()
	var out bytes.Buffer
	if err := HTML(&out, tl, Options{Page: shell()}); err != nil {
		t.Fatal(err)
	}
	doc, err := html.ParseWithOptions(bytes.NewReader(out.Bytes()), html.ParseOptionEnableScripting(scripts))
	if err != nil {
		t.Fatal(err)
	}
	return doc, out.Bytes()
}

// all are the elements of a document, by their tag.
func all(doc *html.Node) map[string][]*html.Node {
	found := map[string][]*html.Node{}
	for n := range doc.Descendants() {
		if n.Type == html.ElementNode {
			found[n.Data] = append(found[n.Data], n)
		}
	}
	return found
}

func attr(n *html.Node, name string) string {
	i := slices.IndexFunc(n.Attr, func(a html.Attribute) bool { return a.Key == name })
	if i < 0 {
		return ""
	}
	return n.Attr[i].Val
}

func textOf(n *html.Node) string {
	var b strings.Builder
	for d := range n.Descendants() {
		if d.Type == html.TextNode {
			b.WriteString(d.Data)
		}
	}
	return b.String()
}

func TestHTMLAllowsOnlyWhatIsInIt(t *testing.T) {
	doc, _ := parsed(t, race(), true)
	found := all(doc)
	policy := attr(found["meta"][0], "content")
	if attr(found["meta"][0], "http-equiv") != "Content-Security-Policy" || !strings.HasPrefix(policy, "default-src 'none'; ") {
		t.Fatalf("the first meta element is %v, want the policy", found["meta"][0].Attr)
	}
	if len(found["script"]) != 2 || len(found["style"]) != 1 {
		t.Fatalf("%d scripts and %d styles, want the page's script, the data, and one style", len(found["script"]), len(found["style"]))
	}
	for directive, n := range map[string]*html.Node{"script-src": found["script"][0], "style-src": found["style"][0]} {
		sum := sha256.Sum256([]byte(textOf(n)))
		if want := directive + " 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "';"; !strings.Contains(policy, want) {
			t.Errorf("policy %q does not hold %q", policy, want)
		}
	}
	if strings.Contains(policy, "unsafe") || strings.Contains(policy, "http") || strings.Contains(policy, "*") {
		t.Errorf("policy %q allows more than what is in the document", policy)
	}
	for tag, nodes := range found {
		for _, n := range nodes {
			if src := attr(n, "src") + attr(n, "href"); src != "" && !strings.HasPrefix(src, "data:") {
				t.Errorf("%s refers to %q", tag, src)
			}
		}
	}
	if js := textOf(found["script"][0]); !strings.Contains(js, `const b = '\x3c/body>$1'`) && !strings.Contains(js, `const b = '</body>$1'`) {
		t.Errorf("the page's script reads %q", js)
	}
}

// data reads the run back as the page does.
func data(t *testing.T, doc *html.Node) *model.Timeline {
	t.Helper()
	for _, script := range all(doc)["script"] {
		if attr(script, "id") != "lapse-run" {
			continue
		}
		if attr(script, "type") != "application/json+gzip-base64" {
			t.Errorf("the data's type is %q", attr(script, "type"))
		}
		zipped, err := base64.StdEncoding.DecodeString(strings.TrimSpace(textOf(script)))
		if err != nil {
			t.Fatal(err)
		}
		plain, err := gzip.NewReader(bytes.NewReader(zipped))
		if err != nil {
			t.Fatal(err)
		}
		var held struct{ Timeline *model.Timeline }
		if err := json.NewDecoder(plain).Decode(&held); err != nil {
			t.Fatal(err)
		}
		return held.Timeline
	}
	t.Fatal("no data in the document")
	return nil
}

func TestHTMLHoldsTheTimeline(t *testing.T) {
	for name, sample := range samples {
		if name == "hostile" {
			continue // JSON cannot hold its invalid UTF-8
		}
		doc, _ := parsed(t, sample(), true)
		if diff := cmp.Diff(sample(), data(t, doc), cmp.Transformer("compact", compact), addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestHTMLTellsReadersWithoutScripts(t *testing.T) {
	doc, _ := parsed(t, samples["race"](), false)
	text := textOf(all(doc)["noscript"][0])
	for _, want := range []string{
		"FAIL: shop/web: 64 of 80000 requests failed while kubectl drain node-b --ignore-daemonsets ran", "failed > 0", "02:20:58.306 to 02:20:58.314", "02:20:58.387 to 02:20:58.397",
		"82 ms ±9", "node-c still routed to web-5c9d7f-x2kzq", "a preStop sleep of 1 s", "coverage 99.98 %",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if title := textOf(all(doc)["title"][0]); title != "Lapse: FAIL svc shop/web" {
		t.Errorf("title %q", title)
	}
}

func TestUntrustedTextNeverBecomesMarkupInHTML(t *testing.T) {
	shape := func(evil string) string {
		var b strings.Builder
		for _, scripts := range []bool{true, false} {
			doc, _ := parsed(t, everywhere(evil), scripts)
			for n := range doc.Descendants() {
				if n.Type == html.ElementNode {
					fmt.Fprintf(&b, "%s%d ", n.Data, len(n.Attr))
				}
			}
		}
		return b.String()
	}
	want := shape("web")
	for _, evil := range append(evils, `"><script>alert(1)</script>`, "</noscript><script>alert(1)</script>", "</title><script>alert(1)</script>", "</script><!--<script>", "</body>") {
		if got := shape(evil); got != want {
			t.Errorf("%q changes the document to\n%s, want\n%s", evil, got, want)
		}
	}
}

func TestHTMLRefusesAPageItCannotHold(t *testing.T) {
	for about, change := range map[string]func(fstest.MapFS) fs.FS{
		"no page":   func(fstest.MapFS) fs.FS { return nil },
		"no index":  func(m fstest.MapFS) fs.FS { delete(m, "index.html"); return m },
		"no script": func(m fstest.MapFS) fs.FS { delete(m, "page.js"); return m },
		"another kind of tag": func(m fstest.MapFS) fs.FS {
			m["index.html"].Data = bytes.ReplaceAll(m["index.html"].Data, []byte("module"), []byte("text/javascript"))
			return m
		},
		"one more reference": func(m fstest.MapFS) fs.FS {
			m["index.html"].Data = bytes.ReplaceAll(m["index.html"].Data, []byte("data:image"), []byte("./icon"))
			return m
		},
	} {
		var out bytes.Buffer
		if err := HTML(&out, race(), Options{Page: change(shell())}); err == nil || out.Len() > 0 {
			t.Errorf("%s: error %v and %d bytes", about, err, out.Len())
		}
	}
}

// hour makes up what an hour at 2000 requests per second leaves: 10 targets, 200 Pods, 5000 events, and as many
// failures as are listed.
func hour() *model.Timeline {
	random := rand.New(rand.NewPCG(1, 2))
	tl := race()
	const width, slots = 800 * ms, 4500
	tl.Run.Duration = time.Hour
	tl.Buckets = model.Buckets{Width: width, Targets: map[string]model.BucketSeries{}}
	tl.Targets = nil
	for i := range 10 {
		name := fmt.Sprintf("target %d", i)
		addTarget(tl, name, timeline.New, 200, nil)
		series := model.BucketSeries{}
		for range slots {
			sparse, middle := model.SparseCounts{}, model.LatencyBin(ms)
			for slot := middle - 14; slot < middle+14; slot++ {
				sparse = append(sparse, slot, 1+random.IntN(12))
			}
			series.Sent, series.Failed = append(series.Sent, 160), append(series.Failed, 0)
			series.Unobserved, series.Latency = append(series.Unobserved, 0), append(series.Latency, model.NewHistogram(sparse))
		}
		tl.Buckets.Targets[name] = series
	}
	for i := range 10_000 {
		at := time.Duration(random.Int64N(int64(time.Hour))).Truncate(time.Microsecond)
		tl.Failures = append(tl.Failures, model.Failure{Target: "target 1", Seq: uint64(i), Due: at, Sent: at, Done: at + time.Duration(random.IntN(9000))*time.Microsecond, Class: timeline.Refused, Connect: ms})
	}
	for i := range 5000 {
		e := tl.Events[i%12]
		e.ID, e.Seen = uint32(i+1), time.Duration(random.Int64N(int64(time.Hour)))
		tl.Events = append(tl.Events, e)
	}
	for i := range 200 {
		p := tl.Pods[i%3]
		p.UID = fmt.Sprintf("%016x-%016x", random.Uint64(), random.Uint64())
		p.Name = "web-5c9d7f-" + p.UID[:5]
		tl.Pods = append(tl.Pods, p)
	}
	return tl
}

// Whatever is thinned out of a long run, it is not what it found, and the counts stay whole.
func TestHTMLOfALongRunIsSmallAndLosesNoCount(t *testing.T) {
	tl := hour()
	doc, text := parsed(t, tl, true)
	got := data(t, doc)
	t.Logf("%d bytes, slots of %v", len(text), got.Buckets.Width)
	if limit := 2_000_000 - 400_000; len(text) > limit { // the page itself may take 400 KB
		t.Errorf("%d bytes beside the page, want at most %d", len(text), limit)
	}
	want := hour()
	want.FailuresTruncated += len(want.Failures) - len(got.Failures)
	for name, series := range want.Buckets.Targets {
		held := got.Buckets.Targets[name]
		if sum(series.Sent, same) != sum(held.Sent, same) || sum(series.Failed, same) != sum(held.Failed, same) {
			t.Errorf("%s: other counts than in the timeline", name)
		}
	}
	want.Failures, want.Buckets, got.Buckets = got.Failures, model.Buckets{}, model.Buckets{}
	if a, b := asJSON(t, want), asJSON(t, got); a != b {
		t.Error("something else than failures and series differs from the timeline")
	}
	if got.FailuresTruncated+len(got.Failures) != tl.FailuresTruncated+len(tl.Failures) {
		t.Error("failures are missing, and it is not said")
	}
}

func same(n int) int { return n }

func asJSON(t *testing.T, tl *model.Timeline) string {
	t.Helper()
	text, err := json.Marshal(tl)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestWhatEndsAnElementIsSpelledOtherwise(t *testing.T) {
	ends := regexp.MustCompile(`(?i)</script|<script|</style|<!--`)
	for _, text := range []string{"</script>", "</SCRIPT >", "<script>", "</style>", "<!--", "a\r\nb"} {
		if got := endsNothing("x"+text+"y", `\x3c$1`); ends.MatchString(got) || strings.Contains(got, "\r") {
			t.Errorf("%q became %q", text, got)
		}
	}
}
