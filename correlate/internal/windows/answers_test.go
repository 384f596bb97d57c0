package windows

import (
	"math/rand/v2"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A route to one of several backends goes, and one to a new backend comes: who answers bounds both, and the truth
// lies inside.
func TestAnswersBoundWhenRoutesChanged(t *testing.T) {
	const (
		runs     = 2000
		interval = 10 * time.Millisecond
		all      = 3000
	)
	outside, unknown := 0, 0
	for seed := range uint64(runs) {
		random := rand.New(rand.NewPCG(seed, 1))
		n := 2 + random.IntN(6)
		k := InARow(n)
		leaves, comes := random.IntN(all), random.IntN(all)
		var a Answers
		for i := range all {
			sent := time.Duration(i) * interval
			backend := uint16(1 + random.IntN(n))
			for backend == 1 && i >= leaves || backend == 2 && i < comes {
				backend = uint16(1 + random.IntN(n))
				if n == 2 && i >= leaves && i < comes {
					break // there is no other
				}
			}
			a.take(&Sample{Sent: sent, Done: sent + time.Millisecond, Backend: backend, Class: timeline.OK})
			if i%500 == 499 {
				a = a.clone()
			}
		}
		if n == 2 {
			continue // the two are not alone
		}
		check := func(name string, at model.Instant, ok bool, truth int) {
			switch instant := time.Duration(truth) * interval; {
			case !ok:
				unknown++
			case instant < at.Earliest || at.Latest < instant-interval:
				outside++
				t.Logf("seed %d, %d backends: %s at %v, not in [%v, %v]", seed, n, name, instant, at.Earliest,
					at.Latest)
			}
		}
		left, ok := a.Left(1, k)
		check("left", left, ok, leaves)
		came, ok := a.Came(2, k)
		check("came", came, ok, comes)
	}
	if outside > runs/200 { // each is wrong once in 1000
		t.Errorf("%d of %d bounds are wrong", outside, 2*runs)
	}
	if unknown > runs/20 {
		t.Errorf("of %d of %d changes nothing is known", unknown, 2*runs)
	}
}

// A request that failed may have been routed to the backend that left: only successes in a row prove that it was not.
func TestAnswersCountNoFailure(t *testing.T) {
	var a Answers
	at := func(i int) time.Duration { return time.Duration(i) * time.Millisecond }
	take := func(i int, backend uint16, class timeline.Class) {
		a.take(&Sample{Sent: at(i), Done: at(i) + 1, Backend: backend, Class: class})
	}
	take(0, 1, timeline.OK)
	take(1, 2, timeline.OK)
	take(2, 2, timeline.OK)
	take(3, 0, timeline.Refused)
	for i := 4; i < 8; i++ {
		take(i, 2, timeline.OK)
	}
	if left, _ := a.Left(1, 4); left.Earliest != 0 || left.Latest != at(7)+1 { // rows of 1, 2, 3 and 4 are kept
		t.Errorf("left at %v", left)
	}
	if left, _ := a.Left(1, 5); left.Latest != model.Never {
		t.Errorf("four successes are no five: left at %v", left)
	}
	take(8, 0, timeline.DNS)
	if left, _ := a.Left(1, 4); left.Latest != at(7)+1 {
		t.Errorf("a look-up that failed was routed nowhere: left at %v", left)
	}
	take(9, 0, timeline.Refused)
	if left, _ := a.Left(1, 4); left.Latest != model.Never {
		t.Errorf("four successes before a failure may be chance: left at %v", left)
	}
	if came, _ := a.Came(2, 1); came.Earliest != 0 || came.Latest != at(1)+1 {
		t.Errorf("came at %v", came)
	}
	if came, _ := a.Came(2, 2); came.Earliest != model.Unbounded {
		t.Errorf("one success before is no two: came at %v", came)
	}
	if _, ok := a.Left(9, 1); ok {
		t.Error("a backend that never answered has left")
	}
}

// What followed the last answer of a backend is kept while thousands of others answer.
func TestAnswersKeepWhatFollowedTheLast(t *testing.T) {
	var a Answers
	for i := range 20 * mostAround {
		backend := uint16(2)
		if i == 100 {
			backend = 1
		}
		a.take(&Sample{Sent: time.Duration(i), Done: time.Duration(i) + 1, Backend: backend, Class: timeline.OK})
	}
	// the row of 11 is the shortest that is kept
	if left, ok := a.Left(1, 10); !ok || left != (model.Instant{Earliest: 100, Latest: 112}) {
		t.Errorf("left at %v, %v", left, ok)
	}
	if len(a.ring) != mostAround {
		t.Errorf("%d answers are kept", len(a.ring))
	}
}
