package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says of an incident when, what, why, and what to do, as a summary does.

// headline says an incident in a line.
func (in *incident) headline() string {
	text := in.requests()
	if in.FailedFrom != nil {
		text = in.run.clock(*in.FailedFrom) + " " + text
	}
	if len(in.Causes) > 0 {
		text += ": " + in.Causes[0].Name()
	}
	return in.run.ofService(in.Targets, text)
}

// when says on which day an incident was, whether it is over, when the first and the last of its requests failed,
// whether that is all of it, how long after the command began, and what set it off.
func (in *incident) when() string {
	from, to, known := failedBetween([]*model.Incident{in.Incident})
	if !known {
		from, to = in.Start.Latest, max(in.Start.Latest, in.End.Earliest)
	}
	text := in.run.tl.T0.Add(from).UTC().Format(time.DateOnly)
	if state := in.state(); state != "" {
		text += ", " + state
	}
	text += ": "
	if in.Recurs != nil {
		text += fmt.Sprintf("%d times, ", in.Recurs.Times)
	}
	text += in.lastedFrom(from, to)
	if c := in.run.tl.Run.Command; c != nil && c.Start != nil && from >= *c.Start {
		text += fmt.Sprintf(", %s after the command began", quantity.Span(from-*c.Start))
	} else if c != nil && c.Start != nil {
		text += fmt.Sprintf(", %s before the command began", quantity.Span(*c.Start-from))
	}
	if e := in.unobservedStart(); e.text != "" {
		text += ", and " + e.String()
	}
	if len(in.Triggers) > 0 {
		text += "; set off by " + in.setOffBy()
	}
	return text
}

// state says whether an incident is over; "" of failures that come again and again, and of connections that are not
// back.
func (in *incident) state() string {
	if e := in.unobservedEnd(); e.text != "" {
		return e.String()
	}
	back := func(w *model.Window) bool { c := in.run.cuts[w.ID]; return c == nil || c.Missing == 0 }
	if in.Recurs != nil || slices.ContainsFunc(in.windows, func(w *model.Window) bool { return !back(w) }) {
		return ""
	}
	silent := slices.DeleteFunc(slices.Clone(in.windows), in.run.answeredAfter)
	if e := in.outermost(silent, in.endEdge, in.isOutlived); e.text != "" {
		return "failures over, " + e.String()
	}
	return "over"
}

// isGoingOn reports whether requests still failed when measuring ended.
func (in *incident) isGoingOn() bool {
	return in.Failed > 0 && strings.HasPrefix(in.unobservedEnd().text, still)
}

// lastedFrom says from when to when an incident lasted, and how long.
func (in *incident) lastedFrom(from, to time.Duration) string {
	at := in.run.clock(from) + " UTC"
	switch bursts := in.run.bursts(in.windows); {
	case to == from && in.Failed+in.Slow+in.Cut == 1:
		return "once, at " + at
	case to == from && in.Failed > 0:
		return "all at once, at " + at
	case to == from:
		return "about " + at
	case len(bursts) > 1 && in.Recurs == nil:
		return fmt.Sprintf("%s to %s UTC (%d bursts, %s together)",
			in.run.clock(from), in.run.clock(to), len(bursts), quantity.Span(lengthOf(bursts)))
	}
	return fmt.Sprintf("%s to %s UTC (%s)", in.run.clock(from), in.run.clock(to), in.length(from, to))
}

// length says how long it was between two instants: at least that, if an end of the incident was not observed.
func (in *incident) length(from, to time.Duration) string {
	open := in.unobservedStart().text+in.unobservedEnd().text != ""
	return quantity.Length(model.Length{Min: to - from, Max: to - from}, open)
}

// unobservedStart says that the incident's start was not observed; empty if it was, or another start surely came
// before.
func (in *incident) unobservedStart() edge {
	return in.outermost(in.worst(), in.run.startEdge, func(w *model.Window) bool {
		return slices.ContainsFunc(in.windows, func(other *model.Window) bool {
			return !other.Open.Start && other.Start.Latest <= w.Start.Earliest
		})
	})
}

// unobservedEnd says that the incident's end was not observed; empty if it was, or another end surely came after, and
// the target whose end was not observed answered again.
func (in *incident) unobservedEnd() edge { return in.outermost(in.worst(), in.endEdge, in.isOutlived) }

// worst returns the windows with failures, or all if none has any.
func (in *incident) worst() []*model.Window {
	return slices.DeleteFunc(slices.Clone(in.windows), func(w *model.Window) bool {
		return in.Failed > 0 && w.Failed == 0
	})
}

// outermost returns the first thing that is said of an end of windows, without that of inner ones. It changes windows.
func (in *incident) outermost(windows []*model.Window, of func(*model.Window) edge,
	inner func(*model.Window) bool) edge {
	outer := *in
	outer.windows = slices.DeleteFunc(windows, inner)
	if edges := outer.edges(of); len(edges) > 0 {
		return edges[0]
	}
	return edge{}
}

// isOutlived reports whether another window surely ended after w and says more of the incident's end: it is of the same
// target, or that of w answered again.
func (in *incident) isOutlived(w *model.Window) bool {
	after := false
	for _, other := range in.windows {
		if endedAfter(w, other) {
			if after = true; other.Target == w.Target {
				return true
			}
		}
	}
	return after && in.run.answeredAfter(w)
}

// endedAfter reports whether another window surely ended after w.
func endedAfter(w, other *model.Window) bool {
	return !other.Open.End && other.End.Earliest >= w.End.Latest
}

// endEdge says that the end of a window was not observed; empty if it was. If others ended later, it says whose end is
// missing.
func (in *incident) endEdge(w *model.Window) edge {
	e := in.run.endEdge(w)
	later := func(other *model.Window) bool { return endedAfter(w, other) }
	if e.text == "" || in.run.tl.Run.Live || !slices.ContainsFunc(in.windows, later) {
		return e
	}
	e.text = "what became of requests of " + w.Target + " was not observed"
	if target := in.run.targets[w.Target]; target != nil && target.Node != "" {
		e.text = "what became of requests from " + target.Node + " was not observed"
	}
	return e
}

// what says what became of the requests and the held connections of an incident.
func (in *incident) what() []model.Lost {
	list := []model.Lost{}
	var requests, cuts []*model.Window
	for _, w := range in.windows {
		if w.Kind == model.CutKind {
			cuts = append(cuts, w)
		} else {
			requests = append(requests, w)
		}
	}
	at := ""
	if in.Recurs != nil {
		at = " that were sent at these times"
	}
	for _, k := range in.run.lost(requests) {
		list = append(list, model.Lost{Of: k.of, Text: joined("; ", k.failures(at), in.spansOf(k), k.late())})
	}
	for _, w := range cuts {
		text := fmt.Sprintf("%d of %d were cut from about %s on: %s", w.Failed, w.Sent, in.run.clock(w.Start.Latest),
			classText(w.Classes))
		if c := in.run.cuts[w.ID]; c != nil && c.Back != nil {
			text += ", open again after " + quantity.Length(*c.Back, false)
		}
		list = append(list, model.Lost{Of: in.run.kindOf(w), Text: text})
	}
	return list
}

// why says the cause of most losses, and how sure it is.
func (in *incident) why() string {
	if len(in.Causes) == 0 {
		return "no known cause was looked for"
	}
	c := &in.Causes[0]
	text := fmt.Sprintf("%s, %s confidence: %s", c.Rule, c.Confidence, c.Text)
	switch {
	case c.Rule == model.Unexplained && c.Reason != "":
		text = c.Text
	case c.Rule == model.Unexplained:
		text = "not explained: " + c.Text
	}
	parts := []string{text, in.elsewhere(c)}
	for i := range in.Causes[1:] {
		parts = append(parts, in.besides(&in.Causes[1+i]))
	}
	return in.run.ofService(in.Targets, joined("; ", parts...))
}

// besides says what a further cause made, or that nothing is known to have made it; "" of late answers that the first
// cause is about too.
func (in *incident) besides(c *model.IncidentCause) string {
	var losses []string
	add := func(n, of int, what string) {
		switch {
		case n > 0 && n == of:
			losses = append(losses, "all "+quantity.Count(of, what))
		case n > 0:
			losses = append(losses, fmt.Sprintf("%d of %s", n, quantity.Count(of, what)))
		}
	}
	add(c.Failed, in.Failed, "failure")
	add(c.Cut, in.Cut, "cut connection")
	made := cmp.Or(strings.Join(losses, " and "), "late answers")
	switch {
	case c.Rule != model.Unexplained:
		return fmt.Sprintf("%s (%s), %s confidence: %s", c.Rule, made, c.Confidence, c.Text)
	case len(losses) > 0:
		return made + " not explained"
	case strings.Contains(in.Causes[0].Text, "answered late"):
		return ""
	}
	return "why other answers came late is not known"
}

// elsewhere says how long the routes of other nodes led to the Pod that a cause is about.
func (in *incident) elsewhere(c *model.IncidentCause) string {
	if len(c.Measures) == 0 || c.Measures[0].Name != model.RouteLag {
		return ""
	}
	about := c.Measures[0]
	lags := map[string]model.Length{}
	for _, id := range c.Windows {
		w := in.run.windows[id]
		if w == nil || len(w.Causes) == 0 || w.Causes[0].Rule != c.Rule {
			continue
		}
		for _, m := range w.Causes[0].Measures {
			if m.Object == about.Object && m.Node != about.Node && m.Length.Min >= lags[m.Node].Min {
				lags[m.Node] = m.Length
			}
		}
	}
	var parts []string
	for node, lag := range lags {
		parts = append(parts, fmt.Sprintf("%s for %s", node, quantity.Length(lag, false)))
	}
	slices.Sort(parts)
	if len(parts) == 0 {
		return ""
	}
	if more := len(parts) - 4; more > 0 {
		parts = append(parts[:4:4], fmt.Sprintf("%d more nodes", more))
	}
	return "those of " + strings.Join(parts, ", ")
}

// patchReplacesPods is what to know before a patch of a workload's template is applied.
const patchReplacesPods = "the patch replaces the Pods, which may lose requests once more: those of now end without it"

// do says what to change, or what to look at next, and the command that changes it.
func (in *incident) do() (list []string, patch string) {
	list = []string{}
	known := map[string]bool{"": true}
	for i := range in.Causes {
		c := &in.Causes[i]
		if known[c.Fix] || i > 0 && in.isRest(c) {
			continue
		}
		known[c.Fix] = true
		text, of := c.Fix, ""
		if i > 0 {
			of = "for " + c.Name() + ": "
		}
		if c.Sleep == nil || patch != "" {
			list = append(list, in.run.ofService(in.Targets, of+text))
			continue
		}
		command, caveat := in.run.patch(c.Sleep)
		if patch = command; patch != "" {
			caveat = patchReplacesPods
		}
		text = joined("; ", SleepText(c.Sleep), caveat)
		list = append([]string{in.run.ofService(in.Targets, of+text)}, list...)
	}
	if undo, command := in.undo(); patch == "" && command != "" {
		list, patch = append([]string{in.run.ofService(in.Targets, undo)}, list...), command
	}
	if text := in.leaveToAutoscaler(); text != "" {
		list = append(list, in.run.ofService(in.Targets, text))
	}
	return list, patch
}

// isRest reports whether a further cause is no more than that nothing is known of some late answers: what to do about
// the first cause comes first.
func (in *incident) isRest(c *model.IncidentCause) bool {
	return c.Rule == model.Unexplained && c.Failed == 0 && c.Cut == 0
}

// SleepText says how long Pods have to serve on, and which part of that was measured. If it may have taken longer than
// that, it says only what is sure.
func SleepText(sleep *model.Sleep) string {
	longer := sleep.Bounds.Max > time.Duration(sleep.Seconds())*time.Second
	return fmt.Sprintf("serve on for %d s after a Pod's deletion, as with a preStop sleep (%s was measured, the rest "+
		"is margin)", sleep.Seconds(), quantity.Length(sleep.Bounds, longer))
}
