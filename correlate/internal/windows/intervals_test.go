package windows

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

// On the run's clock each rate begins where the prober's clock says, and the prober's own intervals stay as they are.
func TestIntervalsArePlacedOnAnotherClock(t *testing.T) {
	own := NewIntervals(600 * time.Millisecond)
	own.Change(5*time.Second, 30*time.Millisecond)
	own.Change(40*time.Second, 20*time.Millisecond)
	run := own.Placed(func(at time.Duration) model.Instant {
		return model.Instant{Earliest: at + time.Second, Latest: at + 2*time.Second}
	})
	for at, want := range map[time.Duration]time.Duration{
		0: 600, 6900 * time.Millisecond: 600, 7 * time.Second: 30, 41900 * time.Millisecond: 30, 42 * time.Second: 20,
	} {
		if got := run.At(at); got != want*time.Millisecond {
			t.Errorf("at %v of the run the interval is %v, want %v", at, got, want*time.Millisecond)
		}
	}
	if got := own.At(5 * time.Second); got != 30*time.Millisecond {
		t.Errorf("at 5 s of its own clock it is %v", got)
	}
}
