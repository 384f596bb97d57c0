package verdict

import (
	"time"

	"lapse/correlate/model"
)

// A stretch is windows of one target, by start, that may be one: what parts them is unobserved time.
type stretch []*model.Window

// blackouts are stretches that may have been without any success: each window ends and the next begins in the dark.
func blackouts(tl *model.Timeline) []stretch {
	return stretches(tl, func(a, b *model.Window) bool { return sameDark(tl, a, b) })
}

// joinable are stretches that may be one window: unobserved time lies between, and what was seen to be well there is too
// short to part two windows, had requests failed in the rest.
func joinable(tl *model.Timeline) []stretch {
	return stretches(tl, func(a, b *model.Window) bool {
		lit, dark := litBetween(tl, a, b)
		return dark && lit < tl.Run.Join || sameDark(tl, a, b)
	})
}

// stretches puts windows into one for as long as one may go on in the next.
func stretches(tl *model.Timeline, goesOn func(a, b *model.Window) bool) []stretch {
	var all []stretch
	last := map[string]int{} // by target, of all
	for w := range downtimes(tl) {
		i, ok := last[w.Target]
		if ok && goesOn(all[i].last(), w) {
			all[i] = append(all[i], w)
			continue
		}
		last[w.Target] = len(all)
		all = append(all, stretch{w})
	}
	return all
}

func sameDark(tl *model.Timeline, a, b *model.Window) bool {
	lit, dark := litBetween(tl, a, b)
	return a.Open.End && b.Open.Start && dark && lit <= 0
}

// litBetween is the longest time observed without a break between the brackets of two neighbouring windows, and whether any
// time between their failures was not.
func litBetween(tl *model.Timeline, a, b *model.Window) (lit time.Duration, dark bool) {
	from := a.End.Latest
	for _, u := range tl.Unobserved {
		if u.Target != a.Target || u.End <= a.End.Earliest || u.Start >= b.Start.Latest {
			continue
		}
		dark = true
		lit = max(lit, u.Start-from)
		from = max(from, u.End)
	}
	return max(lit, b.Start.Earliest-from), dark
}

func (s stretch) last() *model.Window { return s[len(s)-1] }

// atMost is how long a stretch and its downtime can be; open if nothing bounds them.
func (s stretch) atMost() (length, downtime time.Duration, open bool) {
	if len(s) == 1 {
		return atMost(s[0])
	}
	from, _ := reach(s[0])
	_, to := reach(s.last())
	for _, w := range s {
		_, most, unbounded := atMost(w)
		downtime += most // counts the dark twice, as either window may have lasted through it
		open = open || unbounded
	}
	return to - from, min(downtime, to-from), open
}

// atMost is how long a window and its downtime can be; open if nothing bounds them.
func atMost(w *model.Window) (length, downtime time.Duration, open bool) {
	switch {
	case w.Open == (model.Open{}):
		return w.Length.Max, w.Downtime.Max, false
	case w.Most != nil:
		return w.Most.Length, w.Most.Downtime, false
	}
	return w.Length.Max, w.Downtime.Max, true
}

// reach is from where to where a window can last: from the good requests beyond unobserved time to those, as far as any bound
// it. How much of the dark lies on which side of a window that is open at both is not on record: all of it may.
func reach(w *model.Window) (from, to time.Duration) {
	from, to = w.Start.Earliest, w.End.Latest
	if w.Most == nil {
		return from, to
	}
	dark := w.Most.Length - w.Length.Max
	if w.Open.Start {
		from -= dark
	}
	if w.Open.End {
		to += dark
	}
	return from, to
}
