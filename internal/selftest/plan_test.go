package selftest

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"lapse/internal/layer"
)

// plans are those of many seeds, rates and durations.
func plans(t *testing.T, check func(t *testing.T, p Plan, rate float64, duration time.Duration)) {
	t.Helper()
	for _, rate := range []float64{MinRate, 200, 1000, 5000} {
		for _, duration := range []time.Duration{MinDuration, 30 * time.Second, time.Minute, 5 * time.Minute} {
			for seed := range uint64(40) {
				for _, protocol := range []Protocol{HTTP, TCP, UDP} {
					if p := NewPlan(protocol, seed, rate, duration); !t.Failed() {
						check(t, p, rate, duration)
					}
				}
			}
		}
	}
}

func TestPlanFollowsFromSeedRateAndDuration(t *testing.T) {
	a, b := NewPlan(HTTP, 1, 200, time.Minute), NewPlan(HTTP, 1, 200, time.Minute)
	if !reflect.DeepEqual(a, b) {
		t.Errorf("one seed, two plans:\n%+v\n%+v", a, b)
	}
	if c := NewPlan(HTTP, 2, 200, time.Minute); reflect.DeepEqual(a, c) {
		t.Error("two seeds, one plan")
	}
}

func TestPlanHoldsEveryClass(t *testing.T) {
	layer.Real(t)
	plans(t, func(t *testing.T, p Plan, rate float64, duration time.Duration) {
		planned := map[Class]bool{}
		for _, o := range p {
			planned[o.Class] = true
		}
		is := func(c Class) func(Planned) bool { return func(o Planned) bool { return o.Class == c } }
		if slices.IndexFunc(p, is(Stalled)) > slices.IndexFunc(p, is(Slow)) {
			t.Errorf("%v/s for %v: answers are slow before the first stall", rate, duration)
		}
		if n := len(planned); n != len(HTTP.Classes) && n != len(TCP.Classes) && n != len(UDP.Classes) {
			t.Errorf("%v/s for %v: only %v", rate, duration, planned)
		}
	})
}

// A plan has only what the protocol's server can do.
func TestPlanKeepsToItsProtocol(t *testing.T) {
	for _, protocol := range []Protocol{HTTP, WebSocket, TCP, UDP, DNS} {
		planned := map[Class]bool{}
		for seed := range uint64(20) {
			for _, o := range NewPlan(protocol, seed, 200, time.Minute) {
				planned[o.Class] = true
				if _, fails := protocol.fails[o.Kind]; !slices.Contains(protocol.Classes, o.Class) || o.Class.failing() && !fails {
					t.Errorf("%s: %+v", protocol.Name, o)
				}
			}
		}
		if len(planned) != len(protocol.Classes) {
			t.Errorf("%s: only %v", protocol.Name, planned)
		}
	}
}

func TestPlanLeavesNoDoubtWhichOutagesAreOneWindow(t *testing.T) {
	plans(t, func(t *testing.T, p Plan, rate float64, duration time.Duration) {
		if p[0].From < Lead || p[len(p)-1].To > duration-Tail {
			t.Errorf("%v/s for %v: from %v to %v", rate, duration, p[0].From, p[len(p)-1].To)
		}
		for i, o := range p {
			if i > 0 && o.From-p[i-1].To < Join*3/2 {
				t.Errorf("%v/s for %v: %v after the one before: %+v", rate, duration, o.From-p[i-1].To, o)
			}
		}
	})
}

func TestPlanMakesAShareShowAsAShare(t *testing.T) {
	plans(t, func(t *testing.T, p Plan, rate float64, duration time.Duration) {
		for _, o := range p {
			if fail := o.Share * rate * (o.To - o.From).Seconds(); o.Class == Random && fail < 29.9 {
				t.Errorf("%v/s for %v: %v requests of %+v fail", rate, duration, fail, o)
			}
		}
	})
}

// Before answers are late for the first time, which would leave it possible that an outage of every request was one
// of a share.
func TestPlanBeginsWithALongOutageOfEveryRequest(t *testing.T) {
	plans(t, func(t *testing.T, p Plan, rate float64, duration time.Duration) {
		if o := p[0]; !o.Class.total() || o.To-o.From != 200*time.Millisecond {
			t.Errorf("%v/s for %v: begins with %+v", rate, duration, o)
		}
	})
}

func TestLongPlanHoldsLengthsFromTwoMillisecondsToFiveSeconds(t *testing.T) {
	shortest, longest := time.Hour, time.Duration(0)
	for _, o := range NewPlan(HTTP, 1, 200, 5*time.Minute) {
		shortest, longest = min(shortest, o.To-o.From), max(longest, o.To-o.From)
	}
	if shortest != 2*time.Millisecond || longest < 5*time.Second {
		t.Errorf("from %v to %v", shortest, longest)
	}
}
