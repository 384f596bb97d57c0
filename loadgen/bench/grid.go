package main

import (
	"math"
	"slices"
	"time"
)

// stretch is how much of a run is held against one grid.
const stretch = time.Second

// An evenness says how evenly requests arrived.
//
// The error of an arrival is measured against the even grid of the rate that was asked for. The server knows that rate,
// but not when the tool began to count. So the grid's phase is found again for each second of the run: the arrivals of
// the second are numbered in order, and the grid is the latest one for which no arrival is early:
//
//	anchor = min over i of (arrival[i] − i·interval)      error[i] = arrival[i] − (anchor + i·interval)
//
// So an error is never negative, a burst counts with the whole time by which its last request came too early for an
// even stream, and a request that is missing, or one too many, puts the rest of its second off by an interval. What
// the fit forgives is a delay that is the same for all requests of a second, since no server can see that, and a
// drift over longer times.
type evenness struct {
	Errors  []time.Duration // of all arrivals, sorted
	Anchors []time.Duration // of each second's grid
	Empty   float64         // share of whole milliseconds of the server's clock in which nothing arrived
}

// evennessOf judges arrivals, in any order, that were to come at an interval.
func evennessOf(arrivals []time.Duration, interval time.Duration) evenness {
	arrivals = slices.Sorted(slices.Values(arrivals))
	e := evenness{Empty: emptyMillis(arrivals)}
	for len(arrivals) > 0 {
		n, _ := slices.BinarySearch(arrivals, arrivals[0]+stretch)
		anchor, errors := fit(arrivals[:n], interval)
		e.Anchors = append(e.Anchors, anchor)
		e.Errors = append(e.Errors, errors...)
		arrivals = arrivals[n:]
	}
	slices.Sort(e.Errors)
	return e
}

// fit returns the latest even grid for which none of the sorted arrivals is early, and how late each arrival is.
func fit(arrivals []time.Duration, interval time.Duration) (anchor time.Duration, errors []time.Duration) {
	anchor = arrivals[0]
	for i, a := range arrivals {
		anchor = min(anchor, a-time.Duration(i)*interval)
	}
	errors = make([]time.Duration, len(arrivals))
	for i, a := range arrivals {
		errors[i] = a - anchor - time.Duration(i)*interval
	}
	return anchor, errors
}

// emptyMillis is the share of milliseconds without an arrival, of those that lie wholly between the
// first and the last of the sorted arrivals.
func emptyMillis(arrivals []time.Duration) float64 {
	if len(arrivals) == 0 {
		return 1
	}
	first := arrivals[0]/time.Millisecond + 1
	last := arrivals[len(arrivals)-1] / time.Millisecond
	if last <= first {
		return 0
	}
	met := map[time.Duration]bool{}
	for _, a := range arrivals {
		if m := a / time.Millisecond; m >= first && m < last {
			met[m] = true
		}
	}
	return 1 - float64(len(met))/float64(last-first)
}

// middle is what is left of arrivals, in any order, without the first second and the last half: tools connect, warm
// up and end in different ways.
func middle(arrivals []time.Duration) []time.Duration {
	if len(arrivals) == 0 {
		return nil
	}
	from := slices.Min(arrivals) + time.Second
	to := slices.Max(arrivals) - time.Second/2
	return slices.DeleteFunc(slices.Clone(arrivals), func(a time.Duration) bool { return a < from || a > to })
}

// within counts the arrivals in [from, to).
func within(arrivals []time.Duration, from, to time.Duration) int {
	n := 0
	for _, a := range arrivals {
		if a >= from && a < to {
			n++
		}
	}
	return n
}

// rateOf is how many arrivals there were per second, from the first to the last.
func rateOf(arrivals []time.Duration) float64 {
	if len(arrivals) < 2 {
		return 0
	}
	return float64(len(arrivals)-1) / (slices.Max(arrivals) - slices.Min(arrivals)).Seconds()
}

// percentile is the smallest value that at least the share p of the sorted values do not exceed. Of
// nothing it is 0.
func percentile[T any](sorted []T, p float64) T {
	if len(sorted) == 0 {
		var zero T
		return zero
	}
	// where the product is whole, rounding may have put it just above
	rank := int(math.Ceil(p*float64(len(sorted)) - 1e-6))
	return sorted[min(max(rank, 1), len(sorted))-1]
}
