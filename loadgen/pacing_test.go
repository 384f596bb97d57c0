package loadgen

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"lapse/timeline"
)

// The kernel wakes a thread late. Precise pacing wakes it as much earlier, and spins no longer than it must.
func TestPrecisePacingMakesUpForLateWakeUps(t *testing.T) {
	const late = 30 * time.Microsecond
	for _, test := range []struct {
		pacing    Pacing
		late      time.Duration
		spinsUpTo time.Duration // for each request
	}{
		{Economical, late, 0},
		{Precise, 0, spinning - late},
	} {
		t.Run(string(test.pacing), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				clock := timeline.StartClock()
				p, _ := testPacer(clock)
				var spun time.Duration
				p.early = test.pacing.early()
				p.sleep = func(d time.Duration) { time.Sleep(max(d, 0) + late) }
				p.spin = func(d time.Duration) {
					spun += d
					time.Sleep(d)
				}
				target, _ := newSink(p, 300)
				time.Sleep(time.Millisecond) // nothing has been waited for at the clock's zero
				p.add(target, clock.Now())
				p.runFor(10 * time.Second)
				requests, _, _ := target.Inflight.Take(nil, clock.Now())
				if len(requests) < 2999 {
					t.Errorf("%d requests", len(requests))
				}
				for _, r := range requests {
					if behind := r.Sent - r.Due; behind > test.late+time.Microsecond {
						t.Fatalf("due %v, sent %v late", r.Due, behind)
					}
				}
				if limit := time.Duration(len(requests)) * (test.spinsUpTo + time.Microsecond); spun > limit {
					t.Errorf("spun for %v, at most %v were needed", spun, limit)
				}
			})
		})
	}
}

func TestSpinningEndsOnTime(t *testing.T) {
	clock := timeline.StartClock()
	begun := clock.Now()
	spin(3 * ms)
	if took := clock.Now() - begun; took < 3*ms {
		t.Errorf("spun for %v", took)
	}
	spin(-ms)
}

func TestPacingsAreNamed(t *testing.T) {
	for name, want := range map[string]Pacing{"": Economical, "economical": Economical, "precise": Precise} {
		if got, err := ParsePacing(name); err != nil || got != want {
			t.Errorf("%q is %q, %v", name, got, err)
		}
	}
	if _, err := ParsePacing("fast"); err == nil || !strings.Contains(err.Error(), "economical, precise") {
		t.Error(err)
	}
}
