package verdict

import (
	"cmp"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// services gives each Service that was measured a verdict of its own, and sorts the worst first. Those that lost as
// much keep their order.
func services(tl *model.Timeline) []model.WatchedService {
	all := slices.Clone(tl.Services)
	parts := partsOf(tl)
	for i := range all {
		all[i].Verdict = nil
		if name := all[i].Name; name != "" && parts[name] != nil {
			all[i].Verdict = serviceVerdict(tl, parts[name])
		}
	}
	slices.SortStableFunc(all, func(a, b model.WatchedService) int { return compareServices(a.Verdict, b.Verdict) })
	return all
}

// compareServices puts the one that lost more first, and what is only watched last.
func compareServices(a, b *model.ServiceVerdict) int {
	switch {
	case a == nil || b == nil:
		return cmp.Compare(onlyWatched(a), onlyWatched(b))
	default:
		return cmp.Or(cmp.Compare(b.Downtime.Total.Min, a.Downtime.Total.Min), cmp.Compare(b.Failed, a.Failed),
			cmp.Compare(b.Cut, a.Cut))
	}
}

func onlyWatched(v *model.ServiceVerdict) int {
	if v == nil {
		return 1
	}
	return 0
}

// Of returns what was found of one Service, or of all URLs together if service is "". It is nil if nothing was sent.
func Of(tl *model.Timeline, service string) *model.ServiceVerdict {
	if part := partsOf(tl)[service]; part != nil {
		return serviceVerdict(tl, part)
	}
	return nil
}

// partsOf returns the parts of a run that are about one Service each, by NAMESPACE/NAME, or about its URLs, by "": the
// targets that are judged or held, what became of them, and their unobserved time.
func partsOf(tl *model.Timeline) map[string]*model.Timeline {
	parts, of := map[string]*model.Timeline{}, map[string]*model.Timeline{}
	for i := range tl.Targets {
		t := &tl.Targets[i]
		if !t.Kind.Judged() && t.Kind != timeline.Held {
			continue
		}
		if parts[t.Service] == nil {
			parts[t.Service] = &model.Timeline{Run: tl.Run}
		}
		of[t.Name] = parts[t.Service]
		of[t.Name].Targets = append(of[t.Name].Targets, *t)
	}
	for _, w := range tl.Windows {
		if part := of[w.Target]; part != nil {
			part.Windows = append(part.Windows, w)
		}
	}
	for _, h := range tl.Held {
		if part := of[h.Target]; part != nil {
			part.Held = append(part.Held, h)
		}
	}
	for _, u := range tl.Unobserved {
		if part := of[u.Target]; part != nil {
			part.Unobserved = append(part.Unobserved, u)
		}
	}
	return parts
}

// serviceVerdict judges the part of a run that is about one Service.
func serviceVerdict(tl, part *model.Timeline) *model.ServiceVerdict {
	whole, held := losses(part), sumHeld(part)
	bound(&whole, part)
	v := &model.ServiceVerdict{Sent: whole.Sent, Failed: whole.Failed, Downtime: whole.Downtime,
		Coverage: whole.Coverage, Held: held.connections, Cut: held.cut, Cause: worstCause(part)}
	lost := map[int]bool{} // windows
	for w := range downtimes(part) {
		lost[w.ID] = true
	}
	for _, w := range part.HeldWindows() {
		lost[w.ID] = true
	}
	for _, in := range tl.Incidents {
		if slices.ContainsFunc(in.Windows, func(id int) bool { return lost[id] }) {
			v.Incidents++
		}
	}
	return v
}

// worstCause returns the likeliest cause of most of the failures, in the words that it has where most failed; nil if
// there is none.
func worstCause(part *model.Timeline) *model.ServiceCause {
	byRule, worst := map[string]*model.ServiceCause{}, map[string]int{}
	var first *model.ServiceCause
	for w := range downtimes(part) {
		if len(w.Causes) == 0 {
			continue
		}
		c := &w.Causes[0]
		if byRule[c.Rule] == nil {
			byRule[c.Rule] = &model.ServiceCause{Rule: c.Rule}
		}
		of := byRule[c.Rule]
		of.Failed += w.Failed
		if w.Failed > worst[c.Rule] {
			worst[c.Rule] = w.Failed
			of.Confidence, of.Text, of.Fix = c.Confidence, c.Text, c.Fix
		}
		if first == nil || of.Failed > first.Failed {
			first = of
		}
	}
	return first
}
