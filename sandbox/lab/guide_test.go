package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const printed = ` FAIL  45 of 3142 requests failed   measurement: valid · exit 3
       svc lab/web · 2 targets, 200/s asked · 15.8 s · /tmp/go-build1/b001/exe/lab
       await /tmp/lapse-lab2/gate

 GATES  the run fails if
   ✗  failed > 0  45  fail

 INCIDENTS  times are UTC
   1  18:40:19.550  1.4 s ±0.4

 TIMELINE  one cell = 200 ms
   command             [ /tmp/go-build1/b001/exe/lab aw… ]
   new               ········▒▒▒█▒▒·······

 LATENCY  of answered requests
   new     3.29 ms

 VALID  coverage 100 %
 FILES  /tmp/run
`

func TestGuideShowsWhatTellsAboutTheCause(t *testing.T) {
	const want = ` FAIL  45 of 3142 requests failed   measurement: valid · exit 3
       svc lab/web · 2 targets, 200/s asked · 15.8 s

 INCIDENTS  times are UTC
   1  18:40:19.550  1.4 s ±0.4

 TIMELINE  one cell = 200 ms
   command             [ steps ───────────────────────── ]
   new               ········▒▒▒█▒▒·······
`
	if got := trim(printed, true); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := trim(printed, false), want[:strings.Index(want, "\n\n")+1]; got != want {
		t.Errorf("only the result: got\n%s\nwant\n%s", got, want)
	}
}

func TestGuideTakesTheLastRunThatWasAsExpected(t *testing.T) {
	one := func(minute int, ok bool, err error) result {
		return result{scenario: Scenario{Name: "crash"}, record: record{Began: time.Date(2026, 1, 1, 0, minute, 0, 0, time.UTC)}, checks: []check{{ok: ok}}, err: err}
	}
	for _, tt := range []struct {
		name    string
		results []result
		want    int // its minute; -1: none
	}{
		{"the last", []result{one(1, true, nil), one(2, true, nil)}, 2},
		{"the one that held", []result{one(1, true, nil), one(2, false, nil)}, 1},
		{"the one that held, though it is older", []result{one(2, false, nil), one(1, true, nil)}, 1},
		{"none held", []result{one(2, false, nil), one(1, false, nil)}, 2},
		{"not played", []result{one(1, false, errors.New("no API server"))}, -1},
	} {
		got := -1
		if r := best(tt.results, "crash"); r != nil {
			got = r.Began.Minute()
		}
		if got != tt.want {
			t.Errorf("%s: the run of minute %d, want %d", tt.name, got, tt.want)
		}
	}
}

// A page keeps its words, and what it shows of a scenario that was not played.
func TestGuideKeepsWhatWasNotPlayed(t *testing.T) {
	dir := t.TempDir()
	page, lapse := filepath.Join(dir, "pod-crashed.md"), filepath.Join(dir, "lapse")
	for file, text := range map[string]string{
		page:  "# pod-crashed\n\n<!-- lab crash -->\nold\n<!-- end -->\n\nWords.\n\n<!-- lab calm result -->\nkept\n<!-- end -->\n",
		lapse: "#!/bin/sh\ncat <<'E'\n" + printed + "E\nexit 3\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	r := result{scenario: Scenario{Name: "crash"}, record: record{Mode: "nftables"}, recorder: "v1"}
	r.run.Timeline.Tool.Version = "v2"
	if err := fillGuide(t.Context(), lapse, dir, []result{r}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	want := "# pod-crashed\n\n<!-- lab crash -->\n[crash.txtar](../../sandbox/lab/scenarios/crash.txtar), kube-proxy in nftables mode, recorded by Lapse v1 and judged by v2:\n\n```\n" +
		trim(printed, true) + "```\n<!-- end -->\n\nWords.\n\n<!-- lab calm result -->\nkept\n<!-- end -->\n"
	if string(got) != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if err := fillGuide(t.Context(), filepath.Join(dir, "absent"), dir, []result{r}); err == nil {
		t.Error("no error of a lapse that is not there")
	}
}
