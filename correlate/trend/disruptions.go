package trend

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/internal/history"
)

// disruptions returns one line for each disruption, in the order of lines, which is by when the runs began. Two guards
// measure each disruption. As of two sources of one run, what was lost from one of them was lost: the run counts that
// lost most. Lines without the Service's UID are not compared: another cluster may have a Service of that name.
func disruptions(lines []*history.Line) []*history.Line {
	left := map[*history.Line]bool{}
	together := map[string][]*history.Line{} // by UID; each overlaps with one before it
	ends := map[string]time.Time{}           // of the last of them
	for _, l := range lines {
		if l.UID == "" {
			continue
		}
		if !l.T0.Before(ends[l.UID]) {
			leaveOut(together[l.UID], left)
			together[l.UID] = nil
		}
		together[l.UID] = append(together[l.UID], l)
		if end := l.T0.Add(l.Duration); end.After(ends[l.UID]) {
			ends[l.UID] = end
		}
	}
	for _, of := range together {
		leaveOut(of, left)
	}
	return slices.DeleteFunc(slices.Clone(lines), func(l *history.Line) bool { return left[l] })
}

// leaveOut marks those of some lines of a Service that measured the same as one that says worse.
func leaveOut(lines []*history.Line, left map[*history.Line]bool) {
	var worst []*history.Line
	for _, l := range slices.SortedStableFunc(slices.Values(lines), worse) {
		if slices.ContainsFunc(worst, func(o *history.Line) bool { return same(l, o) }) {
			left[l] = true
		} else {
			worst = append(worst, l)
		}
	}
}

func worse(a, b *history.Line) int {
	known := func(l *history.Line) int {
		if unknown(l) {
			return 0
		}
		return 1
	}
	gated := func(l *history.Line) int { // by what no failed request shows, such as a latency
		if l.Verdict == model.Fail {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(known(b), known(a)), cmp.Compare(gated(b), gated(a)),
		cmp.Compare(b.Sent, a.Sent))
}

// same reports whether one of two runs was measured mostly while the other was. The runs of one guard follow each
// other; a clock that was set may make them overlap a little.
func same(a, b *history.Line) bool {
	from, to := a.T0, a.T0.Add(a.Duration)
	if b.T0.After(from) {
		from = b.T0
	}
	if end := b.T0.Add(b.Duration); end.Before(to) {
		to = end
	}
	return 2*to.Sub(from) >= min(a.Duration, b.Duration)
}
