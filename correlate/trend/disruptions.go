package trend

import (
	"cmp"
	"slices"
	"time"

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
	worstFirst := func(a, b *history.Line) int { return cmp.Or(history.Worse(a, b), cmp.Compare(b.Sent, a.Sent)) }
	for _, l := range slices.SortedStableFunc(slices.Values(lines), worstFirst) {
		if slices.ContainsFunc(worst, l.Same) {
			left[l] = true
		} else {
			worst = append(worst, l)
		}
	}
}
