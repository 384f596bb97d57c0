package workstation

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

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
				exchange := func(context.Context, timeline.Clock) (timeline.ClockOffset, error) {
					if unreachable.Load() {
						return timeline.ClockOffset{}, errors.New("unreachable")
					}
					offset := run() - local.Now()
					return timeline.ClockOffset{Min: offset - time.Millisecond, Max: offset + time.Millisecond}, nil
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
					since, seen := clock.place(clock.stamp(now, now))
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

const ms = time.Millisecond

func bounds(lo, hi time.Duration) timeline.ClockOffset { return timeline.ClockOffset{Min: lo, Max: hi} }

func TestAnOffsetThatHoldsIsNotReplacedByAWiderOne(t *testing.T) {
	narrow := comparison{at: 10 * time.Second, offset: bounds(100*ms, 102*ms)}
	for _, test := range []struct {
		name string
		made comparison
		want comparison
	}{
		{"a wider one", comparison{at: 11 * time.Second, offset: bounds(60*ms, 160*ms)}, comparison{offset: bounds(99*ms, 103*ms)}},
		{"a narrower one", comparison{at: 11 * time.Second, offset: bounds(101*ms, 101*ms)}, comparison{offset: bounds(101*ms, 101*ms)}},
		{"one that overlaps", comparison{at: 11 * time.Second, offset: bounds(102*ms, 110*ms)}, comparison{offset: bounds(102*ms, 103*ms)}},
		{"one that cannot hold too", comparison{at: 11 * time.Second, offset: bounds(5100*ms, 5200*ms)}, comparison{offset: bounds(5100*ms, 5200*ms), jumped: true}},
		{"after a step of the wall clock", comparison{at: 11 * time.Second, wall: time.Second, offset: bounds(60*ms, 160*ms)}, comparison{offset: bounds(60*ms, 160*ms), jumped: true}},
	} {
		got := continued(narrow, test.made)
		if got.offset != test.want.offset || got.jumped != test.want.jumped {
			t.Errorf("%s: got %v, jumped %v", test.name, got.offset, got.jumped)
		}
	}
}

func TestWhatHappenedHereIsPlacedByTheComparisonsAroundIt(t *testing.T) {
	const s = time.Second
	first := comparison{at: 10 * s, offset: bounds(0, 4*ms)}
	second := comparison{at: 20 * s, offset: bounds(2*ms, 6*ms)}
	jump := comparison{at: 20 * s, wall: 300 * s, offset: bounds(300*s, 300*s+4*ms), jumped: true}
	after := comparison{at: 30 * s, wall: 300 * s, offset: bounds(300*s, 300*s+2*ms)}
	for _, test := range []struct {
		name  string
		known []comparison
		stamp stamp
		want  timeline.ClockOffset
	}{
		{"just after one", []comparison{first}, stamp{earliest: 10 * s, latest: 10 * s}, bounds(0, 4*ms)},
		{"long after one", []comparison{first}, stamp{earliest: 19 * s, latest: 20 * s}, bounds(-10*ms, 14*ms)},
		{"before the first", []comparison{first}, stamp{earliest: 9 * s, latest: 10 * s}, bounds(-1*ms, 5*ms)},
		{"between two", []comparison{first, second}, stamp{earliest: 15 * s, latest: 15 * s}, bounds(-3*ms, 9*ms)},
		{"near the second", []comparison{first, second}, stamp{earliest: 19 * s, latest: 20 * s}, bounds(1*ms, 7*ms)},
		{"between two that a jump parts", []comparison{first, jump}, stamp{earliest: 10 * s, latest: 11 * s}, bounds(-1*ms, 300*s+14*ms)},
		{"after a jump", []comparison{first, jump, after}, stamp{earliest: 29 * s, latest: 30 * s}, bounds(300*s-1*ms, 300*s+3*ms)},
		{"suspended, and not compared yet", []comparison{first}, stamp{earliest: 11 * s, latest: 11 * s, wall: 300 * s}, bounds(-1*ms, 300*s+5*ms)},
	} {
		if got := offsetOf(test.known, test.stamp); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}

// The machine is suspended while an exchange waits for the network: what happened here before is placed so that the
// bracket holds the truth.
func TestAMarkIsPlacedAroundTheTruthIfASuspendCameDuringAComparison(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := runClock{local: timeline.StartClock()}
		const suspended = 10 * time.Minute // from 3 s after it began
		if err := clock.compare(t.Context(), func(context.Context, timeline.Clock) (timeline.ClockOffset, error) {
			return bounds(-ms, ms), nil
		}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second)
		began := clock.local.Now()
		if err := clock.compare(t.Context(), func(context.Context, timeline.Clock) (timeline.ClockOffset, error) {
			time.Sleep(4 * time.Second)
			return bounds(suspended-ms, suspended+ms), nil
		}); err != nil {
			t.Fatal(err)
		}
		for in, truth := range map[time.Duration]time.Duration{2 * time.Second: 0, 3500 * ms: suspended} {
			at := began + in
			if since, seen := clock.place(stamp{earliest: at, latest: at}); since > at+truth || at+truth > seen {
				t.Errorf("%v after it began: [%v, %v] does not hold %v", in, since, seen, at+truth)
			}
		}
	})
}

// The clocks drift apart while an exchange waits for the network, before the attempt that is answered or after the best.
func TestAMarkIsPlacedAroundTheTruthAfterALongComparison(t *testing.T) {
	for _, waits := range [][2]time.Duration{{time.Minute, 0}, {0, time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			clock := runClock{local: timeline.StartClock()}
			ahead := func(at time.Duration) time.Duration { return time.Duration(900e-6 * float64(at)) }
			err := clock.compare(t.Context(), func(context.Context, timeline.Clock) (timeline.ClockOffset, error) {
				time.Sleep(waits[0])
				offset := ahead(clock.local.Now())
				time.Sleep(waits[1])
				return bounds(offset-ms, offset+ms), nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range []time.Duration{0, 30 * time.Second, clock.local.Now()} {
				if since, seen := clock.place(stamp{earliest: at, latest: at}); since > at+ahead(at) || at+ahead(at) > seen {
					t.Errorf("%v: [%v, %v] does not hold %v", at, since, seen, at+ahead(at))
				}
			}
		})
	}
}

// What was compared while the wall clock stepped may be of before or after.
func TestAComparisonIsRepeatedIfTheWallClockSteppedMeanwhile(t *testing.T) {
	walls, made := []time.Duration{0, 10 * time.Minute, 10 * time.Minute, 10*time.Minute + ms}, 0
	wall, err := steadily(
		func() (is time.Duration) { is, walls = walls[0], walls[1:]; return is },
		func() error { made++; return nil })
	if err != nil || made != 2 || wall != 10*time.Minute+ms {
		t.Errorf("compared %d times, %v ahead, %v", made, wall, err)
	}
}

// The machine is suspended for five minutes, in which its monotonic clock stands still: what happened here before and
// after is placed so that the bracket holds the truth, and the user learns of it.
func TestAMarkIsPlacedAroundTheTruthAfterASuspend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local := timeline.StartClock()
		var suspended time.Duration
		exchange := func(context.Context, timeline.Clock) (timeline.ClockOffset, error) {
			return timeline.ClockOffset{Min: suspended - ms, Max: suspended + ms}, nil
		}
		var log strings.Builder
		clock := runClock{local: local, log: slog.New(slog.NewTextHandler(&log, nil))}
		if err := clock.compare(t.Context(), exchange); err != nil {
			t.Fatal(err)
		}
		time.Sleep(3 * time.Second)
		before, after := local.Now(), local.Now()+time.Second
		suspended = 5 * time.Minute // at 3.5 s
		time.Sleep(2 * time.Second)
		if err := clock.compareSince(t.Context(), after, exchange); err != nil {
			t.Fatal(err)
		}
		for instant, truth := range map[time.Duration]time.Duration{before: before, after: after + suspended} {
			if since, seen := clock.place(stamp{earliest: instant, latest: instant}); since > truth || truth > seen {
				t.Errorf("at %v: [%v, %v] does not hold %v", instant, since, seen, truth)
			}
		}
		if !strings.Contains(log.String(), "suspended") {
			t.Errorf("the user reads %q", log.String())
		}
		now := local.Now()
		if since, seen := clock.place(clock.stamp(now, now)); seen-since > 3*ms || since > now+suspended || now+suspended > seen {
			t.Errorf("afterwards: [%v, %v] for %v", since, seen, now+suspended)
		}
	})
}
