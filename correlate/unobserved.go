package correlate

import (
	"cmp"
	"slices"
	"time"

	"lapse/timeline"
)

// A period of time was not observed, for a reason.
type period struct {
	from, to time.Duration
	reason   string
}

// By default a gap between two sends is no hole up to so long, or so many intervals: see [timeline.Options.Resolution].
const (
	defaultResolution          = 50 * time.Millisecond
	defaultResolutionIntervals = 10
)

// gapLimit is for how long nothing may be sent to a target, while nothing is in flight, for the time to count as observed. asked is
// --resolution; 0: the default. No gap that a prober leaves which is on time is a hole, whatever was asked.
func gapLimit(t timeline.Target, asked time.Duration) time.Duration {
	return gapLimitAt(interval(t), asked)
}

func gapLimitAt(interval, asked time.Duration) time.Duration {
	if asked > 0 {
		return max(asked, 3*interval)
	}
	return max(defaultResolution, defaultResolutionIntervals*interval)
}

// usualGap is the longest time between two sends of a prober that is on time. In a longer gap it was late, or did not run.
func usualGap(t timeline.Target) time.Duration { return usualGapAt(interval(t)) }

func usualGapAt(interval time.Duration) time.Duration { return max(3*interval, 10*time.Millisecond) }

// interval is the time between two due instants of t; 0 if its rate is not known.
func interval(t timeline.Target) time.Duration {
	if t.Rate <= 0 {
		return 0
	}
	return t.Interval()
}

// A watch follows how closely a target was watched. It reads its requests in the order they were sent. A request that tells
// nothing of the target (notsent, local) counts as none: only the time between those that tell counts.
//
//	sent .  .  .  .           .  .  .      →   unobserved: from the Done of the fourth to the fifth
//	done  .  .  .  .           .  .  .
//
//	sent .  .  .  .           .  .  .      →   observed: the third waited for an answer meanwhile
//	done  .  .            .  . .  .  .
type watch struct {
	limit   time.Duration // see gapLimit
	usual   time.Duration // see usualGap
	begun   bool
	sent    time.Duration // of the last request
	done    time.Duration // the latest of all so far
	fault   string        // why requests since then were not sent; "" if none were due, or none is known
	dark    []period      // unobserved so far, by time
	short   []period      // from Sent to Sent, by time: longer than usual, and yet observed
	reach   time.Duration // longest time from Sent to Sent within the limit
	waiting []period      // longer ones

	varies  bool          // the rate changes as the run goes on: what it was shows in when requests were due
	asked   time.Duration // --resolution
	seq     uint64        // of the last request
	due     time.Duration // of it
	spacing time.Duration // the longest time from Due to Due since the last request that tells something
}

// space takes over when r was due. Every request that is due is on record, so that two in a row are as far apart as the rate then was.
func (w *watch) space(r flight) {
	if w.begun && w.varies && r.seq == w.seq+1 {
		w.spacing = max(w.spacing, r.due-w.due)
	}
	w.seq, w.due = r.seq, r.due
}

// limits are what a gap may be, and what it usually is, at the rate there was in it.
func (w *watch) limits() (limit, usual time.Duration) {
	if w.spacing == 0 {
		return w.limit, w.usual
	}
	return gapLimitAt(w.spacing, w.asked), usualGapAt(w.spacing)
}

// A gap is the time before a request, back to the one before it.
type gap struct {
	idle  period // nothing was in flight
	dark  bool   // idle is too long to count as observed
	short bool   // it counts as observed, but is longer than usual
}

// take reads the next request, and tells of the time before it. begin is when measuring began.
func (w *watch) take(r flight, begin time.Duration) gap {
	w.space(r)
	if !w.begun {
		w.begun, w.sent, w.done = true, begin, begin
	}
	if !r.class.Observed() {
		w.fault = reasonOf(r.class)
		return gap{}
	}
	g := w.gapBefore(r.sent)
	between := period{from: w.sent, to: r.sent}
	switch {
	case g.dark:
		w.dark = append(w.dark, g.idle)
	case g.short:
		w.short = append(w.short, between)
	}
	limit, _ := w.limits()
	if length := between.to - between.from; length > limit {
		w.waiting = append(w.waiting, between)
	} else {
		w.reach = max(w.reach, length)
	}
	w.fault, w.spacing = "", 0
	w.sent, w.done = r.sent, max(w.done, r.done)
	return g
}

func reasonOf(c timeline.Class) string {
	if c == timeline.Local {
		return ReasonLocal
	}
	return ReasonNotSent
}

// gapBefore is the time from the last request to now.
func (w *watch) gapBefore(now time.Duration) gap {
	g := gap{idle: period{from: max(w.sent, w.done), to: now, reason: cmp.Or(w.fault, ReasonNotSent)}}
	limit, usual := w.limits()
	g.dark = g.idle.to-g.idle.from > limit
	g.short = !g.dark && now-w.sent > usual
	return g
}

// resolution is the longest time between two sends while observed, or between the last one and the end. A longer outage of
// every request cannot have gone unseen. dark is everything unobserved.
func (w *watch) resolution(end time.Duration, dark []period) time.Duration {
	longest := w.reach
	for _, gap := range append(slices.Clip(w.waiting), period{from: w.sent, to: end}) {
		for _, part := range without(gap, dark) {
			longest = max(longest, part.to-part.from)
		}
	}
	return longest
}

// longerThan are the periods that take longer than limit.
func longerThan(limit time.Duration, all []period) []period {
	var long []period
	for _, p := range all {
		if p.to-p.from > limit {
			long = append(long, p)
		}
	}
	return long
}

// without returns the parts of s outside dark, which is sorted and disjoint.
func without(s period, dark []period) []period {
	var parts []period
	for _, d := range touching(dark, s.from, s.to) {
		if d.from > s.from {
			parts = append(parts, period{from: s.from, to: d.from})
		}
		s.from = max(s.from, d.to)
	}
	if s.from < s.to {
		parts = append(parts, s)
	}
	return parts
}

// touching returns the part of sorted, disjoint periods that overlaps (from, to).
func touching(sorted []period, from, to time.Duration) []period {
	i, _ := slices.BinarySearchFunc(sorted, from, func(s period, from time.Duration) int {
		if s.to <= from {
			return -1
		}
		return 1
	})
	j := i
	for j < len(sorted) && sorted[j].from < to {
		j++
	}
	return sorted[i:j]
}

// merge joins periods that overlap or touch, within bounds. Where reasons differ, a stalled
// prober explains more than what it left undone.
func merge(within period, all ...[]period) []period {
	sorted := slices.Concat(all...)
	slices.SortStableFunc(sorted, func(a, b period) int { return cmp.Compare(a.from, b.from) })
	merged := sorted[:0]
	for _, s := range sorted {
		s.from, s.to = max(s.from, within.from), min(s.to, within.to)
		if s.from >= s.to {
			continue
		}
		last := len(merged) - 1
		if last < 0 || s.from > merged[last].to {
			merged = append(merged, s)
			continue
		}
		if s.reason == ReasonEnded && s.to > merged[last].to { // whatever happened before that
			merged = append(merged, period{from: merged[last].to, to: s.to, reason: ReasonEnded})
			continue
		}
		merged[last].to = max(merged[last].to, s.to)
		if s.reason == ReasonStalled {
			merged[last].reason = ReasonStalled
		}
	}
	return merged
}

// total adds up the periods' lengths.
func total(of []period) time.Duration {
	sum := time.Duration(0)
	for _, s := range of {
		sum += s.to - s.from
	}
	return sum
}
