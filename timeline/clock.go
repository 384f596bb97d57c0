package timeline

import "time"

// A Clock is the monotonic clock of one source. Its zero instant and its wall-clock start are one
// reading, so a step of the wall clock during the run moves nothing.
type Clock struct {
	t0 time.Time
}

// StartClock returns a clock whose zero is now.
func StartClock() Clock { return Clock{t0: time.Now()} }

// ClockAt returns a clock that reads zero at t0. If t0 carries no monotonic reading, as after being
// parsed, the clock follows the wall.
func ClockAt(t0 time.Time) Clock { return Clock{t0: t0} }

// Now is the time since the clock's zero.
func (c Clock) Now() time.Duration { return time.Since(c.t0) }

// T0 is the wall-clock time of the clock's zero.
func (c Clock) T0() time.Time { return c.t0 }

// Wall is the wall-clock time of instant d, as the wall stood at the clock's zero.
func (c Clock) Wall(d time.Duration) time.Time { return c.t0.Add(d) }
