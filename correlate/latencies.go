package correlate

import (
	"math/bits"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"lapse/correlate/model"
)

// latencies are a histogram of latencies in whole microseconds up to 60 s, with 3 digits. The first of them are kept
// one by one: the endpoints of a large Service get few requests each, and an HdrHistogram takes 139 kB.
type latencies struct {
	few     []uint32 // in µs, sorted; nil once there are many
	many    *hdrhistogram.Histogram
	slowest time.Duration // exact

	published *model.Latency // nil: changed since
}

const (
	fewLatencies   = 4096
	longestLatency = int64(time.Minute / time.Microsecond)
	exactLatencies = 2048 // µs, below which each has a slot of its own
)

// add adds a latency, rounded down to whole microseconds.
func (l *latencies) add(d time.Duration) {
	l.slowest = max(l.slowest, d)
	l.published = nil
	us := min(max(d.Microseconds(), 0), longestLatency)
	if l.many == nil && len(l.few) < fewLatencies {
		at, _ := slices.BinarySearch(l.few, uint32(us))
		l.few = slices.Insert(l.few, at, uint32(us))
		return
	}
	if l.many == nil {
		l.many = hdrhistogram.New(1, longestLatency, 3)
		for _, v := range l.few {
			_ = l.many.RecordValue(int64(v)) // errs only beyond the longest
		}
		l.few = nil
	}
	_ = l.many.RecordValue(us)
}

// quantiles returns nil if there are no latencies.
func (l *latencies) quantiles() *model.Latency {
	if l.published != nil || l.many == nil && len(l.few) == 0 {
		return l.published
	}
	asked := []float64{50, 90, 99, 99.9}
	at := func(i int) time.Duration { return l.at(rank(asked[i], l.count())) }
	if l.many != nil {
		us := l.many.ValueAtPercentilesSlice(asked)
		at = func(i int) time.Duration { return min(time.Duration(us[i])*time.Microsecond, l.slowest) }
	}
	l.published = &model.Latency{P50: at(0), P90: at(1), P99: at(2), P999: at(3), Max: l.slowest}
	return l.published
}

// p99Bounds returns bounds of the 99th percentile of these latencies, of which there is one at least, and of others
// that were no longer than most.
func (l *latencies) p99Bounds(most *latencies) model.Length {
	all, own := rank(99, l.count()+most.count()), rank(99, l.count())
	bounds := model.Length{Max: l.at(own)}
	if others := all - own; others > 0 {
		bounds.Max = max(bounds.Max, most.at(others))
	}
	if all <= l.count() { // each of the others may have been the longest
		bounds.Max = min(bounds.Max, l.at(all))
	}
	if shorter := most.count(); shorter < all { // or each took no time
		bounds.Min = l.at(all - shorter)
	}
	return bounds
}

func (l *latencies) count() int {
	if l.many != nil {
		return int(l.many.TotalCount())
	}
	return len(l.few)
}

// rank returns which of n latencies, from 1, a percentile is.
func rank(percent float64, n int) int { return min(max(1, int(percent/100*float64(n)+0.5)), n) }

// at returns the latency of a rank as an HdrHistogram does: the highest latency of the slot.
func (l *latencies) at(rank int) time.Duration {
	var us int64
	if l.many != nil {
		us = l.many.ValueAtPercentile(100 * float64(rank) / float64(l.count()))
	} else if us = int64(l.few[rank-1]); us >= exactLatencies {
		us |= 1<<(bits.Len64(uint64(us))-bits.Len64(exactLatencies-1)) - 1
	}
	return min(time.Duration(us)*time.Microsecond, l.slowest)
}
