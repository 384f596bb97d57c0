package budget

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// of is what a Service asks for at the defaults: 15/s while it waits, and up to 700/s.
var of = Demand{Targets: 2, Idle: 5, Full: 100, Direct: 100}

var begun = time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC)

// filled returns a budget of n Services, and their shares.
func filled(t *testing.T, most float64, n int, d Demand) (*Budget, []*Share) {
	t.Helper()
	b, shares := New(most), []*Share(nil)
	for i := range n {
		s, err := b.Join(fmt.Sprintf("shop/s%d", i), d, begun)
		if err != nil {
			t.Fatal(err)
		}
		shares = append(shares, s)
	}
	return b, shares
}

// sent returns how many requests all get at most.
func sent(shares []*Share) (sum float64) {
	for _, s := range shares {
		if s.full {
			sum += s.fullAt(s.rate())
		} else {
			sum += s.idleAt(s.rate())
		}
	}
	return sum
}

func TestABudgetIsShared(t *testing.T) {
	for name, test := range map[string]struct {
		most                float64
		services, disrupted int
		demand              Demand
		want                Rates
	}{
		"enough":                           {2000, 10, 2, of, Rates{5, 100}},
		"one more halves it":               {2000, 10, 3, of, Rates{5, 50}},
		"a node of many Services":          {2000, 57, 39, of, Rates{5, 6.25}},
		"all of them: no less than idle":   {2000, 57, 57, of, Rates{5, 5}},
		"500 on a budget for 50":           {1750, 500, 0, of, Rates{0.3125, 100}},
		"one of those is measured in full": {1750, 500, 1, of, Rates{0.3125, 100}},
		"a hundred of those":               {1750, 500, 100, of, Rates{0.3125, 1.5625}},
		"all of those":                     {1750, 500, 500, of, Rates{0.3125, 0.390625}},
		"2000: the lowest rate":            {1400, 2000, 10, of, Rates{0.1, 6.25}},
		"without Pods' addresses, half":    {200, 10, 0, Demand{Targets: 2, Idle: 5, Full: 100}, Rates{5, 100}},
		"half, and no more":                {199, 10, 0, Demand{Targets: 2, Idle: 5, Full: 100}, Rates{2.5, 100}},
		"and the rest is for one":          {200, 10, 1, Demand{Targets: 2, Idle: 5, Full: 100}, Rates{5, 50}},
		"a rate that is low anyhow":        {2000, 10, 10, Demand{Targets: 2, Idle: 1, Full: 1, Direct: 1}, Rates{1, 1}},
		"many ways to one Service":         {2000, 1, 1, Demand{Targets: 24, Idle: 5, Full: 100, Direct: 100}, Rates{5, 50}},
		"the Pods' addresses at most so":   {2000, 3, 3, Demand{Targets: 2, Idle: 5, Full: 100, Direct: 10}, Rates{5, 100}},
		"nobody":                           {2000, 0, 0, of, Rates{}},
	} {
		b, shares := filled(t, test.most, test.services, test.demand)
		for _, s := range shares[:test.disrupted] {
			s.Rate(test.demand.Targets, true, begun)
		}
		s := b.State()
		if s.Rates != test.want || !within(sent(shares), test.most) {
			t.Errorf("%s: %+v, %v/s in all", name, s.Rates, sent(shares))
		}
		lowered := 0
		for _, share := range shares {
			if rate, asked := share.Lowered(); rate < asked {
				lowered++
			}
		}
		if s.Lowered != lowered || lowered > 0 != (sent(shares) > 0 && (test.want.Idle < test.demand.Idle || test.want.Full < test.demand.Full)) {
			t.Errorf("%s: %d are lowered, it says %d", name, lowered, s.Lowered)
		}
	}
}

// What does not fit at the lowest rate is left out. What is measured stays, also if it asks again.
func TestWhatDoesNotFitIsLeftOut(t *testing.T) {
	b, shares := filled(t, 7, 10, of)
	_, err := b.Join("shop/late", of, begun)
	if err == nil || err.Error() != "--max-rate 7 is not enough: it takes 7.7 with the 10 Services before it, at 0.1/s to each target" {
		t.Errorf("%v", err)
	}
	if again, err := b.Join("shop/s0", of, begun); err != nil || again != shares[0] {
		t.Errorf("who has a share does not get it again: %v", err)
	}
	b.Leave("shop/s3", begun)
	if _, err := b.Join("shop/late", of, begun); err != nil {
		t.Errorf("there is room, but %v", err)
	}
	b.Set(3, begun)
	if _, err := b.Join("shop/s0", of, begun); err != nil {
		t.Errorf("the first fits into less, but %v", err)
	}
	if _, err := b.Join("shop/s9", of, begun); err == nil || !strings.Contains(err.Error(), "--max-rate 3 ") {
		t.Errorf("the last does not fit: %v", err)
	}
}

// Who comes gets a share at once, and the others less. Who leaves gives it back, which changes no run for a while, and
// the next one gets it at once if there is none.
func TestSharesChangeSeldom(t *testing.T) {
	b, shares := filled(t, 2000, 10, of)
	now, changes := begun, 0
	b.Changed = func(State) { changes++ }
	at := func(after time.Duration, share int, full bool, want float64) {
		t.Helper()
		now = now.Add(after)
		if rate := shares[share].Rate(2, full, now); rate != want {
			t.Errorf("%v after the beginning: %v/s, want %v", now.Sub(begun), rate, want)
		}
		if sum := sent(shares); sum > 2000 {
			t.Errorf("%v/s in all", sum)
		}
	}
	at(0, 0, true, 100)
	at(time.Second, 1, true, 100)
	at(time.Second, 2, true, 50)
	at(0, 0, true, 50)
	at(time.Second, 2, false, 5)
	at(calm-time.Second, 0, true, 50)
	at(time.Second, 0, true, 100)
	at(time.Second, 3, true, 50)
	at(time.Second, 3, false, 5)
	at(time.Second, 3, true, 50)
	at(time.Second, 0, false, 5)
	at(time.Second, 4, true, 50)
	at(0, 4, false, 5)
	at(time.Second, 1, false, 5) // another one does not raise it sooner
	at(0, 3, true, 50)
	at(time.Second, 3, false, 5)
	at(0, 4, true, 100)
	if changes != 4 {
		t.Errorf("the rates changed %d times", changes)
	}
}

// A rate that waits to be raised is no lower than that of those who wait.
func TestADisruptionLowersNoRate(t *testing.T) {
	b, shares := filled(t, 7, 10, of)
	shares[0].Rate(2, true, begun)
	for i := range 9 {
		b.Leave(fmt.Sprintf("shop/s%d", i+1), begun)
	}
	if s := b.State(); s.Rates.Full < s.Rates.Idle || s.Rates.Idle < 0.5 {
		t.Errorf("%+v", s.Rates)
	}
}
