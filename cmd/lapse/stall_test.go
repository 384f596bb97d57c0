package main

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// Done: the service stalls for 2 s. A naive, closed loop asks it once per connection meanwhile, and has one slow answer to
// show for it. Lapse, at any rate and on new and kept connections alike: down, and no part of it unobserved, unless the
// prober itself was stopped.
func TestTruthOfAStallAtManyRates(t *testing.T) {
	from, to := 500*time.Millisecond, 2500*time.Millisecond
	clock := timeline.StartClock()
	server, err := faultserver.Start(faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{{Kind: faultserver.Stall, From: from, To: to}}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tracker := correlate.NewTracker(correlate.Options{})
	add := func(f timeline.Fact) {
		mu.Lock()
		defer mu.Unlock()
		tracker.Add(f)
	}
	add(timeline.Meta{T0: clock.T0(), Options: timeline.Options{Join: time.Second, Slow: 500 * time.Millisecond, Timeout: 400 * time.Millisecond}})
	prober := loadgen.New(loadgen.Config{Clock: clock, Sink: add})
	id := uint16(0)
	for _, rate := range []float64{10, 100, 500} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			id++
			target := timeline.Target{ID: id, Name: fmt.Sprint(kind, " ", rate), Kind: kind, URL: server.URL(), Rate: rate, Timeout: 400 * time.Millisecond}
			add(target)
			if err := prober.Start(loadgen.Probe{Target: target}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), to+500*time.Millisecond)
	defer cancel()
	if err := prober.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	add(timeline.Event{Seen: to + 500*time.Millisecond, Kind: timeline.RunPhase, To: phaseEnded})
	tl := tracker.Timeline()

	for _, target := range tl.Targets {
		interval := time.Duration(float64(time.Second) / target.Rate)
		dark := time.Duration(0)
		for _, u := range tl.Unobserved {
			if u.Target == target.Name && u.Reason != "prober stalled" && !beside(tl.Events, u) {
				dark += max(0, min(u.End, to)-max(u.Start, from))
			}
		}
		if dark > 0 {
			t.Errorf("%s: %v of the stall are unobserved, though the prober ran: %v", target.Name, dark, target.Classes)
		}
		// A stall ends for those who ask within the timeout before its end.
		due := int((to - from - 400*time.Millisecond) / interval)
		if asked := target.Failed + target.NotSent; asked < due-1 || target.Failed != target.Classes[timeline.TimeoutResponse.String()] {
			t.Errorf("%s: %v, at least %d were due in the stall", target.Name, target.Classes, due)
		}
		t.Logf("%s: %v, coverage %.3f", target.Name, target.Classes, target.Coverage)
	}
}

// beside reports whether the prober was stopped around an unobserved time.
func beside(events []correlate.Event, u correlate.Unobserved) bool {
	for _, e := range events {
		if e.Kind == timeline.ProberStall && e.At.Earliest <= u.End && u.Start <= e.At.Latest {
			return true
		}
	}
	return false
}
