package wording

import (
	"fmt"
	"slices"
	"strings"

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
		text += ": " + in.Causes[0].Rule
	}
	return in.run.ofService(in.Targets, text)
}

// when says when the first and the last request of an incident failed, how long after the command began, and what set
// it off.
func (in *incident) when() string {
	from, to, known := failedBetween([]*model.Incident{in.Incident})
	if !known {
		from, to = in.Start.Latest, max(in.Start.Latest, in.End.Earliest)
	}
	text := in.run.clock(from) + " UTC"
	if to > from {
		text = fmt.Sprintf("%s to %s UTC (%s)", in.run.clock(from), in.run.clock(to), quantity.Span(to-from))
	}
	if in.Recurs != nil {
		text = fmt.Sprintf("%d times, %s", in.Recurs.Times, text)
	}
	if c := in.run.tl.Run.Command; c != nil && c.Start != nil && from >= *c.Start {
		text += fmt.Sprintf(", %s after the command began", quantity.Span(from-*c.Start))
	}
	if len(in.Triggers) > 0 {
		text += "; set off by " + in.setOffBy()
	}
	return text
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
		list = append(list, model.Lost{Of: k.of, Text: k.text()})
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
	if c.Rule == model.Unexplained {
		text = "not explained: " + c.Text
	}
	if others := in.elsewhere(c); others != "" {
		text += "; " + others
	}
	if more := len(in.Causes) - 1; more > 0 {
		rules := make([]string, more)
		for i, c := range in.Causes[1:] {
			rules[i] = c.Rule
		}
		text += "; and " + strings.Join(rules, ", ")
	}
	return in.run.ofService(in.Targets, text)
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
		if c.Sleep == nil || patch != "" {
			list = append(list, in.run.ofService(in.Targets, c.Fix))
			continue
		}
		text := SleepText(c.Sleep)
		command, whyNot := in.run.patch(c.Sleep)
		if patch = command; whyNot != "" {
			text += "; " + whyNot
		}
		list = append([]string{in.run.ofService(in.Targets, text)}, list...)
	}
	return list, patch
}

// SleepText says how long Pods have to serve on: what was measured, and what is added to that.
func SleepText(sleep *model.Sleep) string {
	return fmt.Sprintf("serve on for %d s after SIGTERM, as with a preStop sleep (%s measured + %s of margin)",
		sleep.Seconds(), quantity.Span(sleep.Measured), quantity.Span(sleep.Margin))
}
