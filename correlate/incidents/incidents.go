// Package incidents puts the windows of a judged run together into incidents, the unit of a report: windows that
// overlap, or that one change in the cluster set off, such as a drain, a rollout or a Pod's end.
package incidents

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
)

// Of returns the incidents of a run whose windows have their causes, by start. Windows less than join apart belong
// together.
func Of(tl *model.Timeline, join time.Duration) []model.Incident {
	s := newScope(tl)
	all := make([]*model.Window, 0, len(tl.Windows))
	for i := range tl.Windows {
		all = append(all, &tl.Windows[i])
	}
	for _, w := range tl.HeldWindows() {
		all = append(all, &w.Window)
	}
	sets := make([]set, len(all))
	for i, w := range all {
		sets[i] = set{windows: []*model.Window{w}, triggers: s.triggersOf(w)}
	}
	sets = recurring(unite(sets, join))
	list := make([]model.Incident, 0, len(sets))
	for _, one := range sets {
		in := one.publish()
		if in.Recurs != nil {
			i := slices.IndexFunc(in.Causes, func(c model.IncidentCause) bool { return c.Rule == model.Unexplained })
			in.Causes[i].Cause = one.typical()
			in.Causes[i].Text += "; " + recurrenceText(in.Recurs, s.quiet(&in))
		}
		list = append(list, in)
	}
	setFailed(list, tl)
	slices.SortStableFunc(list, func(a, b model.Incident) int {
		return cmp.Compare(a.Start.Earliest, b.Start.Earliest)
	})
	for i := range list {
		list[i].ID = i + 1
	}
	return list
}

// A set is the windows of one incident, and what set them off.
type set struct {
	windows  []*model.Window
	triggers []trigger
	recurs   bool // the windows share one sign
}

// unite joins sets until no two of them belong together.
func unite(sets []set, join time.Duration) []set {
	var united []set
	for _, next := range sets {
		apart := united[:0]
		for _, other := range united {
			if next.belongsWith(other, join) {
				next = other.with(next)
				continue
			}
			apart = append(apart, other)
		}
		united = append(apart, next)
	}
	return united
}

// belongsWith reports whether windows of the two overlap, or lie less than join apart, or were set off by the same
// change.
func (s set) belongsWith(o set, join time.Duration) bool {
	for _, a := range s.windows {
		for _, b := range o.windows {
			if a.Start.Earliest-join < b.End.Latest && b.Start.Earliest-join < a.End.Latest {
				return true
			}
		}
	}
	return slices.ContainsFunc(s.triggers, func(t trigger) bool { return indexOf(o.triggers, t.key) >= 0 })
}

// with returns the union of two sets.
func (s set) with(o set) set {
	both := set{windows: slices.Concat(s.windows, o.windows), recurs: s.recurs}
	for _, t := range slices.Concat(s.triggers, o.triggers) {
		if i := indexOf(both.triggers, t.key); i >= 0 {
			both.triggers[i] = both.triggers[i].with(t)
			continue
		}
		both.triggers = append(both.triggers, t)
	}
	return both
}

func (s set) publish() model.Incident {
	slices.SortStableFunc(s.windows, func(a, b *model.Window) int { return cmp.Compare(a.ID, b.ID) })
	in := model.Incident{
		Windows:  []int{},
		Start:    s.windows[0].Start,
		End:      s.windows[0].End,
		Classes:  map[string]int{},
		Triggers: s.publishTriggers(),
	}
	lost := map[string]model.Length{}
	for _, w := range s.windows {
		in.Windows = append(in.Windows, w.ID)
		in.Start = earlier(in.Start, w.Start)
		in.End = later(in.End, w.End)
		in.Live = in.Live || w.Live
		if w.Kind == model.CutKind { // its figures are of connections
			in.Cut += w.Failed
			lost[w.Target] = model.Length{}
			continue
		}
		in.Sent, in.Failed, in.Slow = in.Sent+w.Sent, in.Failed+w.Failed, in.Slow+w.Slow
		in.NoEvidence += w.NoEvidence
		in.Open = in.Open || w.Open != model.Open{}
		for class, n := range w.Classes {
			in.Classes[class] += n
		}
		sum := lost[w.Target]
		lost[w.Target] = model.Length{Min: sum.Min + w.Downtime.Min, Max: sum.Max + w.Downtime.Max}
	}
	in.Targets = slices.SortedFunc(maps.Keys(lost), func(a, b string) int {
		return cmp.Or(cmp.Compare(lost[b].Max, lost[a].Max), cmp.Compare(a, b))
	})
	in.Downtime = lost[in.Targets[0]]
	in.Causes = causesOf(s.windows)
	in.Recurs = s.recurrence()
	return in
}

func earlier(a, b model.Instant) model.Instant {
	return model.Instant{Earliest: min(a.Earliest, b.Earliest), Latest: min(a.Latest, b.Latest)}
}

func later(a, b model.Instant) model.Instant {
	return model.Instant{Earliest: max(a.Earliest, b.Earliest), Latest: max(a.Latest, b.Latest)}
}

// causesOf returns the most likely cause of each window, each rule once, with the text of the window that tells most:
// see surer. The cause with the most losses (failed requests and cut connections) comes first, of equals a known one.
func causesOf(windows []*model.Window) []model.IncidentCause {
	list := []model.IncidentCause{}
	for _, w := range windows {
		if len(w.Causes) == 0 {
			continue
		}
		c := model.IncidentCause{Cause: w.Causes[0], Windows: []int{w.ID}, Failed: w.Failed}
		if w.Kind == model.CutKind {
			c.Failed, c.Cut = 0, w.Failed
		}
		i := slices.IndexFunc(list, func(o model.IncidentCause) bool { return o.Rule == c.Rule })
		if i < 0 {
			list = append(list, c)
			continue
		}
		if surer(c, list[i]) {
			list[i].Cause = c.Cause
		}
		list[i].Windows = append(list[i].Windows, w.ID)
		list[i].Failed += c.Failed
		list[i].Cut += c.Cut
	}
	unknown := func(c model.IncidentCause) int {
		if c.Rule == model.Unexplained {
			return 1
		}
		return 0
	}
	slices.SortStableFunc(list, func(a, b model.IncidentCause) int {
		return cmp.Or(cmp.Compare(b.Failed+b.Cut, a.Failed+a.Cut), cmp.Compare(unknown(a), unknown(b)))
	})
	return list
}

// surer reports whether a tells more of an incident than b, a cause by the same rule.
func surer(a, b model.IncidentCause) bool {
	return cmp.Or(cmp.Compare(grade(a.Confidence), grade(b.Confidence)), cmp.Compare(proven(a.Cause), proven(b.Cause)),
		cmp.Compare(len(a.Measures), len(b.Measures)), cmp.Compare(a.Failed, b.Failed)) > 0
}

func grade(c model.Confidence) int {
	return slices.Index([]model.Confidence{model.Low, model.Medium, model.High}, c)
}

// proven returns the longest length that a cause's measures prove.
func proven(c model.Cause) (longest time.Duration) {
	for _, m := range c.Measures {
		longest = max(longest, m.Length.Min)
	}
	return longest
}
