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
	intervals  *Intervals
	begun      bool
	sent       time.Duration // of the last request
	done       time.Duration // the latest of all so far
	fault      string        // why requests since then were not sent; "" if none were due, or none is known
	unobserved []Period      // unobserved so far, by time
	skipped    []Period      // from Sent to Sent, by time: longer than usual, and yet observed
	reach      time.Duration // longest time from Sent to Sent within the limit
	changed    time.Duration // when the rate changed last, as far as was read
	since      time.Duration // as reach, of the time since then
	waiting    []Period      // longer ones

	varies  bool          // the rate changes without a fact that says so: what it was shows in when requests were due
	asked   time.Duration // --resolution
	seq     uint64        // of the last request
	due     time.Duration // of it
	spacing time.Duration // the longest time from Due to Due since the last request that tells something
	apart   time.Duration // the last time from Due to Due; 0 if a request between is not on record
	densest time.Duration // see [Reading.Densest]
}

// space notes when r was due. Every due request is on record, so the time between two in a row shows the rate.
func (w *gapFinder) space(r *Sample) {
	apart := time.Duration(0)
	if w.begun && w.varies && r.Seq == w.seq+1 {
		apart = r.Due - w.due
		w.spacing = max(w.spacing, apart)
	}
	if two := max(apart, w.apart); apart > 0 && w.apart > 0 && (w.densest == 0 || two < w.densest) {
		w.densest = two
	}
	w.seq, w.due, w.apart = r.Seq, r.Due, apart
}

// tooLong returns the part of a gap that is longer than limit allows, at the rate of its time.
func (w *gapFinder) tooLong(from, to time.Duration, limit func(interval, asked time.Duration) time.Duration) (
	since time.Duration, ok bool) {
	if w.spacing > 0 {
		return from, to-from > limit(w.spacing, w.asked)
	}
	return w.intervals.TooLong(from, to, w.asked, limit)
}

func usualGap(interval, _ time.Duration) time.Duration { return timeline.UsualGap(interval) }

// Limit returns the longest gap that counts as observed at any of the target's rates.
func (w *gapFinder) Limit() time.Duration {
	return timeline.GapLimit(w.intervals.Longest(Always.From, Always.To), w.asked)
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
		w.skipped = append(w.skipped, Period{From: w.sent, To: r.Sent})
	}
	if _, long := w.tooLong(w.sent, r.Sent, timeline.GapLimit); long {
		w.waiting = append(w.waiting, Period{From: w.sent, To: r.Sent})
	} else {
		w.reached(r.Sent)
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
	if since, long := w.tooLong(max(w.sent, w.done), now, timeline.GapLimit); long {
		return gap{unobserved: true, idle: Period{From: since, To: now, Reason: cmp.Or(w.fault, model.ReasonNotSent)}}
	}
	_, long := w.tooLong(w.sent, now, usualGap)
	return gap{longer: long}
}

// reached notes the time from the last request to now.
func (w *gapFinder) reached(now time.Duration) {
	w.reach = max(w.reach, now-w.sent)
	changed, ok := w.intervals.LastChange()
	if !ok || now <= changed {
		return
	}
	if changed != w.changed {
		w.changed, w.since = changed, 0
	}
	w.since = max(w.since, now-max(w.sent, changed))
}

// Resolution returns the longest time between two sends while observed, or between the last one and the end. A longer
// outage of every request cannot have gone unseen. unobserved is everything unobserved.
func (w *gapFinder) Resolution(end time.Duration, unobserved []Period) time.Duration {
	return w.resolution(w.reach, Period{From: Always.From, To: end}, unobserved)
}

// ResolutionSince returns the resolution of the time since the rate changed last.
func (w *gapFinder) ResolutionSince(changed, end time.Duration, unobserved []Period) time.Duration {
	reach := time.Duration(0)
	if w.changed == changed {
		reach = w.since
	}
	return w.resolution(reach, Period{From: changed, To: end}, unobserved)
}

func (w *gapFinder) resolution(longest time.Duration, within Period, unobserved []Period) time.Duration {
	for _, gap := range append(slices.Clip(w.waiting), Period{From: w.sent, To: within.To}) {
		gap.From = max(gap.From, within.From)
		for _, part := range Without(gap, unobserved) {
			longest = max(longest, part.To-part.From)
		}
	}
	return longest
}

// longer returns the periods that take longer than a gap may at the rate during them.
func (w *gapFinder) longer(all []Period) []Period {
	var long []Period
	for _, p := range all {
		if since, ok := w.intervals.TooLong(p.From, p.To, w.asked, timeline.GapLimit); ok {
			p.From = since
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
	return merge(Always, all)
}

// Within returns the parts of periods that lie in another one, joined where they overlap or touch.
func Within(p Period, all []Period) []Period { return merge(p, all) }

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
