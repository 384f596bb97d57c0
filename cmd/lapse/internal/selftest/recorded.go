package selftest

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lapse/timeline"
)

// A flight is what is kept of a recorded request.
type flight struct {
	due, sent, done time.Duration
	class           timeline.Class
	delayed         bool // by a stop of the prober
	met             int  // the first truth it met, or −1
}

func (f flight) took() time.Duration { return f.done - f.sent }

// recorded are the requests of one target, by Sent. What the run says of that target must follow from these; they follow
// from what the server did, or the books do not agree.
type recorded []flight

// of are a target's requests.
func (b *Books) of(id timeline.TargetID) recorded {
	flights := b.flights[id]
	inOrder := func(x, y flight) int { return cmp.Compare(x.sent, y.sent) }
	if !slices.IsSortedFunc(flights, inOrder) {
		slices.SortStableFunc(flights, inOrder)
	}
	return flights
}

// A trace is what an outage left behind: the requests it spoilt, and how narrow they and the good answers beside them make
// the brackets of one target.
type trace struct {
	spoilt  recorded // failed; in an outage that is slow: good, but late
	known   time.Duration
	settled time.Duration // the last of them was done
	among   int           // good answers sent when the fault was known and done before the last spoilt request was sent
	amid    int           // and those that were done later
	fitting bool          // all failed as they do in such an outage
	answer  time.Duration // the longest that a good answer took before
	reach   time.Duration // the longest time from one spoilt request's Sent to the next one's
}

// traceOf is false where nothing was spoilt. truth is the index of t in the books.
func (r recorded) traceOf(truth int, t Truth) (tr trace, any bool) {
	tr.known, tr.fitting = math.MaxInt64, true
	for _, f := range r {
		if f.met != truth || !t.spoils(f) {
			continue
		}
		if n := len(tr.spoilt); n > 0 {
			tr.reach = max(tr.reach, f.sent-tr.spoilt[n-1].sent)
		}
		tr.spoilt = append(tr.spoilt, f)
		tr.known, tr.settled = min(tr.known, f.done), max(tr.settled, f.done)
		tr.fitting = tr.fitting && (t.Class() == Slow || fits(f.class, t.Outages[0].Kind))
	}
	if len(tr.spoilt) == 0 {
		return tr, false
	}
	for _, f := range r {
		switch {
		case f.class != timeline.OK:
		case f.sent < tr.first():
			tr.answer = max(tr.answer, f.took())
		case f.sent >= tr.known && f.done <= tr.last():
			tr.among++
		case f.sent >= tr.known && f.sent <= tr.last():
			tr.amid++
		}
	}
	return tr, true
}

// spoils reports whether f shows what t is to look like.
func (t Truth) spoils(f flight) bool {
	if t.Class() == Slow {
		return f.class == timeline.OK && !f.delayed && f.took() > SlowBar
	}
	return f.class.Failed()
}

func (tr trace) first() time.Duration { return tr.spoilt[0].sent }
func (tr trace) last() time.Duration  { return tr.spoilt[len(tr.spoilt)-1].sent }

// lastGood is when the n-th last good request before a trace was sent; false if there are fewer.
func (r recorded) lastGood(n int, tr trace, good func(flight) bool) (time.Duration, bool) {
	for _, f := range slices.Backward(r) {
		if f.done <= tr.first() && good(f) {
			if n--; n <= 0 {
				return f.sent, true
			}
		}
	}
	return 0, false
}

// nextGood is when the n-th next good request after a trace was done; false if there are fewer.
func (r recorded) nextGood(n int, tr trace, good func(flight) bool) (time.Duration, bool) {
	var dones []time.Duration
	for _, f := range r {
		if f.sent >= tr.settled && good(f) {
			dones = append(dones, f.done)
		}
	}
	if len(dones) < n {
		return 0, false
	}
	slices.Sort(dones)
	return dones[n-1], true
}

// gaps calls yield with every time from one Sent to the next of those that tell something of the target, from when measuring
// began to when it ended.
func (r recorded) gaps(begin, end time.Duration, yield func(from, to time.Duration)) {
	at := begin
	for _, f := range r {
		if f.class.Observed() {
			yield(at, f.sent)
			at = f.sent
		}
	}
	yield(at, end)
}

// count is how many requests are so.
func (r recorded) count(so func(flight) bool) (n int) {
	for _, f := range r {
		if so(f) {
			n++
		}
	}
	return n
}

// latencies are those of the good answers that no stop of the prober delayed, from Due, rising.
func (r recorded) latencies() (list []time.Duration) {
	for _, f := range r {
		if f.class == timeline.OK && !f.delayed {
			list = append(list, f.done-f.due)
		}
	}
	slices.Sort(list)
	return list
}
