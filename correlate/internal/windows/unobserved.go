package windows

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Period of time was not observed, for a reason.
type Period struct {
	From, To time.Duration
	Reason   string
}

// A gapFinder finds the time in which a target was not observed. It reads the requests in the order they were sent, and
// leaves out those that are no evidence of the target (notsent, local).
//
//	sent .  .  .  .           .  .  .      →   unobserved: from the Done of the fourth to the fifth
//	done  .  .  .  .           .  .  .
//
//	sent .  .  .  .           .  .  .      →   observed: the third waited for an answer meanwhile
//	done  .  .            .  . .  .  .
type gapFinder struct {
	Limit      time.Duration // see timeline.GapLimit
	usual      time.Duration // see timeline.UsualGap
	begun      bool
	sent       time.Duration // of the last request
	done       time.Duration // the latest of all so far
	fault      string        // why requests since then were not sent; "" if none were due, or none is known
	unobserved []Period      // unobserved so far, by time
	longer     []Period      // from Sent to Sent, by time: longer than usual, and yet observed
	reach      time.Duration // longest time from Sent to Sent within the limit
	waiting    []Period      // longer ones

	varies  bool          // the rate changes as the run goes on: what it was shows in when requests were due
	asked   time.Duration // --resolution
	seq     uint64        // of the last request
	due     time.Duration // of it
	spacing time.Duration // the longest time from Due to Due since the last request that tells something
}

// space notes when r was due. Every due request is on record, so the time between two in a row shows the rate.
func (w *gapFinder) space(r *Sample) {
	if w.begun && w.varies && r.Seq == w.seq+1 {
		w.spacing = max(w.spacing, r.Due-w.due)
	}
	w.seq, w.due = r.Seq, r.Due
}

// limits returns the longest gap that counts as observed, and the usual one, at the rate during the gap.
func (w *gapFinder) limits() (limit, usual time.Duration) {
	if w.spacing == 0 {
		return w.Limit, w.usual
	}
	return timeline.GapLimit(w.spacing, w.asked), timeline.UsualGap(w.spacing)
}

// A gap is the time before a request, back to the one before it.
type gap struct {
	unobserved bool   // nothing was in flight for longer than the limit
	idle       Period // when nothing was, if unobserved
	longer     bool   // longer than usual, but observed
}

// take reads the next request, and returns the time before it. begin is when measuring began.
func (w *gapFinder) take(r *Sample, begin time.Duration) gap {
	w.space(r)
	if !w.begun {
		w.begun, w.sent, w.done = true, begin, begin
	}
	if !r.Class.Observed() {
		w.fault = reasonOf(r.Class)
		return gap{}
	}
	g := w.gapBefore(r.Sent)
	switch {
	case g.unobserved:
		w.unobserved = append(w.unobserved, g.idle)
	case g.longer:
		w.longer = append(w.longer, Period{From: w.sent, To: r.Sent})
	}
	if limit, _ := w.limits(); r.Sent-w.sent > limit {
		w.waiting = append(w.waiting, Period{From: w.sent, To: r.Sent})
	} else {
		w.reach = max(w.reach, r.Sent-w.sent)
	}
	w.fault, w.spacing = "", 0
	done := r.Done
	if r.Delayed {
		done = r.Sent // its answer may have come at once, and we only read it when we ran again
	}
	w.sent, w.done = r.Sent, max(w.done, done)
	return g
}

func reasonOf(c timeline.Class) string {
	if c == timeline.Local {
		return model.ReasonLocal
	}
	return model.ReasonNotSent
}

// gapBefore returns the time from the last request to now.
func (w *gapFinder) gapBefore(now time.Duration) gap {
	idle := max(w.sent, w.done)
	limit, usual := w.limits()
	if now-idle > limit {
		return gap{unobserved: true, idle: Period{From: idle, To: now, Reason: cmp.Or(w.fault, model.ReasonNotSent)}}
	}
	return gap{longer: now-w.sent > usual}
}

// Resolution returns the longest time between two sends while observed, or between the last one and the end. A longer
// outage of every request cannot have gone unseen. unobserved is everything unobserved.
func (w *gapFinder) Resolution(end time.Duration, unobserved []Period) time.Duration {
	longest := w.reach
	for _, gap := range append(slices.Clip(w.waiting), Period{From: w.sent, To: end}) {
		for _, part := range Without(gap, unobserved) {
			longest = max(longest, part.To-part.From)
		}
	}
	return longest
}

// longerThan returns the periods that take longer than limit.
func longerThan(limit time.Duration, all []Period) []Period {
	var long []Period
	for _, p := range all {
		if p.To-p.From > limit {
			long = append(long, p)
		}
	}
	return long
}

// touching returns the part of sorted, disjoint periods that overlaps (from, to).
func touching(sorted []Period, from, to time.Duration) []Period {
	i, _ := slices.BinarySearchFunc(sorted, from, func(s Period, from time.Duration) int {
		if s.To <= from {
			return -1
		}
		return 1
	})
	j := i
	for j < len(sorted) && sorted[j].From < to {
		j++
	}
	return sorted[i:j]
}

// merge joins periods that overlap or touch, within bounds. If reasons differ, the cause counts: a stalled prober, not
// the requests it did not send.
func merge(within Period, all ...[]Period) []Period {
	sorted := slices.Concat(all...)
	slices.SortStableFunc(sorted, func(a, b Period) int { return cmp.Compare(a.From, b.From) })
	merged := sorted[:0]
	for _, s := range sorted {
		s.From, s.To = max(s.From, within.From), min(s.To, within.To)
		if s.From >= s.To {
			continue
		}
		last := len(merged) - 1
		if last < 0 || s.From > merged[last].To {
			merged = append(merged, s)
			continue
		}
		if s.Reason == model.ReasonEnded && s.To > merged[last].To { // whatever happened before that
			merged = append(merged, Period{From: merged[last].To, To: s.To, Reason: model.ReasonEnded})
			continue
		}
		merged[last].To = max(merged[last].To, s.To)
		// they say why nothing was sent, or nothing is known of it
		if s.Reason == model.ReasonStalled || s.Reason == model.ReasonLost {
			merged[last].Reason = s.Reason
		}
	}
	return merged
}

// Merge joins periods that overlap or touch.
func Merge(all []Period) []Period {
	if len(all) == 0 {
		return nil
	}
	return merge(Period{From: -1 << 62, To: 1 << 62}, all)
}

// Without returns the parts of s outside unobserved, which is sorted and disjoint.
func Without(s Period, unobserved []Period) []Period {
	var parts []Period
	for _, d := range touching(unobserved, s.From, s.To) {
		if d.From > s.From {
			parts = append(parts, Period{From: s.From, To: d.From})
		}
		s.From = max(s.From, d.To)
	}
	if s.From < s.To {
		parts = append(parts, s)
	}
	return parts
}

// Total adds up the periods' lengths.
func Total(of []Period) time.Duration {
	sum := time.Duration(0)
	for _, s := range of {
		sum += s.To - s.From
	}
	return sum
}
