package workstation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// wallStep is a change between the wall clock and the monotonic one that is larger than the inaccuracy of reading
// them. While a machine is suspended its monotonic clock stands still (CLOCK_MONOTONIC, clock_gettime(2)), and its
// wall clock goes on.
const wallStep = 50 * time.Millisecond

// A runClock is the run's clock as a workstation knows it: the local clock, and by how much the run's clock is ahead
// of it, from repeated comparisons.
type runClock struct {
	local timeline.Clock
	log   *slog.Logger // where a jump is logged; may be nil

	mu    sync.Mutex
	known []comparison // oldest first
}

// A comparison is what was known, at an instant of the local clock, of the offset to the run's.
type comparison struct {
	at     time.Duration // when the exchange had ended
	wall   time.Duration // by how much the wall clock was ahead of the local one, since the local one's zero
	offset timeline.ClockOffset
	jumped bool // since the comparison before, the clocks have parted by more than they drift: this one stands alone
}

// A stamp is when something happened here: between two instants of the local clock.
type stamp struct {
	earliest, latest time.Duration
	wall             time.Duration // as in a comparison, when it was stamped
}

// stamp returns the stamp of what happened here between two instants, the latter just now.
func (c *runClock) stamp(earliest, latest time.Duration) stamp {
	return stamp{earliest: earliest, latest: latest, wall: c.wall()}
}

func (c *runClock) wall() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(c.local.T0().Round(0)) - now.Sub(c.local.T0())
}

// place puts what happened here on the run's clock, by all comparisons so far. The bounds are narrower if one of them
// was made after it.
func (c *runClock) place(s stamp) (since, seen time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return offsetOf(c.known, s).Place(s.earliest, s.latest)
}

// now returns the latest that the run's clock can read.
func (c *runClock) now() time.Duration {
	local := c.local.Now()
	_, latest := c.place(c.stamp(local, local))
	return latest
}

// An exchange compares the local clock with the run's, as [agent.Client.SyncClock] does.
type exchange func(ctx context.Context, local timeline.Clock) (timeline.ClockOffset, error)

// compare compares the clocks through an exchange.
func (c *runClock) compare(ctx context.Context, exchange exchange) error {
	var is timeline.Sync
	wall, err := steadily(c.wall, func() (err error) {
		is, err = source.Sync(c.local, func() (timeline.ClockOffset, error) { return exchange(ctx, c.local) })
		return err
	})
	if err != nil {
		return err
	}
	made := comparison{at: is.At, wall: wall, offset: timeline.ClockOffset{Min: is.Min, Max: is.Max}}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > 0 {
		last := c.known[len(c.known)-1]
		made = continued(last, made)
		if made.jumped && c.log != nil {
			by, within := made.offset.Min-last.offset.Min, made.at-last.at
			c.log.Warn("this machine was suspended, or its clock jumped: "+
				"the command's events in that time are placed no better",
				"by", by.Round(time.Millisecond), "within", within.Round(time.Millisecond))
		}
	}
	c.known = append(c.known, made)
	return nil
}

// steadily repeats do until the wall clock did not step meanwhile, and returns the wall clock. If it stepped, nobody
// knows whether clocks were compared before or after.
func steadily(wall func() time.Duration, do func() error) (time.Duration, error) {
	for {
		before := wall()
		if err := do(); err != nil {
			return 0, err
		}
		if after := wall(); !stepped(before, after) {
			return after, nil
		}
	}
}

// stepped reports whether a wall clock stepped between two readings.
func stepped(before, after time.Duration) bool { return (after - before).Abs() > wallStep }

// compareSince compares the clocks, unless that was done since an instant.
func (c *runClock) compareSince(ctx context.Context, instant time.Duration, exchange exchange) error {
	c.mu.Lock()
	done := len(c.known) > 0 && c.known[len(c.known)-1].at >= instant
	c.mu.Unlock()
	if done {
		return nil
	}
	return c.compare(ctx, exchange)
}

// keepComparing compares the clocks every [spec.CompareClocks] until ctx ends. While the Pod does not answer, the
// bounds of the offset widen.
func (c *runClock) keepComparing(ctx context.Context, exchange exchange) {
	source.Every(ctx, spec.CompareClocks, func() { _ = c.compare(ctx, exchange) })
}

// continued returns a comparison narrowed by the one before it, unless one of the clocks jumped between them.
func continued(last, made comparison) comparison {
	both := intersection(last.near(made.at, made.at), made.offset)
	if both.Width() < 0 || stepped(last.wall, made.wall) {
		made.jumped = true
		return made
	}
	made.offset = both
	return made
}

// offsetOf returns bounds of the offset at a stamp, from the comparisons around it. All comparisons between which the
// clocks did not jump hold; where they jumped, any may hold.
func offsetOf(known []comparison, s stamp) timeline.ClockOffset {
	first := 0
	for i, c := range known {
		if c.at <= s.earliest {
			first = i
		}
	}
	last := known[first]
	held := last.near(s.earliest, s.latest) // since the last jump
	var before []timeline.ClockOffset       // what held before each jump
	for _, c := range known[first+1:] {
		if last.at >= s.latest {
			break
		}
		last = c
		if near := c.near(s.earliest, s.latest); c.jumped {
			before, held = append(before, held), near
		} else {
			held = intersection(held, near)
		}
	}
	if last.at < s.latest && s.wall-last.wall > wallStep { // suspended since
		held.Max += s.wall - last.wall
	}
	for _, other := range before {
		held = hull(held, other)
	}
	return held
}

// near returns a comparison's offset, widened by the drift, at two other instants, earlier or later ones.
func (c comparison) near(a, b time.Duration) timeline.ClockOffset {
	slack := time.Duration(source.Drift * float64(max((a-c.at).Abs(), (b-c.at).Abs())))
	return timeline.ClockOffset{Min: c.offset.Min - slack, Max: c.offset.Max + slack}
}

func intersection(a, b timeline.ClockOffset) timeline.ClockOffset {
	return timeline.ClockOffset{Min: max(a.Min, b.Min), Max: min(a.Max, b.Max)}
}

func hull(a, b timeline.ClockOffset) timeline.ClockOffset {
	return timeline.ClockOffset{Min: min(a.Min, b.Min), Max: max(a.Max, b.Max)}
}
