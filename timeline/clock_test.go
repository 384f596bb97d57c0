package timeline_test

import (
	"testing"
	"time"

	"lapse/timeline"
	"lapse/timeline/stepped"
)

// A step of the wall clock during the run moves no instant and no deadline.
func TestClockIgnoresStepsOfTheWall(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		before := time.Now()
		clock := timeline.ClockAt(stepped.Since(before, step))
		if now, elapsed := clock.Now(), time.Since(before); now < 0 || now > elapsed {
			t.Errorf("the wall stepped by %v: the clock is at %v, %v have passed at most", step, now, elapsed)
		}
		if left := time.Until(clock.Wall(clock.Now() + time.Minute)); left <= 0 || left > time.Minute {
			t.Errorf("the wall stepped by %v: a deadline in a minute is %v away", step, left)
		}
		if wall := clock.T0().Round(0).Sub(before.Round(0)); wall != -step {
			t.Errorf("the wall stepped by %v: the test shows %v", step, -wall)
		}
	}
}
