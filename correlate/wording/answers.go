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

// when says when the first and the last request of an incident failed, whether that is all of it, how long after the
// command began, and what set it off.
func (in *incident) when() string {
	from, to, known := failedBetween([]*model.Incident{in.Incident})
	if !known {
		from, to = in.Start.Latest, max(in.Start.Latest, in.End.Earliest)
	}
	text := in.lastedFrom(from, to)
	if in.Recurs != nil {
		text = fmt.Sprintf("%d times, %s", in.Recurs.Times, text)
	}
	if c := in.run.tl.Run.Command; c != nil && c.Start != nil && from >= *c.Start {
		text += fmt.Sprintf(", %s after the command began", quantity.Span(from-*c.Start))
	}
	for _, e := range []edge{in.unobservedStart(), in.unobservedEnd()} {
		if e.text != "" {
			text += ", and " + e.String()
		}
	}
	if len(in.Triggers) > 0 {
		text += "; set off by " + in.setOffBy()
	}
	return text
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
	return in.outermost(in.run.startEdge, func(w, other *model.Window) bool {
		return !other.Open.Start && other.Start.Latest <= w.Start.Earliest
	})
}

// unobservedEnd says that the incident's end was not observed; empty if it was, or another end surely came after.
func (in *incident) unobservedEnd() edge {
	return in.outermost(in.run.endEdge, func(w, other *model.Window) bool {
		return !other.Open.End && other.End.Earliest >= w.End.Latest
	})
}

// outermost returns the first thing that is said of an end of the incident's windows with losses, without that of
// windows that others lie beyond.
func (in *incident) outermost(of func(*model.Window) edge, beyond func(w, other *model.Window) bool) edge {
	outer := *in
	outer.windows = slices.DeleteFunc(slices.Clone(in.windows), func(w *model.Window) bool {
		return in.Failed > 0 && w.Failed == 0 ||
			slices.ContainsFunc(in.windows, func(other *model.Window) bool { return beyond(w, other) })
	})
	if edges := outer.edges(of); len(edges) > 0 {
		return edges[0]
	}
	return edge{}
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
	for _, k := range in.run.lost(requests) {
		list = append(list, model.Lost{Of: k.of, Text: joined("; ", k.text(), in.spansOf(k))})
	}
	for _, w := range cuts {
		text := fmt.Sprintf("%d of %d were cut: %s", w.Failed, w.Sent, classText(w.Classes))
		if c := in.run.cuts[w.ID]; c != nil && c.Back != nil {
			text += ", back after " + quantity.Length(*c.Back, false)
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
	text = joined("; ", text, in.elsewhere(c))
	for i := range in.Causes[1:] {
		text += "; " + in.besides(&in.Causes[1+i])
	}
	return in.run.ofService(in.Targets, text)
}

// besides says what a further cause made.
func (in *incident) besides(c *model.IncidentCause) string {
	var losses []string
	if c.Failed > 0 {
		losses = append(losses, fmt.Sprintf("%d of %s", c.Failed, quantity.Count(in.Failed, "failure")))
	}
	if c.Cut > 0 {
		losses = append(losses, fmt.Sprintf("%d of %s", c.Cut, quantity.Count(in.Cut, "cut connection")))
	}
	name := c.Name()
	if name == model.Unexplained {
		name = "not explained"
	}
	return name + ": " + cmp.Or(strings.Join(losses, " and "), "late answers")
}

// elsewhere says how long other nodes routed to the Pod that a cause is about.
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
	if more := len(parts) - 4; more > 0 {
		parts = append(parts[:4:4], fmt.Sprintf("%d more nodes", more))
	}
	return strings.Join(parts, ", ")
}

// patchReplacesPods is what to know before a patch of a workload's template is applied.
const patchReplacesPods = "the patch replaces the Pods, and may lose requests once more: those of now end without it"

// do says what to change, or what to look at next, and the command that changes it.
func (in *incident) do() (list []string, patch string) {
	list = []string{}
	known := map[string]bool{"": true}
	for i := range in.Causes {
		c := &in.Causes[i]
		if known[c.Fix] {
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
	return list, patch
}

// SleepText says how long Pods have to serve on, and which part of that was measured. If it may have taken longer than
// that, it says only what is sure.
func SleepText(sleep *model.Sleep) string {
	longer := sleep.Bounds.Max > time.Duration(sleep.Seconds())*time.Second
	return fmt.Sprintf("serve on for %d s after SIGTERM, as with a preStop sleep (%s was measured, the rest is margin)",
		sleep.Seconds(), quantity.Length(sleep.Bounds, longer))
}
