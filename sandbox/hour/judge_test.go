package main

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// An hour in which all is right, of a disruption that drops requests and one that does not.
func right() hour {
	at := func(minute int) time.Time { return time.Date(2026, 11, 26, 10, minute, 0, 0, time.UTC) }
	h := hour{Disruptions: []disruption{
		{Service: "hour/web-0", What: "rollout", Began: at(10)},
		{Service: "hour/web-1", What: "crash", Drops: true, Began: at(11)},
		{Service: "hour/web-0", What: "deletion", Began: at(20)},
	}}
	for i := range 2 {
		g := guard{Pod: fmt.Sprint("guard-", i), Failed: 7}
		g.Answered.Min, g.Answered.Max = 1000, 1100
		for _, d := range h.Disruptions {
			r := run{Run: d.What, Service: d.Service, T0: d.Began.Add(-2 * time.Minute), Duration: 3 * time.Minute, Sent: 900, Verdict: "pass"}
			if d.Drops {
				r.Verdict, r.Failed, r.Lost = "fail", 7, 7
			}
			g.Runs = append(g.Runs, r)
		}
		for minute := range 60 {
			g.Samples = append(g.Samples, sample{At: at(minute), Memory: 40 << 20})
		}
		h.Guards = append(h.Guards, g)
	}
	h.Answered = 2050
	return h
}

func TestWhatIsWrongIsFound(t *testing.T) {
	for want, change := range map[string]func(h *hour, g *guard){
		"": func(*hour, *guard) {},
		"disruption 2, crash of hour/web-1, has 0 runs": func(_ *hour, g *guard) { g.Runs = append(g.Runs[:1], g.Runs[2]) },
		"disruption 1, rollout of hour/web-0, has 2 runs": func(_ *hour, g *guard) {
			g.Runs = append(g.Runs, g.Runs[0])
		},
		"run rollout of hour/web-0 is of 2 disruptions":                  func(_ *hour, g *guard) { g.Runs[0].Duration = time.Hour },
		"run rollout of hour/web-5 is of 0 disruptions":                  func(_ *hour, g *guard) { g.Runs[0].Service = "hour/web-5" },
		"disruption 2, crash of hour/web-1: pass":                        func(_ *hour, g *guard) { g.Runs[1].Verdict = "pass" },
		"disruption 1, rollout of hour/web-0: fail, 2 of 900":            func(_ *hour, g *guard) { g.Runs[0].Verdict, g.Runs[0].Failed, g.Runs[0].Lost = "fail", 2, 2 },
		"8 requests failed, 7 of them in runs":                           func(_ *hour, g *guard) { g.Failed = 8 },
		"its memory grows from 40 to 60 MiB":                             func(_ *hour, g *guard) { grow(g.Samples[40:]) },
		"the servers have answered 2400 requests, the guards say 2000 t": func(h *hour, _ *guard) { h.Answered = 2400 },
		"the servers have answered 1900 requests, the guards say 2000 t": func(h *hour, _ *guard) { h.Answered = 1900 },
	} {
		h := right()
		change(&h, &h.Guards[1])
		if err := errors.Join(h.wrong()...); fmt.Sprint(err) != "<nil>" && want == "" || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	h := right()
	h.Guards[0].Runs[0].Verdict, h.Guards[0].Runs[0].Failed = "fail", 2
	h.Guards[0].Runs[1].Verdict = "inconclusive"
	h.Guards[0].Failed = 9
	if err := errors.Join(h.wrong()...); err != nil {
		t.Errorf("of a machine that stands still: %v", err)
	}
	if doc := document([]hour{h}); !strings.Contains(doc, "| 10:11:00 | web-1 | crash | yes | inconclusive, 7 of 900 | fail, 7 of 900 |\n") {
		t.Error(doc)
	}
}

func grow(samples []sample) {
	for i := range samples {
		samples[i].Memory = 60 << 20
	}
}
