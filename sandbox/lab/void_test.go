package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

func TestOnlyAFailedRunOnAMachineWithoutTimeForItIsVoid(t *testing.T) {
	stop := func(length time.Duration) drill.Timeline {
		return drill.Timeline{Targets: []drill.Target{{}}, Events: []drill.Event{
			{Kind: "prober-stall", At: drill.Instant{Earliest: time.Second,
				Latest: time.Second + 120*time.Millisecond}},
			{Kind: "prober-stall", At: drill.Instant{Earliest: 5 * time.Second, Latest: 5*time.Second + length}},
		}}
	}
	blames := stop(time.Second)
	blames.Incidents = []drill.Incident{{Causes: []drill.Cause{{Rule: "pod-crashed", Confidence: "high"}}}}
	gap := drill.Timeline{Events: []drill.Event{{Kind: "watch-gap",
		At: drill.Instant{Earliest: 4 * time.Second, Latest: 5 * time.Second}}}}
	expected := Scenario{Expect: Expectation{Incidents: []Incident{{Rules: []string{"pod-crashed"}}}}}
	failed, held := []check{{ok: true}, {}}, []check{{ok: true}}
	var published settings
	published.Out = "docs/measured"
	for name, test := range map[string]struct {
		r    result
		s    settings
		want string
	}{
		"a machine that stood still": {result{checks: failed, run: drill.Run{Timeline: stop(time.Second)}},
			settings{}, "1.00 s, 5.00 s after"},
		"one that ran": {result{checks: failed,
			run: drill.Run{Timeline: stop(200 * time.Millisecond)}}, settings{}, ""},
		"a run that is as expected": {result{checks: held, run: drill.Run{Timeline: stop(time.Second)}},
			settings{}, ""},
		"a run that was not played": {result{err: errors.New("no"), run: drill.Run{Timeline: stop(time.Second)}},
			settings{}, ""},
		"a wrong cause, high": {result{checks: failed, run: drill.Run{Timeline: blames}}, settings{}, ""},
		"a right cause, high": {result{checks: failed, scenario: expected, run: drill.Run{Timeline: blames}},
			settings{}, "1.00 s, 5.00 s after"},
		"a watch that was interrupted": {result{checks: failed, run: drill.Run{Timeline: gap}},
			settings{}, "4.00 s after"},
		"one that the scenario interrupts": {result{checks: failed, run: drill.Run{Timeline: gap},
			scenario: Scenario{Steps: []Step{{Shared: true}}}}, settings{}, ""},
		"a run that will be published": {result{checks: failed, run: drill.Run{Timeline: stop(time.Second)}},
			published, ""},
	} {
		if got := test.r.void(test.s); (got == "") != (test.want == "") || !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
