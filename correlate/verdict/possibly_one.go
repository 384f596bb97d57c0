package verdict

import (
	"time"

	"lapse/correlate/model"
)

// A possiblyOne is windows of one target, by start, that may be one: what parts them is unobserved time.
type possiblyOne []*model.Window

// blackouts returns windows that may have been one stretch without a success: each ends, and the next begins, in the
// same unobserved time.
func blackouts(tl *model.Timeline) []possiblyOne {
	return grouped(tl, func(a, b *model.Window) bool { return sameGap(tl, a, b) })
}

// joinable returns stretches that may be one window: unobserved time lies between, and what was seen to be well there
// is too short to part two windows, had requests failed in the rest.
func joinable(tl *model.Timeline) []possiblyOne {
	return grouped(tl, func(a, b *model.Window) bool {
		observed, gap := observedBetween(tl, a, b)
		return gap && observed < tl.Run.Join || sameGap(tl, a, b)
	})
}

// grouped puts windows into one for as long as one may go on in the next.
func grouped(tl *model.Timeline, goesOn func(a, b *model.Window) bool) []possiblyOne {
	var all []possiblyOne
	last := map[string]int{} // by target, of all
	for w := range downtimes(tl) {
		i, ok := last[w.Target]
		if ok && goesOn(all[i].last(), w) {
			all[i] = append(all[i], w)
			continue
		}
		last[w.Target] = len(all)
		all = append(all, possiblyOne{w})
	}
	return all
}

func sameGap(tl *model.Timeline, a, b *model.Window) bool {
	observed, gap := observedBetween(tl, a, b)
	return a.Open.End && b.Open.Start && gap && observed <= 0
}

// observedBetween returns the longest time observed without a break between the brackets of two neighbouring windows,
// and whether any time between their failures was not.
func observedBetween(tl *model.Timeline, a, b *model.Window) (observed time.Duration, gap bool) {
	from := a.End.Latest
	for _, u := range tl.Unobserved {
		if u.Target != a.Target || u.End <= a.End.Earliest || u.Start >= b.Start.Latest {
			continue
		}
		gap = true
		observed = max(observed, u.Start-from)
		from = max(from, u.End)
	}
	return max(observed, b.Start.Earliest-from), gap
}

func (s possiblyOne) last() *model.Window { return s[len(s)-1] }

// upperBound returns how long a stretch and its downtime can be; open if nothing bounds them.
func (s possiblyOne) upperBound() (length, downtime time.Duration, open bool) {
	if len(s) == 1 {
		return upperBound(s[0])
	}
	from, _ := bounds(s[0])
	_, to := bounds(s.last())
	for _, w := range s {
		_, most, unbounded := upperBound(w)
		downtime += most // counts unobserved time between two windows twice: either may have lasted through it
		open = open || unbounded
	}
	return to - from, min(downtime, to-from), open
}

// upperBound returns how long a window and its downtime can be; open if nothing bounds them.
func upperBound(w *model.Window) (length, downtime time.Duration, open bool) {
	switch {
	case w.Open == (model.Open{}):
		return w.Length.Max, w.Downtime.Max, false
	case w.Most != nil:
		return w.Most.Length, w.Most.Downtime, false
	}
	return w.Length.Max, w.Downtime.Max, true
}

// bounds returns from where to where a window can last: from the good requests beyond unobserved time to those, as far
// as any bound it. Of a window that is open at both ends it is not recorded how much of the unobserved time lies on
// which side: all of it may.
func bounds(w *model.Window) (from, to time.Duration) {
	from, to = w.Start.Earliest, w.End.Latest
	if w.Most == nil {
		return from, to
	}
	gap := w.Most.Length - w.Length.Max
	if w.Open.Start {
		from -= gap
	}
	if w.Open.End {
		to += gap
	}
	return from, to
}
