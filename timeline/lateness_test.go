package timeline

import (
	"testing"
	"time"
)

// A request that is sent as late as it may be leaves no gap that counts as unobserved, whatever resolution was asked
// for.
func TestWhatIsSentAtAllIsNoHole(t *testing.T) {
	for _, rate := range []float64{0.1, 1, 10, 50, 100, 300, 2000, 1e6} {
		interval := Target{Rate: rate}.Interval()
		sent, usual := MaxLateness(interval), UsualGap(interval)
		if sent > usual || usual > GapLimit(interval, 0) {
			t.Errorf("at %v/s: sent up to %v late, usual gap %v, limit %v: each must be at most the next", rate, sent, usual, GapLimit(interval, 0))
		}
		if asked := GapLimit(interval, time.Millisecond); asked < 3*interval {
			t.Errorf("at %v/s a resolution of 1ms makes a gap of %v a hole", rate, asked)
		}
	}
}

func TestIntervalOfAnUnknownRateIsZero(t *testing.T) {
	if got := (Target{}).Interval(); got != 0 {
		t.Errorf("%v, want 0", got)
	}
}
