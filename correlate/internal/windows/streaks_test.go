package windows

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// What streaks say of successes in a row is never sooner than it was, and later by no more than what is left out.
func TestStreaksKnowWhenSoManySucceededInARow(t *testing.T) {
	for seed := range uint64(30) {
		rng := rand.New(rand.NewPCG(seed, 1))
		var all []Sample
		var s Streaks
		for at := time.Duration(0); at < 40*time.Second; at += time.Duration(rng.IntN(10)) * time.Millisecond {
			r := Sample{Sent: at, Done: at + time.Duration(rng.IntN(3))*time.Millisecond, Class: timeline.OK}
			if rng.Float64() < []float64{0, 0.001, 0.3}[at/time.Second/4%3] {
				r.Class = timeline.Refused
			}
			all = append(all, r)
			s.take(&r)
			if rng.IntN(500) == 0 {
				s = s.clone()
			}
		}
		for range 300 {
			k, from := shortestStreak+rng.IntN(40), time.Duration(rng.Int64N(int64(40*time.Second)))
			soonest, got := inARowSince(all, k, from), s.Proof(k, from)
			near := from > 39*time.Second || slices.ContainsFunc(all, func(r Sample) bool {
				return r.Class != timeline.OK && (r.Sent-from).Abs() < 500*time.Millisecond
			})
			latest := inARowSince(all, k+8, from)
			if got < soonest || near && latest < model.Never && got > latest+30*time.Millisecond {
				t.Errorf("seed %d: %d in a row since %v by %v, want %v to %v", seed, k, from, got, soonest, latest)
			}
		}
	}
}

func inARowSince(all []Sample, k int, from time.Duration) time.Duration {
	n, done := 0, time.Duration(0)
	for _, r := range all {
		switch {
		case r.Sent < from:
		case r.Class != timeline.OK:
			n, done = 0, 0
		default:
			n, done = n+1, max(done, r.Done)
			if n == k {
				return done
			}
		}
	}
	return model.Never
}

func TestStreaksOfAHealthyTargetTakeLittleMemory(t *testing.T) {
	var s Streaks
	for at := time.Duration(0); at < time.Hour; at += time.Millisecond {
		s.take(&Sample{Sent: at, Done: at + time.Millisecond})
	}
	if n := cap(s.current.head) + cap(s.current.mid) + cap(s.current.tail); n > 2048 || len(s.ended) > 0 {
		t.Errorf("%d marks, %d streaks", n, len(s.ended))
	}
}

// A target that never fails is asked when so many of its requests had succeeded since another's failure, long after
// that.
func TestStreaksOfAHealthyTargetTellWhenTheMiddleWas(t *testing.T) {
	var s Streaks
	const every, length = 10 * time.Millisecond, 5 * time.Minute
	for at := time.Duration(0); at < length; at += every {
		s.take(&Sample{Sent: at, Done: at + time.Millisecond})
	}
	for from := time.Second; from < length-10*time.Second; from += 7 * time.Second {
		soonest := from + 18*every
		if got := s.Proof(18, from); got < soonest || got > soonest+length/midMarks*4 {
			t.Errorf("18 in a row since %v by %v, want it soon after %v", from, got, soonest)
		}
	}
}
