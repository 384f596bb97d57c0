package compare

import (
	"maps"
	"slices"
	"sort"

	"gonum.org/v1/gonum/mathext"

	"lapse/correlate/model"
)

// A spread is a target's latencies over the whole run, counted by slot: see [model.LatencyBin].
type spread struct {
	slots  []int // rising
	counts []int
	n      int
}

func latencies(tl *model.Timeline, target string) spread {
	bySlot := map[int]int{}
	series, _ := tl.Buckets.Of(target)
	for _, histogram := range series.Latency {
		for slot, n := range histogram.All() {
			bySlot[slot] += n
		}
	}
	var s spread
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		s.slots, s.counts = append(s.slots, slot), append(s.counts, bySlot[slot])
		s.n += bySlot[slot]
	}
	return s
}

// quantile bounds the latency that a share q of requests does not exceed, by two measured latencies: how many of n lie
// below the true quantile is binomial, whatever their distribution. The width of a slot, 12.5 %, widens the bounds. It
// returns nil if nothing was measured.
//
// David and Nagaraja, Order Statistics, 3rd edition, section 7.1.
func (s spread) quantile(q float64) *Estimate {
	if s.n == 0 {
		return nil
	}
	below, above := quantileRanks(s.n, q)
	e := &Estimate{}
	if below >= 1 {
		low, _ := model.BinLatency(s.slotOf(below))
		e.Min = float64(low)
	}
	if above <= s.n {
		_, high := model.BinLatency(s.slotOf(above))
		e.Max = new(float64(high))
	}
	return e
}

// slotOf returns the slot of the rank-th smallest latency, counted from 1.
func (s spread) slotOf(rank int) int {
	for i, n := range s.counts {
		if rank -= n; rank <= 0 {
			return s.slots[i]
		}
	}
	return s.slots[len(s.slots)-1]
}

// quantileRanks returns the ranks, among n values counted from 1, between which the quantile q lies with a probability
// of at least 99 %. A rank of 0 or n+1 says that no value bounds it.
func quantileRanks(n int, q float64) (below, above int) {
	const tail = 0.005
	// The first k with P(at most k of n lie below) above the tail: n samples bound no more than that.
	below = sort.Search(n, func(k int) bool { return binomialAtMost(k, n, q) > tail })
	// The first r with P(at least r lie below) within the tail.
	above = sort.Search(n+1, func(r int) bool { return r > 0 && 1-binomialAtMost(r-1, n, q) <= tail })
	return below, above
}

// binomialAtMost returns the probability of at most k successes in n trials.
// https://dlmf.nist.gov/8.17#E5
func binomialAtMost(k, n int, p float64) float64 {
	if k >= n {
		return 1
	}
	return mathext.RegIncBeta(float64(n-k), float64(k+1), 1-p)
}
