package wording

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says how much a run lost, and what serving longer would have left of that.

// extent says which share of the requests of the kind that lost most failed, for how long, seen from where, how much
// full outage that equals, and which of several incidents did most harm.
func (s *scene) extent() string {
	worst := ""
	if n := len(s.tl.Incidents); n > 1 {
		worst = fmt.Sprintf("incident %d of %d did most harm", model.MostHarmful(s.tl.Incidents)[0].ID, n)
	}
	return joined("; ", s.lostMost(), worst)
}

// lostMost says what the requests lost of the kind that lost most; "" if no request failed. Share and length are of
// the same windows.
func (s *scene) lostMost() string {
	if s.tl.Verdict.Failed == 0 {
		return ""
	}
	var failing []*model.Incident
	var windows []*model.Window
	for i := range s.tl.Incidents {
		if in := &s.tl.Incidents[i]; in.Failed > 0 {
			failing = append(failing, in)
			windows = append(windows, s.windowsOf(in)...)
		}
	}
	kinds := s.lost(slices.DeleteFunc(windows, func(w *model.Window) bool { return w.Kind == model.CutKind }))
	if len(kinds) == 0 || kinds[0].failed == 0 {
		return s.equals(&kindLoss{})
	}
	k := kinds[0]
	text := fmt.Sprintf("%s of %s failed", quantity.Percent(k.share()), k.of)
	if length := s.failedFor(k, failing); length != "" {
		text += " " + length
	}
	return joined("; ", text+s.seenFrom(k.windows), s.equals(k))
}

// failedFor says for how long requests of a kind failed, without the time between the incidents, or bursts, in which
// they did; "" if that is an instant.
func (s *scene) failedFor(k *kindLoss, failing []*model.Incident) string {
	bursts := s.bursts(k.windows)
	one := incident{Incident: failing[0], windows: k.windows, run: s}
	if from, to, ok := failedBetween(failing); len(bursts) == 0 && ok {
		bursts = []burst{{from, to}}
	}
	if len(bursts) == 0 {
		return ""
	}
	last := bursts[len(bursts)-1]
	if from, to, ok := failedBetween(failing); ok && len(failing) == 1 && len(bursts) == 1 && one.Recurs == nil {
		if whole := to - from; whole > 0 && lengthOf(bursts) > whole-whole/10 {
			one.windows = s.windowsOf(failing[0]) // about all of the incident: one length, as WHEN has it
			return "for " + one.length(0, whole)
		}
	}
	switch length := lengthOf(bursts); {
	case len(failing) > 1:
		return fmt.Sprintf("in %s, %s together", incidentsWith(k, failing), one.length(0, length))
	case one.Recurs != nil:
		return fmt.Sprintf("in %d bursts over %s", one.Recurs.Times, one.length(bursts[0].from, last.to))
	case len(bursts) > 1:
		return fmt.Sprintf("in %d bursts, %s together", len(bursts), one.length(0, length))
	case length > 0:
		return "for " + one.length(0, length)
	}
	return ""
}

// incidentsWith counts the incidents in which requests of a kind failed.
func incidentsWith(k *kindLoss, failing []*model.Incident) string {
	n := 0
	for _, in := range failing {
		if slices.ContainsFunc(k.windows, func(w *model.Window) bool { return slices.Contains(in.Windows, w.ID) }) {
			n++
		}
	}
	return quantity.Count(n, "incident")
}

// seenFrom says from which of several nodes failures were seen: ", from all 3 nodes".
func (s *scene) seenFrom(windows []*model.Window) string {
	all, failing := map[string]bool{}, map[string]bool{}
	for i := range s.tl.Targets {
		if t := &s.tl.Targets[i]; t.Kind.Judged() && t.Node != "" {
			all[t.Node] = true
		}
	}
	for _, w := range windows {
		if t := s.targets[w.Target]; t != nil && t.Node != "" && w.Failed > 0 {
			failing[t.Node] = true
		}
	}
	switch {
	case len(all) < 2 || len(failing) == 0:
		return ""
	case len(all) == len(failing):
		return fmt.Sprintf(", from all %d nodes", len(all))
	case len(failing) == 1:
		for node := range failing {
			return fmt.Sprintf(", from %s alone of %d nodes", node, len(all))
		}
	}
	return fmt.Sprintf(", from %d of %d nodes", len(failing), len(all))
}

// equals says how long a full outage would have been that loses as much. Where all requests failed the length says it,
// and only how much less of it is certain is said: in the rest, too few requests were sent.
func (s *scene) equals(k *kindLoss) string {
	total, open := s.tl.Verdict.Downtime.Total, s.tl.Verdict.Downtime.Open
	open = open || tooLittle(s.tl) && total.Min > 0
	length := quantity.Length(total, open)
	switch {
	case s.isOutage(k):
		whole := lengthOf(s.bursts(k.windows))
		if total.Min > 0 && total.Min < whole-whole/20 {
			return fmt.Sprintf("%s of that is certain, in the rest too few were sent", quantity.Lowest(total.Min))
		}
		return ""
	case length == quantity.UnknownLength:
		return "how much full outage that equals is not known"
	case open:
		return "equals " + length + " of full outage for certain"
	case total.Min <= 0 && total.Max > 0:
		return "equals " + length + " of full outage at the worst"
	case affected(s.tl) > 1:
		return "equals " + length + " of full outage for the requests hit worst"
	}
	return "equals " + length + " of full outage"
}

// isOutage reports whether all requests of a kind failed in one window, and the other windows lost no more.
func (s *scene) isOutage(k *kindLoss) bool {
	if len(k.windows) != 1 || k.failed < k.sent || len(s.bursts(k.windows)) == 0 {
		return false
	}
	lost := map[string]time.Duration{}
	for i := range s.tl.Windows {
		w := &s.tl.Windows[i]
		lost[w.Target] += w.Downtime.Max
	}
	most := k.windows[0].Downtime.Max
	return slices.Max(slices.Collect(maps.Values(lost))) <= most+most/10
}

// affected returns the number of targets with downtime.
func affected(tl *model.Timeline) int {
	targets := map[string]bool{}
	for i := range tl.Windows {
		if w := &tl.Windows[i]; w.Kind != model.Slow {
			targets[w.Target] = true
		}
	}
	return len(targets)
}

// keepServing says in a sentence what would be left of the failures, had each Pod served on for as long as is advised,
// or where nothing is advised, for as long as leaves fewest; "" if that says nothing.
func keepServing(tl *model.Timeline) string {
	k := tl.KeepServing
	if k == nil || len(k.Left) == 0 {
		return ""
	}
	left := k.Left[len(k.Left)-1]
	longer := cmp.Or(advised(tl), left.Longer)
	for _, l := range slices.Backward(k.Left) {
		if l.Longer <= longer {
			left = l
			break
		}
	}
	if left.Longer > longer || left.Max >= k.Failed {
		return ""
	}
	if left.Longer < longer { // the least is not known
		left.Min = 0
	}
	would := fmt.Sprintf("%d to %d", left.Min, left.Max)
	switch {
	case left.Max == 0:
		would = "none"
	case left.Min == left.Max:
		would = fmt.Sprint(left.Max)
	case left.Min == 0:
		would = fmt.Sprintf("%d at most", left.Max)
	}
	return fmt.Sprintf("Had each Pod served %s longer, %s of the %s of this cause would remain",
		quantity.Span(longer), would, quantity.Count(k.Failed, "failure"))
}

// advised returns the longest sleep that is advised; 0 if none is.
func advised(tl *model.Timeline) (longest time.Duration) {
	for i := range tl.Incidents {
		for _, c := range tl.Incidents[i].Causes {
			if c.Sleep != nil {
				longest = max(longest, time.Duration(c.Sleep.Seconds())*time.Second)
			}
		}
	}
	return longest
}
