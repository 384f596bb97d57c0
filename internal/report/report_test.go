package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"maps"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lapse/correlate/incidents"
	"lapse/correlate/model"
	"lapse/internal/hint"
	"lapse/internal/report/document"
	"lapse/timeline"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

// addresses makes cmp compare the addresses in a Timeline.
var addresses = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})

// golden compares what was rendered with the file of that name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s differs (-want +got); review and run with -update:\n%s", path, diff)
	}
}

func render(t *testing.T, format, sample string, opts Options) []byte {
	t.Helper()
	var out bytes.Buffer
	f, _ := FormatNamed(Formats, format)
	if err := f.Write(&out, Saved{Judged: samples[sample]()}, opts); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// screens are the terminals a summary is shown on.
var screens = map[string]Options{
	"80":    {Width: 80, Unicode: true, RunDir: "runs/20261121T022040Z-7d1"},
	"120":   {Width: 120, Unicode: true, RunDir: "runs/20261121T022040Z-7d1"},
	"ascii": {Width: 80},
	"color": {Width: 100, Unicode: true, Color: true},
}

func TestSummariesReadAsCommitted(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		for _, screen := range []string{"80", "120"} {
			golden(t, sample+"."+screen+".txt", render(t, "table", sample, screens[screen]))
		}
	}
	for _, sample := range []string{"race", "rollout", "inconclusive", "predicted"} {
		opts := screens["120"]
		opts.Verbose = true
		golden(t, sample+".verbose.txt", render(t, "table", sample, opts))
	}
	golden(t, "race.ascii.txt", render(t, "table", "race", screens["ascii"]))
	golden(t, "race.color.txt", render(t, "table", "race", screens["color"]))
}

func TestSummaryStaysWithinTheScreen(t *testing.T) {
	for sample := range samples {
		for width := 40; width <= 160; width += 7 {
			for line := range strings.Lines(string(render(t, "table", sample, Options{Width: width, Unicode: true}))) {
				if strings.Contains(line, "kubectl -n") || strings.Contains(line, `{"name":`) {
					continue // to be pasted
				}
				if n := document.Columns(strings.TrimSuffix(line, "\n")); n > width {
					t.Fatalf("%s at width %d: a line of %d columns: %q", sample, width, n, line)
				}
			}
		}
	}
}

func TestSummaryIsPlainASCIIWhereUnicodeIsNotShown(t *testing.T) {
	for sample := range samples {
		out := render(t, "table", sample, screens["ascii"])
		if i := bytes.IndexFunc(out, func(r rune) bool { return r > unicode.MaxASCII }); i >= 0 {
			t.Errorf("%s: not ASCII at %q", sample, out[max(0, i-20):i+3])
		}
	}
}

func TestHostileTextNeverReachesTheTerminal(t *testing.T) {
	for _, opts := range []Options{screens["80"], screens["ascii"]} {
		out := render(t, "table", "hostile", opts)
		if !utf8.Valid(out) {
			t.Error("invalid UTF-8")
		}
		for line := range strings.Lines(string(out)) {
			if line = strings.TrimSuffix(line, "\n"); document.Clean(line) != line {
				t.Errorf("a control character in %q", line)
			}
		}
		if bytes.Contains(out, []byte("\n PASS")) {
			t.Error("a name forged a verdict line")
		}
	}
}

func TestColourOnlyRepeatsWhatTheTextSays(t *testing.T) {
	plain := Options{Width: 100, Unicode: true}
	for sample := range samples {
		if sample == "hostile" {
			continue
		}
		coloured := string(render(t, "table", sample, screens["color"]))
		if diff := cmp.Diff(string(render(t, "table", sample, plain)), stripANSI(coloured)); diff != "" {
			t.Errorf("%s without its colours is not the plain summary:\n%s", sample, diff)
		}
	}
}

// stripANSI removes SGR sequences.
func stripANSI(s string) string {
	var b strings.Builder
	for {
		before, after, found := strings.Cut(s, "\x1b[")
		b.WriteString(before)
		if !found {
			return b.String()
		}
		_, s, _ = strings.Cut(after, "m")
	}
}

func TestNoDataNeverLooksOK(t *testing.T) {
	const name = "web new"
	for _, test := range []struct {
		about string
		rate  int
		spoil func(*model.Timeline)
		want  string
	}{
		{"nothing is wrong", 100, func(*model.Timeline) {}, ".........."},
		{"nothing was sent for 2 s", 100, func(tl *model.Timeline) { silence(tl, name, 4, 5) }, "....''...."},
		{"no slots are known at the end", 100, func(tl *model.Timeline) { truncate(tl, name, 7) }, ".......'''"},
		{"measuring began late and ended early", 100, func(tl *model.Timeline) {
			tl.Targets[0].Measured = model.Instant{Earliest: 2 * s, Latest: 7*s + 300*ms}
		}, "''.....'''"},
		{"a gap of 120 ms", 100, func(tl *model.Timeline) {
			tl.Unobserved = []model.Unobserved{{Target: name, Start: 3*s + 940*ms, End: 4*s + 60*ms}}
		}, "...,,....."},
		{"a gap of another target", 100, func(tl *model.Timeline) {
			tl.Unobserved = []model.Unobserved{{Target: "web reused", Start: 3 * s, End: 6 * s}}
		}, ".........."},
		{"failures in a gap", 100, func(tl *model.Timeline) {
			silence(tl, name, 4, 5)
			tl.Buckets.Targets[name].Failed[4] = 1
		}, "....#'...."},
		{"the run ended a little after the last request was due", 100, func(tl *model.Timeline) {
			tl.Run.Duration += 90 * ms
			tl.Targets[0].Measured.Latest = 10 * s
		}, ".........."},
		{"shares of failures", 100, func(tl *model.Timeline) {
			copy(tl.Buckets.Targets[name].Failed, []int{1, 9, 10, 49, 50, 100})
		}, "::%%##...."},
		{"one request in 5 s", 1, func(tl *model.Timeline) {
			for i := range tl.Buckets.Targets[name].Sent {
				tl.Buckets.Targets[name].Sent[i] = (i + 1) % 5 / 4
			}
			tl.Targets[0].Rate = 0.2
		}, ".........."},
	} {
		tl := base(10 * s)
		addTarget(tl, name, timeline.New, test.rate, nil)
		test.spoil(tl)
		if got := stripOf(t, tl); got != test.want {
			t.Errorf("%s: strip is %s, want %s", test.about, got, test.want)
		}
	}
}

// truncate forgets a target's slots from the n-th on.
func truncate(tl *model.Timeline, target string, n int) {
	all := tl.Buckets.Targets[target]
	tl.Buckets.Targets[target] = model.BucketSeries{Sent: all.Sent[:n], Failed: all.Failed[:n], Unobserved: all.Unobserved[:n], Latency: all.Latency[:n]}
}

// stripOf is the strip of the first target.
func stripOf(t *testing.T, tl *model.Timeline) string {
	t.Helper()
	var out bytes.Buffer
	if err := Table(&out, tl, Options{Width: 80, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	_, chart, _ := strings.Cut(out.String(), "TIMELINE")
	for line := range strings.Lines(chart) {
		if strings.HasPrefix(line, "   new ") {
			return strings.Fields(line)[1]
		}
	}
	t.Fatalf("no strip in\n%s", out.String())
	return ""
}

func TestJSONReadsAsCommitted(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		if sample == "hostile" || sample == "many" {
			continue // only screens must bear them
		}
		golden(t, sample+".json", render(t, "json", sample, Options{}))
	}
}

func TestJSONRoundTrips(t *testing.T) {
	for name, sample := range samples {
		if name == "hostile" {
			continue // JSON cannot hold its invalid UTF-8
		}
		got, err := ReadJSON(bytes.NewReader(render(t, "json", name, Options{})))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(sample(), got, cmp.Transformer("compact", compact), addresses); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// compact removes what laying out may add to raw JSON.
func compact(raw json.RawMessage) string {
	var out bytes.Buffer
	if json.Compact(&out, raw) != nil {
		return string(raw)
	}
	return out.String()
}

func TestReadJSONRefusesWhatItCannotJudge(t *testing.T) {
	for _, test := range []struct{ in, want string }{
		{`not json`, "read timeline: invalid character"},
		{`{"version": 1}`, "not a timeline"},
		{`{"schemaVersion": 3, "tool": {"name": "lapse", "version": "2.0.0"}}`, "2.0.0"},
		{`{"schemaVersion": 1, "tool": {"name": "lapse", "version": "0.1.0"}, "events": [{"port": "http"}]}`, "0.1.0"},
	} {
		_, err := ReadJSON(strings.NewReader(test.in))
		if err == nil || !strings.Contains(err.Error()+hint.Of(err), test.want) {
			t.Errorf("ReadJSON(%s) = %v, want %q", test.in, err, test.want)
		}
	}
}

func TestSummaryBearsWhateverIsMissing(t *testing.T) {
	for name, strip := range map[string]func(*model.Timeline){
		"everything": func(tl *model.Timeline) { *tl = model.Timeline{} },
		"targets":    func(tl *model.Timeline) { tl.Targets = nil },
		"buckets":    func(tl *model.Timeline) { tl.Buckets = model.Buckets{} },
		"series":     func(tl *model.Timeline) { tl.Buckets.Targets["web new"] = model.BucketSeries{} },
		"events":     func(tl *model.Timeline) { tl.Events, tl.Services = nil, nil },
		"states": func(tl *model.Timeline) {
			for i := range tl.Pods {
				tl.Pods[i].States = nil
			}
		},
		"duration": func(tl *model.Timeline) { tl.Run.Duration = 0 },
		"command":  func(tl *model.Timeline) { tl.Run.Command = &model.Command{} },
		"latency":  func(tl *model.Timeline) { tl.Targets[0].Latency = nil },
		"causes":   func(tl *model.Timeline) { tl.Windows[0].Causes = nil },
	} {
		tl := race()
		strip(tl)
		for _, width := range []int{0, 1, 40, 80, 300} {
			if err := Table(io.Discard, tl, Options{Width: width}); err != nil {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
}

func TestEachIncidentIsToldOnce(t *testing.T) {
	for format, formatted := range map[string]Options{"table": screens["120"], "markdown": {}, "junit": {}} {
		for sample, times := range map[string]map[string]int{
			"many":    {"still routed to web-5c9d7f-x2kzq for 71 ms": 1, "keep serving for at least 0.2 s": 1},
			"rollout": {"x2kzq for 71 ms": 1, "x2kzq for 73 ms": 0, "64 of 576 failures": 1, "keep serving ≥ 1.2 s": 1, "320 of 640 failed": 1},
		} {
			out := string(render(t, format, sample, formatted))
			for text, want := range times {
				if n := strings.Count(strings.Join(strings.Fields(out), " "), text); n != want {
					t.Errorf("%s of %s tells %q %d times, want %d:\n%s", format, sample, text, n, want, out)
				}
			}
			if strings.Contains(out, "\n WINDOWS") || strings.Contains(out, "### Windows") {
				t.Errorf("%s of %s lists windows, without -v:\n%s", format, sample, out)
			}
		}
	}
}

func TestFixOfSeveralIncidentsIsToldWithTheFirst(t *testing.T) {
	tl := race()
	tl.Windows = append(tl.Windows, tl.Windows[0])
	w := &tl.Windows[1]
	w.ID, w.Start, w.End, w.Downtime.Max = 2, moved(w.Start, 40*s), moved(w.End, 40*s), time.Second
	w.Causes = slices.Clone(w.Causes)
	w.Causes[0].Confidence = model.Low // which no change in the cluster joins to the other
	tl.Incidents = incidents.Of(tl, s)
	var out bytes.Buffer
	if err := Table(&out, said(tl), screens["120"]); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	if strings.Index(text, "\n incident 1 of 2") > strings.Index(text, "\n incident 2 of 2") {
		t.Errorf("the incidents do not stand by time:\n%s", text)
	}
	if !strings.Contains(strings.Join(strings.Fields(text), " "), "incident 2 of 2 did most harm") {
		t.Errorf("which one did most harm is not said:\n%s", text)
	}
	if strings.Count(text, "keep serving") != 1 || strings.Count(text, "as for incident 1") != 1 {
		t.Errorf("want the fix once, and a reference to it:\n%s", text)
	}
}

func moved(at model.Instant, by time.Duration) model.Instant {
	return model.Instant{Earliest: at.Earliest + by, Latest: at.Latest + by}
}

// Where no rule explains an incident, its errors' own words are the only clue; and what was not observed of it is said.
func TestUnexplainedIncidentSaysWhatIsKnown(t *testing.T) {
	tl := inconclusive()
	tl.Windows[0].Errors = []model.ErrorText{{Class: "timeout_response", Text: "no answer within 800 ms", First: tl.Windows[0].Start}}
	tl.Incidents = incidents.Of(tl, s)
	var out bytes.Buffer
	if err := Table(&out, said(tl), screens["120"]); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"not explained: ", "failed requests said: no answer within 800 ms", "its end was not observed (prober stalled, 4.12 s)",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestNoWindowIsLeftWithoutACause(t *testing.T) {
	for _, sample := range []string{"many", "rollout"} {
		tl := samples[sample]()
		named := map[int]int{}
		for _, in := range tl.Incidents {
			for _, c := range in.Causes {
				for _, id := range c.Windows {
					named[id]++
				}
			}
		}
		for _, w := range tl.Windows {
			if named[w.ID] != 1 {
				t.Errorf("%s: window %d has %d causes, want 1", sample, w.ID, named[w.ID])
			}
		}
	}
}

func TestSlowAnswersAreNotCalledFailures(t *testing.T) {
	tl := slow()
	tl.Windows[0].Open = model.Open{Start: true, End: true}
	tl.Windows[0].Start.Earliest, tl.Windows[0].End.Latest = 0, tl.Run.Duration
	for _, f := range Formats {
		format := f.Name
		if f.Facts || format == "json" || format == "html" {
			continue
		}
		var out bytes.Buffer
		if err := f.Write(&out, Saved{Judged: said(tl)}, screens["120"]); err != nil {
			t.Fatal(err)
		}
		for _, wrong := range []string{"failing", "9/260 failed", "9/260  "} {
			if strings.Contains(out.String(), wrong) {
				t.Errorf("%s says %q of slow answers:\n%s", format, wrong, out.String())
			}
		}
	}
	if got := windowSaid(tl, tl.Windows[0]).Edges; got != "already slow when measuring began; still slow when measuring ended" {
		t.Errorf("%q", got)
	}
}

// What a broken watch may have hidden is no data: a Pod's lane and the ready endpoints are not drawn on through it.
func TestWatchGapIsDrawnAsNoData(t *testing.T) {
	checkGapDrawn(t, timeline.Object{Kind: "Pod"}, timeline.Object{Kind: "EndpointSlice"})
}

// A silent API server is a gap of every watch, and names no kind.
func TestGapOfAllWatchesIsDrawnAsNoData(t *testing.T) { checkGapDrawn(t, timeline.Object{}) }

func checkGapDrawn(t *testing.T, kinds ...timeline.Object) {
	t.Helper()
	tl := race()
	for _, kind := range kinds {
		tl.Events = append(tl.Events, model.Event{
			Event: timeline.Event{
				ID: uint32(100 + len(tl.Events)), Kind: timeline.WatchGap, Object: kind,
				Seen: 70 * s,
			}, At: model.Instant{Earliest: 60 * s, Latest: 70 * s},
		})
	}
	var table bytes.Buffer
	if err := Table(&table, said(tl), Options{Width: 120, Unicode: true, Verbose: true}); err != nil {
		t.Fatal(err)
	}
	lanes := map[string]string{}
	for line := range strings.Lines(table.String()) {
		for _, label := range []string{"endpoints  ", "pod m8v4t", "direct"} {
			if cells, ok := strings.CutPrefix(strings.TrimSpace(line), label); ok {
				lanes[label] = strings.TrimSpace(cells)
			}
		}
	}
	for _, label := range []string{"endpoints  ", "pod m8v4t"} {
		if n := strings.Count(lanes[label], "╱"); n < 9 || n > 11 {
			t.Errorf("%d cells of 1 s without data, want 10: %q", n, lanes[label])
		}
	}
	if lanes["pod m8v4t"] == "" || !strings.HasSuffix(lanes["pod m8v4t"], "R") {
		t.Errorf("after the gap the lane goes on: %q", lanes["pod m8v4t"])
	}
}
