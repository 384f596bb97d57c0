package loadgen

import (
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
	"lapse/timeline/stepped"
)

// A wall clock that is stepped during the run changes nothing: requests leave when they are due, and time out neither
// at once nor never.
func TestStepsOfTheWallClockChangeNothing(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for name, step := range map[string]time.Duration{"back": -time.Hour, "forth": time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			begun := time.Now()
			clock := timeline.ClockAt(stepped.Since(begun, step))
			if moved := clock.T0().Round(0).Sub(begun.Round(0)); moved != -step {
				t.Fatalf("the wall is off by %v, want %v", moved, -step)
			}
			s := loadtest.Serve(t, faultserver.Config{T0: time.Now(), Faults: []faultserver.Fault{{Kind: faultserver.Stall, To: 3 * time.Hour, After: 40}}})
			var probes []Probe
			for i, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
				p := probe(timeline.TargetID(i+1), kind, s.URL(), 50)
				p.Timeout = 400 * time.Millisecond
				probes = append(probes, p)
			}
			f := run(t, clock, func(_ *Prober, f *facts) {
				loadtest.WaitFor(t, "good answers and timeouts of each", func() bool {
					return min(f.ended(1, timeline.OK), f.ended(2, timeline.OK), f.ended(1, timeline.TimeoutResponse),
						f.ended(2, timeline.TimeoutResponse)) >= 5
				})
			}, probes...)
			over := time.Since(begun)
			loadtest.Close(t, s)
			for i := range probes {
				requests := f.of(timeline.TargetID(i + 1))
				n := classes(requests)
				// no_slot: after a standstill many wait at once
				if failed(requests) != n[timeline.TimeoutResponse]+n[timeline.NoSlot] {
					t.Errorf("%s: %v", probes[i].Name, n)
				}
				for _, r := range requests {
					if r.Due < 0 || r.Done > over+time.Millisecond || r.Class.Timeout() &&
						r.Done-r.Sent < probes[i].Timeout {
						t.Errorf("%s: %+v of a run of %v", probes[i].Name, r, over)
					}
				}
			}
			if len(f.stalls) > 0 {
				t.Logf("stalls of this machine: %v", f.stalls)
			}
		})
	}
}
