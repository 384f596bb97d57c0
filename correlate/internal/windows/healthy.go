package windows

import (
	"slices"
	"time"

	"lapse/correlate/model"
)

// successSpan is when a success was sent and done.
type successSpan struct{ sent, done time.Duration }

// A successHistory holds the last successes before a window, by Sent. It forgets the oldest ones once it
// holds more than twice keep; those are not known any more.
type successHistory struct {
	keep  int
	older *successHistory // read only; what was pushed before spans
	spans []successSpan
}

// overlay returns a history that can be pushed to while h stands still.
func (h *successHistory) overlay() successHistory { return successHistory{keep: h.keep, older: h} }

func (h *successHistory) push(e successSpan) {
	if len(h.spans) >= 2*h.keep {
		h.spans = h.spans[:copy(h.spans, h.spans[len(h.spans)-h.keep:])]
	}
	h.spans = append(h.spans, e)
}

// restingHistory is how many successes are kept of a target that is not measured any more, in case it is once again:
// a window that begins at once then has a start, unless only a share of the requests fails in it.
const restingHistory = 64

func (h *successHistory) rest() {
	h.spans = append([]successSpan(nil), h.spans[max(0, len(h.spans)-restingHistory):]...)
}

// dropBefore forgets the successes that were sent before an instant.
func (h *successHistory) dropBefore(at time.Duration) {
	var kept []successSpan
	for part := h; part != nil; part = part.older {
		from := len(part.spans)
		for from > 0 && part.spans[from-1].sent >= at {
			from--
		}
		kept = slices.Concat(part.spans[from:], kept)
		if from > 0 {
			break
		}
	}
	h.spans, h.older = append(h.spans[:0], kept...), nil
}

// kthLast returns the Sent of the k-th last success that was done by an instant; false if fewer
// are known.
func (h *successHistory) kthLast(k int, by time.Duration) (time.Duration, bool) {
	for ; h != nil; h = h.older {
		for _, e := range slices.Backward(h.spans) {
			if e.done > by {
				continue
			}
			if k--; k <= 0 {
				return e.sent, true
			}
		}
	}
	return 0, false
}

// LatencyProfile is how fast a target answers while nothing is wrong with it: a histogram of Done−Sent
// over the successes outside windows, and how much time they stand for.
//
// It takes little memory: there are two for each target of a run, and thousands of targets.
type LatencyProfile struct {
	counts []uint32 // of bin low, and of those after it
	low    int
	shared bool // counts is another profile's, too
	n      int
	last   time.Duration // Sent of the newest success
	time   time.Duration // time watched: from Sent to Sent, without gaps
}

const healthyBins = 208 // up to about 60 s

// Add adds a success. A gap before it that is longer than maxGap counts as that.
func (h *LatencyProfile) Add(r *Sample, maxGap time.Duration) {
	if h.n > 0 {
		h.time += min(r.Sent-h.last, maxGap)
	}
	h.last = r.Sent
	h.n++
	bin := min(model.LatencyBin(r.Done-r.Sent), healthyBins-1)
	if h.shared || bin < h.low || bin >= h.low+len(h.counts) {
		h.hold(bin)
	}
	h.counts[bin-h.low]++
}

// hold makes room for a bin, in counts of h's own.
func (h *LatencyProfile) hold(bin int) {
	low, high := bin, bin+1
	if len(h.counts) > 0 {
		low, high = min(low, h.low), max(high, h.low+len(h.counts))
	}
	counts := make([]uint32, high-low)
	copy(counts[max(h.low-low, 0):], h.counts)
	h.counts, h.low, h.shared = counts, low, false
}

// clone returns a profile that can be added to while h stands still.
func (h *LatencyProfile) clone() LatencyProfile {
	c := *h
	c.shared = true
	return c
}

// Answer returns L of the design: by then an answer would have come, had the target been healthy. It is
// the p99.9 latency, or more: so much that requests that waited longer were in flight for less than
// a quarter of a percent of the time watched. Else the oldest request that a stall catches would, at a high
// rate, too often be one that had waited longer already:
// see docs/decisions/0002-when-a-timeout-proves-the-fault.md. It is never if too little was watched to tell.
func (h *LatencyProfile) Answer() time.Duration {
	above := 0                 // successes in higher slots
	excess := time.Duration(0) // how long they waited beyond answer, together
	answer := model.Never
	for i := h.low + len(h.counts) - 1; i >= 0; i-- {
		_, upper := model.BinLatency(i)
		_, next := model.BinLatency(i + 1)
		excess += time.Duration(above) * (next - upper)
		if above > h.n/1000 || excess > h.time/400 {
			break
		}
		answer = upper
		if i >= h.low {
			above += int(h.counts[i-h.low])
		}
	}
	if h.n < 100 || answer > h.time/20 {
		return model.Never
	}
	return answer
}
