package source

import (
	"context"
	"time"

	"lapse/timeline"
)

const (
	// CompareEvery is the time between two comparisons of a source's clock with the run's.
	CompareEvery = time.Second
	// Drift is the most that two clocks drift apart, as a share of the time since they were compared. The kernel lets
	// NTP make each clock faster or slower by 500 ppm (adjtimex(2)).
	Drift = 1000e-6
)

// Sync states a comparison of clocks at the instant when compare returned. compare bounds how far the run's clock is
// ahead of this process's clock, at some instant during its call.
func Sync(clock timeline.Clock, compare func() (timeline.ClockOffset, error)) (timeline.Sync, error) {
	asked := clock.Now()
	ahead, err := compare()
	if err != nil {
		return timeline.Sync{}, err
	}
	answered := clock.Now()
	slack := driftIn(answered-asked) + 1
	return timeline.Sync{At: answered, Min: ahead.Min - slack, Max: ahead.Max + slack}, nil
}

// SyncOther is [Sync] in the process of the run's clock. compare bounds how far the other process's clock is ahead of
// it.
func SyncOther(clock timeline.Clock, compare func() (timeline.ClockOffset, error)) (timeline.Sync, error) {
	var ahead timeline.ClockOffset
	s, err := Sync(clock, func() (_ timeline.ClockOffset, err error) {
		ahead, err = compare()
		return ahead, err
	})
	if err != nil {
		return timeline.Sync{}, err
	}
	more := driftIn(ahead.Width()) // the other clock's instant is not known better
	return timeline.Sync{At: s.At + ahead.Max, Min: -s.Max - more, Max: -s.Min + more}, nil
}

func driftIn(length time.Duration) time.Duration { return time.Duration(Drift * float64(length)) }

// A comparison function compares the clock of a source with the run's.
type comparison func() (timeline.Sync, error)

// KeepComparing puts a comparison of clocks every [CompareEvery] until ctx ends. It leaves out those that fail.
func KeepComparing(ctx context.Context, of timeline.SourceID, compare comparison, put func(timeline.Fact)) {
	Every(ctx, CompareEvery, func() {
		if s, err := compare(); err == nil {
			s.Source = of
			put(s)
		}
	})
}

// Every calls do at each interval until ctx ends.
func Every(ctx context.Context, interval time.Duration, do func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			do()
		}
	}
}
