package trend

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lapse/internal/history"
)

// disruptions returns one line for each disruption, in the order of lines, which is by when the runs began.
func disruptions(lines []*history.Line) []*history.Line {
	left := again(lines)
	return slices.DeleteFunc(slices.Clone(lines), func(l *history.Line) bool { return left[l] != nil })
}

// Again returns the runs that do not count, as another one measured the same disruption, each with the one that does.
// Runs are told by their ID. One that measured several Services counts if that is so for one of them.
func Again(lines []history.Line) map[string]string {
	all := latest(lines)
	left, counts, instead := again(all), map[string]bool{}, map[string]string{}
	for _, l := range all {
		if by := left[l]; by == nil {
			counts[l.Run] = true
		} else {
			instead[l.Run] = by.Run
		}
	}
	maps.DeleteFunc(instead, func(run, _ string) bool { return counts[run] })
	return instead
}

// again returns the lines that do not count, each with the one that does. Two guards measure each disruption. As of two
// sources of one run, what was lost from one of them was lost: the run counts that lost most. Lines without the
// Service's UID are not compared: another cluster may have a Service of that name.
func again(lines []*history.Line) map[*history.Line]*history.Line {
	left := map[*history.Line]*history.Line{}
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
	return left
}

// leaveOut notes those of some lines of a Service that measured the same as one that says worse.
func leaveOut(lines []*history.Line, left map[*history.Line]*history.Line) {
	var worst []*history.Line
	worstFirst := func(a, b *history.Line) int { return cmp.Or(history.Worse(a, b), cmp.Compare(b.Sent, a.Sent)) }
	for _, l := range slices.SortedStableFunc(slices.Values(lines), worstFirst) {
		if i := slices.IndexFunc(worst, l.Same); i >= 0 {
			left[l] = worst[i]
		} else {
			worst = append(worst, l)
		}
	}
}
