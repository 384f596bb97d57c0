package main

import (
	"math"
	"slices"
	"testing"
	"time"
)

const us = time.Microsecond

// even is n arrivals at an interval, from an instant on that is on no grid.
func even(n int, interval time.Duration) []time.Duration {
	arrivals := make([]time.Duration, n)
	for i := range arrivals {
		arrivals[i] = 12345*us + time.Duration(i)*interval
	}
	return arrivals
}

func TestEvenArrivalsHaveNoError(t *testing.T) {
	e := evennessOf(even(4000, 500*us), 500*us)
	if len(e.Errors) != 4000 || percentile(e.Errors, 1) != 0 || e.Empty != 0 {
		t.Errorf("%d errors up to %v, %v empty", len(e.Errors), percentile(e.Errors, 1), e.Empty)
	}
	if len(e.Anchors) != 2 || e.Anchors[0] != 12345*us {
		t.Errorf("anchors %v", e.Anchors)
	}
}

// A late one counts by how late it is, and makes no other look late.
func TestALateArrivalIsLate(t *testing.T) {
	arrivals := even(2000, 500*us)
	arrivals[700] += 300 * us
	e := evennessOf(arrivals, 500*us)
	if got := percentile(e.Errors, 1); got != 300*us {
		t.Errorf("error %v", got)
	}
	if got := percentile(e.Errors, 0.999); got != 0 {
		t.Errorf("others %v", got)
	}
}

// Fifty workers that fire together every 25 ms are up to 24.5 ms off: the last of a burst came that much too early.
func TestABurstCountsInFull(t *testing.T) {
	var arrivals []time.Duration
	for i := range 2000 {
		arrivals = append(arrivals, time.Duration(i/50)*25*time.Millisecond)
	}
	e := evennessOf(arrivals, 500*us)
	if got := percentile(e.Errors, 1); got != 24500*us {
		t.Errorf("error %v", got)
	}
	if e.Empty < 0.95 || e.Empty > 0.97 {
		t.Errorf("%v of milliseconds empty", e.Empty)
	}
}

// From where one is missing on, the rest of its second is off by an interval, and the next second is not.
func TestAMissingRequestPutsItsSecondOff(t *testing.T) {
	arrivals := even(4000, 500*us)
	arrivals = append(arrivals[:1000], arrivals[1001:]...)
	e := evennessOf(arrivals, 500*us)
	if got := percentile(e.Errors, 1); got != 500*us {
		t.Errorf("error %v", got)
	}
	off := 0
	for _, err := range e.Errors {
		if err > 0 {
			off++
		}
	}
	if off != 999 {
		t.Errorf("%d are off", off)
	}
}

func TestATooSlowRateShows(t *testing.T) {
	e := evennessOf(even(1900, 526*us), 500*us)
	if got := percentile(e.Errors, 0.5); got < 20*time.Millisecond {
		t.Errorf("error %v", got)
	}
}

func TestEmptyMillisecondsAreThoseOfTheClock(t *testing.T) {
	arrivals := []time.Duration{900 * us, 1100 * us, 1900 * us, 4000 * us, 5100 * us} // 1 met, 2 and 3 empty, 4 met
	if got := emptyMillis(arrivals); got != 0.5 {
		t.Errorf("%v", got)
	}
	if got := emptyMillis(nil); got != 1 {
		t.Errorf("without arrivals %v", got)
	}
}

func TestTheMiddleLeavesStartAndEndOut(t *testing.T) {
	arrivals := even(5000, time.Millisecond)
	kept := middle(arrivals)
	if kept[0] != arrivals[1000] || kept[len(kept)-1] != arrivals[4499] {
		t.Errorf("from %v to %v", kept[0]-arrivals[0], kept[len(kept)-1]-arrivals[0])
	}
	if got := rateOf(kept); math.Abs(got-1000) > 0.001 {
		t.Errorf("rate %v", got)
	}
}

func TestWithinIsHalfOpen(t *testing.T) {
	if got := within([]time.Duration{1, 2, 3, 4}, 2, 4); got != 2 {
		t.Errorf("%d", got)
	}
}

func TestPercentileIsAValueThatWasMeasured(t *testing.T) {
	sorted := []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}
	for _, test := range []struct {
		p    float64
		want int
	}{{0, 1}, {0.5, 5}, {0.51, 6}, {0.99, 10}, {1, 10}} {
		if got := percentile(sorted, test.p); got != test.want {
			t.Errorf("p%v: %d, want %d", test.p*100, got, test.want)
		}
	}
	if percentile([]int(nil), 0.5) != 0 {
		t.Error("a percentile of nothing")
	}
}

// What was held up is late; what was not sent is a gap, and makes nothing late.
func TestBehindTellsWhatWasHeldUpFromWhatWasNotSent(t *testing.T) {
	const ms = time.Millisecond
	for name, test := range map[string]struct{ arrivals, want []time.Duration }{
		"even":                   {[]time.Duration{10 * ms, 20 * ms, 30 * ms, 40 * ms}, []time.Duration{0, 0, 0, 0}},
		"three at once":          {[]time.Duration{10 * ms, 20 * ms, 52 * ms, 52 * ms, 52 * ms, 60 * ms, 70 * ms}, []time.Duration{0, 0, 0, 0, 2 * ms, 12 * ms, 22 * ms}},
		"two not sent, one late": {[]time.Duration{10 * ms, 20 * ms, 52 * ms, 60 * ms, 70 * ms}, []time.Duration{0, 0, 0, 0, 2 * ms}},
		"nothing":                {nil, []time.Duration{}},
	} {
		if got := behind(test.arrivals, 10*ms); !slices.Equal(got, test.want) {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if got := inGaps([]time.Duration{0, 10 * ms, 40 * ms, 50 * ms}, 10*ms); got != 0.6 {
		t.Errorf("%v of the time in gaps, want 0.6", got)
	}
	if got := longestGap([]time.Duration{40 * ms, 0, 10 * ms}); got != 30*ms {
		t.Errorf("longest gap %v", got)
	}
}
