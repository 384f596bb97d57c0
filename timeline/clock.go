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

// Now returns the time since the clock's zero.
func (c Clock) Now() time.Duration { return time.Since(c.t0) }

// T0 returns the wall-clock time of the clock's zero.
func (c Clock) T0() time.Time { return c.t0 }

// Wall returns the wall-clock time of instant d, without steps of the wall clock after the clock's zero.
func (c Clock) Wall(d time.Duration) time.Time { return c.t0.Add(d) }

// A ClockOffset bounds how far the run's clock is ahead of a local one: run = local + offset.
type ClockOffset struct{ Min, Max time.Duration }

// Place returns the bounds, on the run's clock, of what happened between two local instants.
func (o ClockOffset) Place(earliest, latest time.Duration) (since, seen time.Duration) {
	return max(earliest+o.Min, 0), max(latest+o.Max, 0)
}

// Width returns the uncertainty: the round trip of the exchange that was measured.
func (o ClockOffset) Width() time.Duration { return o.Max - o.Min }
