package verdict

import (
	"cmp"
	"time"

	"lapse/correlate/model"
)

// This file is what gates compare with their limits: the verdict's figures, with error bars that hold the truth. What
// was shown as "at least" has no upper end here, unless something bounds it after all.

func exactly(x float64) model.Range { return model.Range{Min: x, Max: x} }

func totalDowntime(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	r := widenByLimit(v, v.Downtime.Total)
	totals := map[string]time.Duration{}
	for u := range outsideWindows(tl) {
		totals[u.Target] += longestIn(v, u)
	}
	for _, s := range blackouts(tl) {
		_, most, open := s.upperBound()
		totals[s[0].Target] += most
		r.Open = r.Open || open
	}
	for _, most := range totals {
		r.Max = max(r.Max, float64(most))
	}
	return r, true
}

func longestWindow(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	r := widenByGaps(tl, v, widenByLimit(v, orZero(v.LongestWindow)))
	for _, s := range joinable(tl) {
		most, _, open := s.upperBound()
		r.Max, r.Open = max(r.Max, float64(most)), r.Open || open
	}
	return r, true
}

// longestBlackout takes unobserved time about a window as a part of its blackout: no success was seen in it.
func longestBlackout(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	r := widenByGaps(tl, v, widenByLimit(v, orZero(v.LongestBlackout)))
	for _, s := range blackouts(tl) {
		if len(s) == 1 && !touchesAnyGap(tl, s[0]) {
			continue
		}
		most, _, open := s.upperBound()
		r.Max, r.Open = max(r.Max, float64(most)), r.Open || open
	}
	return r, true
}

// windowCount returns the worst target's. As many were seen; those that unobserved time parts may be one.
func windowCount(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	counts := map[string]int{}
	for _, s := range joinable(tl) {
		counts[s[0].Target]++
	}
	r := model.Range{Max: float64(v.Windows)}
	for _, n := range counts {
		r.Min = max(r.Min, float64(n))
	}
	return r, true
}

// widenByGaps widens a length by the longest outage that unobserved time can hide.
func widenByGaps(tl *model.Timeline, v *model.Verdict, r model.Range) model.Range {
	for u := range outsideWindows(tl) {
		r.Max = max(r.Max, float64(longestIn(v, u)))
	}
	return r
}

// longestIn returns how long an outage can be that lies in unobserved time and shows nowhere else: it reaches to when
// the requests before and after met the Service. These may have been sent as long before and after as any two are
// apart, and have taken as long as an answer: as 99 % of them do.
func longestIn(v *model.Verdict, u model.Unobserved) time.Duration {
	length := u.End - u.Start + v.DetectionLimit
	if v.LatencyP99 != nil {
		length += *v.LatencyP99
	}
	return length
}

// outsideWindows returns the unobserved time that no window has in its own bar.
func outsideWindows(tl *model.Timeline) func(yield func(model.Unobserved) bool) {
	return func(yield func(model.Unobserved) bool) {
		for _, u := range tl.Unobserved {
			if !inWindow(tl, u) && !yield(u) {
				return
			}
		}
	}
}

// inWindow reports whether u lies in a window or at its edge, and the window's bar has all of it.
func inWindow(tl *model.Timeline, u model.Unobserved) bool {
	for w := range downtimes(tl) {
		if from, to := bounds(w); touchesGap(w, u) && from <= u.Start && u.End <= to {
			return true
		}
	}
	return false
}

// widenByLimit widens a length: an outage shorter than the detection limit may have gone unseen, so that no length is
// known to be less.
func widenByLimit(v *model.Verdict, l model.Length) model.Range {
	return model.Range{Min: float64(l.Min), Max: float64(max(l.Max, v.DetectionLimit))}
}

func orZero(l *model.Length) model.Length {
	if l == nil {
		return model.Length{}
	}
	return *l
}

// latencyP99 returns the worst target's. It tells of the requests that were answered, and is as exact as the histogram
// it is taken from, and as what is known of delayed ones. A target that answered none has no latency, and none is known
// to be less than a limit.
func latencyP99(tl *model.Timeline, v *model.Verdict) (model.Range, bool) {
	if v.LatencyP99 == nil {
		return model.Range{}, false
	}
	var r model.Range
	for i := range tl.Targets {
		switch t := &tl.Targets[i]; {
		case !t.Kind.Judged():
		case t.Latency == nil:
			r.Open = r.Open || t.Sent > 0
		default:
			p99 := cmp.Or(t.Latency.P99Bounds, &model.Length{Min: t.Latency.P99, Max: t.Latency.P99})
			least, _ := LatencyBounds(p99.Min)
			_, most := LatencyBounds(p99.Max)
			r.Min, r.Max = max(r.Min, float64(least)), max(r.Max, float64(most))
			r.Open = r.Open || p99.Max >= time.Minute // where the histogram ends
		}
	}
	return r, true
}

// LatencyBounds hold a quantile as it was before the histogram rounded it: to whole microseconds and to three digits,
// which makes its slots at most a 1000th wide, and their upper end is what it tells.
func LatencyBounds(q time.Duration) (least, most time.Duration) {
	return q - q/1000 - time.Microsecond, q + time.Microsecond
}
