package wording

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says how much a run lost, and what serving longer would have left of that.

// extent says which share of the requests that lost most failed, for how long, seen from where, how much full outage
// that equals, and which of several incidents did most harm.
func (s *scene) extent() string {
	worst := ""
	if n := len(s.tl.Incidents); n > 1 {
		worst = fmt.Sprintf("incident %d of %d did most harm", model.MostHarmful(s.tl.Incidents)[0].ID, n)
	}
	return joined("; ", s.lostInAll(), worst)
}

// lostInAll says what the run lost; "" if no request failed.
func (s *scene) lostInAll() string {
	tl := s.tl
	if tl.Verdict.Failed == 0 {
		return ""
	}
	var failing []*model.Incident
	var windows []*model.Window
	for i := range tl.Incidents {
		if in := &tl.Incidents[i]; in.Failed > 0 {
			failing = append(failing, in)
			windows = append(windows, s.windowsOf(in)...)
		}
	}
	var parts []string
	if kinds := s.lost(windows); len(kinds) > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s failed", quantity.Percent(kinds[0].share()), kinds[0].of))
	}
	if from, to, ok := failedBetween(failing); ok && to > from {
		one := incident{Incident: failing[0], windows: windows, run: s}
		text, bursts := " for "+one.length(from, to), s.bursts(windows)
		switch n := len(failing); {
		case n > 1:
			text = fmt.Sprintf(" in %d incidents within %s", n, quantity.Span(to-from))
		case len(bursts) > 1 && one.Recurs == nil:
			text = fmt.Sprintf(" in %d bursts, %s together", len(bursts), quantity.Span(lengthOf(bursts)))
		case again(windows):
			text = " at times within " + quantity.Span(to-from)
		}
		parts = append(parts, text)
	}
	parts = append(parts, s.seenFrom(windows), "; "+equals(tl))
	return strings.TrimPrefix(strings.Join(parts, ""), "; ")
}

// again reports whether the requests of a target were well between two of these windows.
func again(windows []*model.Window) bool {
	known := map[string]bool{}
	for _, w := range windows {
		if known[w.Target] {
			return true
		}
		known[w.Target] = true
	}
	return false
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

// equals says how long a full outage would have been that loses as much.
func equals(tl *model.Timeline) string {
	total, open := tl.Verdict.Downtime.Total, tl.Verdict.Downtime.Open
	length := quantity.Length(total, open || tooLittle(tl) && total.Min > 0)
	switch {
	case length == quantity.UnknownLength:
		return "how much full outage that equals is not known"
	case affected(tl) > 1:
		return "equals " + length + " of full outage at the worst target"
	}
	return "equals " + length + " of full outage"
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

// keepServing says in a sentence what serving longer would have left of the failures.
func keepServing(k *model.KeepServing) string {
	if k == nil || len(k.Left) == 0 {
		return ""
	}
	var parts []string
	last := k.Left[len(k.Left)-1]
	for _, left := range k.Left {
		shown := left.Longer == 500*time.Millisecond || left.Longer == time.Second || left.Longer == 2*time.Second
		switch {
		case left != last && (!shown || left.Longer > last.Longer):
		case len(parts) == 0:
			parts = append(parts, fmt.Sprintf("%s would remain had each Pod served %s longer",
				leftText(left), quantity.Span(left.Longer)))
		default:
			parts = append(parts, leftText(left)+" with "+quantity.Span(left.Longer))
		}
	}
	return "Of the " + quantity.Count(k.Failed, "failure") + ", " + strings.Join(parts, ", ")
}

func leftText(left model.ServedLonger) string {
	switch {
	case left.Max == 0:
		return "none"
	case left.Min == left.Max:
		return fmt.Sprint(left.Max)
	}
	return fmt.Sprintf("%d to %d", left.Min, left.Max)
}
