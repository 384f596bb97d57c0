package main

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lapse/deploy"
	"lapse/timeline"
)

// Two clocks that drift apart by less than the bound: what happens here is placed so that the bracket holds the
// instant on the run's clock, at any time, also while the Pod cannot be asked.
func TestAMarkIsPlacedAroundTheTruthWhileTheClocksDrift(t *testing.T) {
	for name, ppm := range map[string]float64{"ahead": 900, "behind": -900} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				local := timeline.StartClock()
				run := func() time.Duration {
					return 7*time.Second + time.Duration(float64(local.Now())*(1+ppm/1e6))
				}
				var unreachable atomic.Bool
				exchange := func(context.Context, timeline.Clock) (deploy.ClockOffset, error) {
					if unreachable.Load() {
						return deploy.ClockOffset{}, errors.New("unreachable")
					}
					offset := run() - local.Now()
					return deploy.ClockOffset{Min: offset - time.Millisecond, Max: offset + time.Millisecond}, nil
				}
				clock := runClock{local: local}
				if err := clock.compare(t.Context(), exchange); err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan struct{})
				go func() { clock.keepComparing(ctx, exchange); close(done) }()
				for minute := range 60 {
					unreachable.Store(minute >= 30)
					time.Sleep(time.Minute + time.Second)
					now := local.Now()
					since, seen := clock.place(now, now)
					if truth := run(); since > truth || truth > seen {
						t.Fatalf("minute %d: [%v, %v] does not hold %v", minute, since, seen, truth)
					}
					if minute < 30 && seen-since > 25*time.Millisecond {
						t.Fatalf("minute %d: the bracket is %v wide, although the clocks were compared lately", minute, seen-since)
					}
				}
				cancel()
				<-done
			})
		})
	}
}
