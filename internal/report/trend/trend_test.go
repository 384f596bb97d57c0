package trend

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/perf/benchfmt"

	"lapse/correlate/model"
	"lapse/correlate/trend"
	"lapse/internal/history"
	"lapse/internal/report/document"
)

var update = flag.Bool("update", false, "rewrite the expected texts")

// run is the n-th drain of shop/web, in which so many of 10000 requests failed.
func run(n, failed int, changes ...func(*history.Line)) history.Line {
	l := history.Line{
		History: 1, Run: fmt.Sprint("run-", n), T0: time.Date(2026, 11, 1+n, 10, 0, 0, 0, time.UTC), Service: "shop/web",
		Triggers: []history.Trigger{{Kind: model.NodeDrained, Object: "Node/node1"}},
		Release:  history.Release{Templates: []string{"54cf597767"}}, Kubernetes: "v1.36.3", ProxyMode: "iptables",
		Load: []history.Load{{Kind: "new", Rate: 100}, {Kind: "reused", Rate: 100}}, Sent: 10_000, Failed: failed, Coverage: 1, Verdict: model.Pass, Lapse: "v1",
		Downtime: &model.Downtime{Total: model.Length{Max: 21 * time.Millisecond}},
	}
	if failed > 0 {
		l.Verdict, l.Causes = model.Fail, []history.Cause{{Rule: "route-outlives-pod", Confidence: model.High, Failed: failed}}
		l.Downtime.Total = model.Length{Min: time.Duration(failed) * 5 * time.Millisecond, Max: time.Duration(failed)*5*time.Millisecond + 20*time.Millisecond}
	}
	for _, change := range changes {
		change(&l)
	}
	return l
}

func fixed(l *history.Line) { l.Release.Templates = []string{"5f9dd68475"} }

func of(service string) func(*history.Line) {
	return func(l *history.Line) { l.Service, l.Triggers = service, nil }
}

func inconclusive(l *history.Line) { l.Verdict = model.Inconclusive }

func unmeasured(l *history.Line) {
	l.Verdict, l.Sent, l.Downtime, l.Coverage, l.Load = model.Inconclusive, 0, nil, 0, nil
}

func url(l *history.Line) {
	l.Service, l.URLs, l.Triggers, l.Release, l.Kubernetes, l.ProxyMode = "", []string{"http://127.0.0.1:8080/"}, nil, history.Release{}, "", ""
}

var before = []history.Line{run(0, 20), run(1, 31), run(2, 26), run(3, 8), run(4, 26), run(5, 44), run(6, 19), run(7, 26)}

// samples are histories, by the file with what is said of them.
var samples = map[string][]history.Line{
	"one":         {run(0, 129)},
	"passed":      {run(0, 0)},
	"fixed":       append(slices.Clone(before), run(8, 0, fixed), run(9, 0, fixed), run(10, 0, fixed), run(11, 0, fixed)),
	"three":       append(slices.Clone(before), run(8, 0, fixed), run(9, 0, fixed, inconclusive), run(10, 0, fixed)),
	"nothing":     {run(0, 0, unmeasured), run(1, 0, unmeasured)},
	"url":         {run(0, 0, url), run(1, 3, url)},
	"mixed-modes": append(slices.Clone(before[:5]), run(8, 2, func(l *history.Line) { l.ProxyMode, l.Lapse = "nftables", "v2" })),
	"many": func() (lines []history.Line) {
		for i := range 60 {
			lines = append(lines, run(i%28, i%3, of(fmt.Sprintf("shop/web-%d", i%6)), func(l *history.Line) {
				l.Run, l.Release.Templates = fmt.Sprint(i), []string{fmt.Sprintf("hash%d", i%5)}
			}))
		}
		return lines
	}(),
}

func written(t *testing.T, format string, lines []history.Line, o Options) string {
	t.Helper()
	f, ok := Named(format)
	if !ok {
		t.Fatal(format)
	}
	var b bytes.Buffer
	if err := f.Write(&b, Runs{lines, trend.Of(lines)}, o); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestTablesReadAsTheyShould(t *testing.T) {
	for name, lines := range samples {
		for _, width := range []int{80, 120} {
			path := filepath.Join("testdata", fmt.Sprintf("%s.%d.txt", name, width))
			got := written(t, "table", lines, Options{Screen: document.Screen{Unicode: true, Width: width}})
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("%s (-want +got, -update rewrites it):\n%s", path, diff)
			}
			if n := strings.Count(got, "\n"); width == 120 && n > 20 {
				t.Errorf("%s: %d lines do not fit on a screen", name, n)
			}
		}
	}
}

func TestVerboseListsAll(t *testing.T) {
	got := written(t, "table", samples["many"], Options{Verbose: true, Screen: document.Screen{Width: 200}})
	for i := range 6 {
		if !strings.Contains(got, fmt.Sprintf("shop/web-%d", i)) {
			t.Errorf("%d is missing:\n%s", i, got)
		}
	}
}

func TestJSONHasAllOfIt(t *testing.T) {
	var got struct {
		Said  string
		Runs  int
		Pools []struct {
			Service, Disruption, Kubernetes, ProxyMode, Load string
			Releases                                         []struct {
				Name     string
				Runs     trend.Runs
				Lossy    *trend.Share
				Requests *trend.Requests
				Downtime *trend.Downtime
			}
			Comparisons []trend.Comparison
		}
	}
	if err := json.Unmarshal([]byte(written(t, "json", samples["fixed"], Options{})), &got); err != nil {
		t.Fatal(err)
	}
	p := got.Pools[0]
	if got.Said == "" || got.Runs != 12 || p.Service != "shop/web" || p.Disruption != "drain" || p.Kubernetes != "1.36" || p.Load != "new 100/s, reused 100/s" || len(p.Releases) != 2 {
		t.Errorf("%+v", got)
	}
	if r := p.Releases[0]; r.Runs.Lossy != 8 || r.Requests.Failed != 200 || r.Lossy.Max != 1 || r.Downtime.Median == nil || p.Comparisons[0].Failed.Direction != trend.Less {
		t.Errorf("%+v %+v", r, p.Comparisons)
	}
	// What was not measured is absent.
	text := written(t, "json", samples["nothing"], Options{})
	for _, key := range []string{`"lossy": {`, `"requests"`, `"downtime"`} {
		if strings.Contains(text, key) {
			t.Errorf("%s: %s", key, text)
		}
	}
}

func TestLinesAreReadBack(t *testing.T) {
	for name, lines := range samples {
		got, unread, err := history.Read(strings.NewReader(written(t, "ndjson", lines, Options{})))
		if diff := cmp.Diff(lines, got); diff != "" || len(unread) > 0 || err != nil {
			t.Errorf("%s: %v %v\n%s", name, unread, err, diff)
		}
	}
}

// results reads what benchstat would.
func results(t *testing.T, text string) (all []*benchfmt.Result) {
	t.Helper()
	r := benchfmt.NewReader(strings.NewReader(text), "trend")
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.Result:
			all = append(all, rec.Clone())
		case *benchfmt.SyntaxError:
			t.Errorf("%v in\n%s", rec, text)
		}
	}
	if err := r.Err(); err != nil {
		t.Error(err)
	}
	if better := r.Units().GetBetter("failed/run"); len(all) > 0 && better != -1 {
		t.Errorf("fewer failed requests are better: %d", better)
	}
	return all
}

func TestBenchstatReadsARunAsAResult(t *testing.T) {
	open := func(l *history.Line) { l.Downtime.Open = true }
	lines := []history.Line{run(0, 129, open), run(1, 0, fixed), run(2, 0, inconclusive), run(3, 0, unmeasured), run(4, 5, url)}
	all := results(t, written(t, "benchfmt", lines, Options{}))
	if len(all) != 3 {
		t.Fatalf("%d results: an inconclusive run is no pass", len(all))
	}
	for key, want := range map[string]string{"service": "shop/web", "disruption": "drain", "kubernetes": "1.36", "proxy-mode": "iptables", "load": "new 100/s, reused 100/s", "release": "54cf597767"} {
		if got := all[0].GetConfig(key); got != want {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if failed, _ := all[0].Value("failed/run"); failed != 129 || string(all[0].Name) != "Disruption" {
		t.Errorf("%+v", all[0])
	}
	least, _ := all[0].Value("downtime-min-sec/run")
	if _, ok := all[0].Value("downtime-max-sec/run"); ok || math.Abs(least-0.645) > 1e-9 {
		t.Errorf("a downtime without an upper bound has one: %+v", all[0].Values)
	}
	if most, _ := all[1].Value("downtime-max-sec/run"); most != 0.021 || all[1].GetConfig("release") != "5f9dd68475" {
		t.Errorf("%+v", all[1])
	}
	if url := all[2]; url.GetConfig("urls") != "http://127.0.0.1:8080/" || url.GetConfig("service") != "" || url.GetConfig("kubernetes") != "" || url.GetConfig("release") != "unknown" {
		t.Errorf("%+v", url.Config)
	}
}

// Names from a file that anybody may have written do nothing in a terminal, in benchstat or in the log of a runner.
func TestHostileNamesDoNothing(t *testing.T) {
	const evil = "\x1b[31m\n::set-output name=x::y\r\u202ebenchmark"
	hostile := run(0, 3, func(l *history.Line) {
		l.Run, l.Service, l.URLs, l.Kubernetes, l.ProxyMode, l.Lapse = evil, evil, []string{evil}, evil, evil, evil
		l.Release.Templates, l.Load[0].Kind, l.Causes[0].Rule, l.Triggers[0].Kind = []string{evil}, evil, evil, evil
	})
	other := hostile
	other.Run, other.Lapse = "b", "v2"
	lines := []history.Line{hostile, other, run(1, 0)}
	for _, format := range []string{"table", "benchfmt"} {
		text := written(t, format, lines, Options{Screen: document.Screen{Unicode: true, Width: document.Unlimited}})
		for line := range strings.Lines(text) {
			line = strings.TrimSuffix(line, "\n")
			if strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.HasPrefix(strings.TrimSpace(line), "::") {
				t.Errorf("%s: %q", format, line)
			}
		}
	}
	if all := results(t, written(t, "benchfmt", lines, Options{})); len(all) != 3 {
		t.Errorf("%d results", len(all))
	}
	if _, err := json.Marshal(json.RawMessage(written(t, "json", lines, Options{}))); err != nil {
		t.Error(err)
	}
	if strings.Contains(written(t, "json", lines, Options{}), "\x1b") {
		t.Error("JSON has an escape")
	}
	ndjson, _ := Named("ndjson")
	if err := ndjson.Write(new(bytes.Buffer), Runs{lines, trend.Of(lines)}, Options{}); err == nil {
		t.Error("a line is written that nobody would read")
	}
}

// Two guards measure one disruption.
func TestRunsThatDoNotCountAreNamed(t *testing.T) {
	second := func(l *history.Line) { l.UID, l.Duration = "7f", time.Minute }
	other := run(1, 5, second)
	other.Run = "run-of-the-other"
	tr := trend.Of([]history.Line{run(1, 7, second), other})
	const note = "1 further run of the same disruptions not counted"
	if notes := Say(&tr).Notes; tr.Runs != 1 || !slices.ContainsFunc(notes, func(n string) bool { return strings.HasPrefix(n, note) }) {
		t.Errorf("%d runs, %q", tr.Runs, notes)
	}
}
