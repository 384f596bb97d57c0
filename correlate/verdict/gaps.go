package verdict

import (
	"slices"

	"lapse/correlate/model"
)

// downtimes returns the windows that make a downtime, of every judged target.
func downtimes(tl *model.Timeline) func(yield func(*model.Window) bool) {
	return func(yield func(*model.Window) bool) {
		for i := range tl.Windows {
			if w := &tl.Windows[i]; w.Kind != model.Slow && !yield(w) {
				return
			}
		}
	}
}

// gapsByTarget returns the unobserved time of each target.
func gapsByTarget(tl *model.Timeline) map[string][]model.Unobserved {
	gaps := map[string][]model.Unobserved{}
	for _, u := range tl.Unobserved {
		gaps[u.Target] = append(gaps[u.Target], u)
	}
	return gaps
}

// touchesGap reports whether u lies within a window's brackets, or they end at it.
func touchesGap(w *model.Window, u model.Unobserved) bool {
	switch {
	case u.Target != w.Target:
		return false
	case w.Open.Start && u.End == w.Start.Earliest, w.Open.End && u.Start == w.End.Latest:
		return true
	}
	return u.Start < w.End.Latest && u.End > w.Start.Earliest
}

// touchesAnyGap reports whether unobserved time lies in a window or at its edge.
func touchesAnyGap(tl *model.Timeline, w *model.Window) bool {
	if w.Open != (model.Open{}) {
		return true
	}
	return slices.ContainsFunc(tl.Unobserved, func(u model.Unobserved) bool { return touchesGap(w, u) })
}
