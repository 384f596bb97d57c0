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

const (
	// wallStep is a change between the wall clock and the monotonic one that is no inaccuracy of reading them. A
	// suspended machine's monotonic clock stands still (CLOCK_MONOTONIC, clock_gettime(2)), and its wall clock goes
	// on.
	wallStep = 50 * time.Millisecond
)

// A runClock is the run's clock, as well as a workstation knows it: the local clock, and by how much the run's is
// ahead of it, from comparing them again and again.
type runClock struct {
	local timeline.Clock
	log   *slog.Logger // where a jump is logged; may be nil

	mu    sync.Mutex
	known []comparison // oldest first
}

// A comparison is what was known, at an instant of the local clock, of the offset to the run's.
type comparison struct {
	at     time.Duration
	wall   time.Duration // by how much the wall clock was ahead of the local one, since the local one's zero
	offset timeline.ClockOffset
	jumped bool // the clocks have parted since the comparison before by more than they drift: this one stands alone
}

// A stamp is when something happened here: between two instants of the local clock.
type stamp struct {
	earliest, latest time.Duration
	wall             time.Duration // as in a comparison, when it was stamped
}

// stamp says that something happened here between two instants, the latter just now.
func (c *runClock) stamp(earliest, latest time.Duration) stamp {
	return stamp{earliest: earliest, latest: latest, wall: c.wall()}
}

func (c *runClock) wall() time.Duration {
	now := time.Now()
	return now.Round(0).Sub(c.local.T0().Round(0)) - now.Sub(c.local.T0())
}

// place puts what happened here on the run's clock, by all comparisons so far. It is the better placed if one of them
// was made after it.
func (c *runClock) place(s stamp) (since, seen time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return offsetOf(c.known, s).Place(s.earliest, s.latest)
}

// now is the latest the run's clock can read.
func (c *runClock) now() time.Duration {
	local := c.local.Now()
	_, latest := c.place(c.stamp(local, local))
	return latest
}

// An exchange compares the local clock with the run's, as [agent.Client.SyncClock] does.
type exchange func(ctx context.Context, local timeline.Clock) (timeline.ClockOffset, error)

// compare compares the clocks through an exchange.
func (c *runClock) compare(ctx context.Context, exchange exchange) error {
	made := comparison{at: c.local.Now(), wall: c.wall()} // before the exchanges: the older, the wider
	var err error
	if made.offset, err = exchange(ctx, c.local); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.known) > 0 {
		last := c.known[len(c.known)-1]
		made = continued(last, made)
		if made.jumped && c.log != nil {
			c.log.Warn("this machine was suspended, or its clock jumped: what the command did meanwhile is placed no better than that",
				"by", (made.offset.Min - last.offset.Min).Round(time.Millisecond), "within", (made.at - last.at).Round(time.Millisecond))
		}
	}
	c.known = append(c.known, made)
	return nil
}

// compareSince compares the clocks, if that was not done since an instant.
func (c *runClock) compareSince(ctx context.Context, instant time.Duration, exchange exchange) error {
	c.mu.Lock()
	done := len(c.known) > 0 && c.known[len(c.known)-1].at >= instant
	c.mu.Unlock()
	if done {
		return nil
	}
	return c.compare(ctx, exchange)
}

// keepComparing compares the clocks again and again until ctx ends. Where the Pod does not answer, the last offset
// goes on to widen.
func (c *runClock) keepComparing(ctx context.Context, exchange exchange) {
	source.Every(ctx, spec.CompareClocks, func() { _ = c.compare(ctx, exchange) })
}

// continued is a comparison in the light of the one before it: both offsets hold, unless one of the clocks jumped
// between them.
func continued(last, made comparison) comparison {
	both := intersection(last.near(made.at, made.at), made.offset)
	if moved := made.wall - last.wall; both.Width() < 0 || moved > wallStep || moved < -wallStep {
		made.jumped = true
		return made
	}
	made.offset = both
	return made
}

// offsetOf bounds the offset at what was stamped, by the comparisons around it. Of those between which the clocks did
// not jump all hold; where they jumped, any may.
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

// near is what is left of a comparison's offset at two other instants, earlier or later ones.
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
