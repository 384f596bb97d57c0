package main

import (
	"context"
	"sync"
	"time"

	"lapse/deploy"
	"lapse/timeline"
)

const (
	// compareClocks is how often the workstation's clock is compared with the run's.
	compareClocks = 10 * time.Second
	// drift is how far two clocks part at most, as a share of the time since they were compared. The kernel lets NTP
	// make a clock faster or slower by 500 ppm (adjtimex(2)), and there are two of them.
	drift = 1000e-6
)

// A runClock is the run's clock, as well as a workstation knows it: the local clock, and by how much the run's is
// ahead of it.
type runClock struct {
	local timeline.Clock

	mu       sync.Mutex
	offset   deploy.ClockOffset
	compared time.Duration // when, on the local clock
}

// An exchange compares the local clock with the run's, as [deploy.Agent.SyncClock] does.
type exchange func(ctx context.Context, local timeline.Clock) (deploy.ClockOffset, error)

// place puts what happened locally between two instants, the latter just now, on the run's clock.
func (c *runClock) place(earliest, latest time.Duration) (since, seen time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return drifted(c.offset, latest-c.compared).Place(earliest, latest)
}

// now is the latest the run's clock can read.
func (c *runClock) now() time.Duration {
	local := c.local.Now()
	_, latest := c.place(local, local)
	return latest
}

// compare compares the clocks through an exchange.
func (c *runClock) compare(ctx context.Context, exchange exchange) error {
	compared := c.local.Now() // before the exchanges: the older, the wider
	offset, err := exchange(ctx, c.local)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset, c.compared = offset, compared
	return nil
}

// keepComparing compares the clocks again and again until ctx ends. Where the Pod does not answer, the last offset
// goes on to widen.
func (c *runClock) keepComparing(ctx context.Context, exchange exchange) {
	tick := time.NewTicker(compareClocks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = c.compare(ctx, exchange)
		}
	}
}

// drifted is what is left of an offset some time after it was measured.
func drifted(o deploy.ClockOffset, age time.Duration) deploy.ClockOffset {
	slack := time.Duration(drift * float64(max(age, 0)))
	return deploy.ClockOffset{Min: o.Min - slack, Max: o.Max + slack}
}
