package trials

import (
	"testing"
	"time"
)

// A prober that is slow is stopped before it has ended: it was waited for in vain, for a minute, and said to have
// sent nothing.
func TestASlowProberIsStoppedInTime(t *testing.T) {
	var first time.Time
	begun := time.Now()
	for _, step := range []struct {
		answered int
		at       time.Duration
		want     bool
	}{{0, 0, false}, {0, 3 * time.Second, false}, {1, 4 * time.Second, false}, {60, 5400 * time.Millisecond, false}, {70, 5500 * time.Millisecond, true}, {200, 4100 * time.Millisecond, true}} {
		if got := readyToStop(step.answered, begun.Add(step.at), &first); got != step.want {
			t.Errorf("%d answers after %v: %v", step.answered, step.at, got)
		}
	}
}
