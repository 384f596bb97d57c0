package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says of an incident when, what, why, and what to do.

// windowsOf returns the windows of an incident.
func (s *scene) windowsOf(in *model.Incident) []*model.Window {
	windows := make([]*model.Window, 0, len(in.Windows))
	for _, id := range in.Windows {
		if w := s.windows[id]; w != nil {
			windows = append(windows, w)
		}
	}
	return windows
}

// A kindLoss is what became of the requests of one kind, of one Service.
type kindLoss struct {
	of                 string
	sent, failed, slow int
	classes            map[string]int
}

func (k *kindLoss) share() float64 { return float64(k.failed) / float64(max(1, k.sent)) }

// lost adds up windows by the kind of their requests, the one that lost most first.
func (s *scene) lost(windows []*model.Window) []*kindLoss {
	var kinds []*kindLoss
	for _, w := range windows {
		of := s.kindOf(w)
		i := slices.IndexFunc(kinds, func(k *kindLoss) bool { return k.of == of })
		if i < 0 {
			i = len(kinds)
			kinds = append(kinds, &kindLoss{of: of, classes: map[string]int{}})
		}
		k := kinds[i]
		k.sent, k.failed, k.slow = k.sent+w.Sent, k.failed+w.Failed, k.slow+w.Slow
		for class, n := range w.Classes {
			k.classes[class] += n
		}
	}
	slices.SortStableFunc(kinds, func(a, b *kindLoss) int {
		return cmp.Or(cmp.Compare(b.failed, a.failed), cmp.Compare(b.slow, a.slow))
	})
	return kinds
}

// kindOf names the requests of a window: "new connections", with their Service where the run has several.
func (s *scene) kindOf(w *model.Window) string {
	t := s.targets[w.Target]
	if t == nil {
		return w.Target
	}
	text := cmp.Or(kindWords[t.Kind], string(t.Kind))
	if t.Route != "" {
		text += " by " + t.Route
	}
	if several(s.tl) {
		text = serviceOf(t) + " " + text
	}
	return text
}

// serviceOf returns the Service, or the URL, that a target sends to: the beginning of its name where it says neither.
func serviceOf(t *model.Target) string {
	name, _, _ := strings.Cut(t.Name, " "+string(t.Kind))
	return cmp.Or(t.Service, name)
}

func (k *kindLoss) text() string {
	var parts []string
	if k.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d failed (%s): %s",
			k.failed, k.sent, quantity.Percent(k.share()), classText(k.classes)))
	}
	if k.slow > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d were answered late", k.slow, k.sent))
	}
	return strings.Join(parts, "; ")
}

// classText says how requests failed, the most frequent first; how many each only if they failed in several ways.
func classText(classes map[string]int) string {
	names := make([]string, 0, len(classes))
	for name := range classes {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int {
		return cmp.Or(cmp.Compare(classes[b], classes[a]), cmp.Compare(a, b))
	})
	parts := make([]string, len(names))
	for i, name := range names {
		parts[i] = cmp.Or(classWords[name], name)
		if len(names) > 1 {
			parts[i] = fmt.Sprintf("%d %s", classes[name], parts[i])
		}
	}
	return strings.Join(parts, ", ")
}

// what says what became of the requests and the held connections of an incident.
func (s *scene) what(in *model.Incident) []model.Lost {
	list := []model.Lost{}
	var requests, cuts []*model.Window
	for _, w := range s.windowsOf(in) {
		if w.Kind == model.CutKind {
			cuts = append(cuts, w)
		} else {
			requests = append(requests, w)
		}
	}
	for _, k := range s.lost(requests) {
		list = append(list, model.Lost{Of: k.of, Text: k.text()})
	}
	for _, w := range cuts {
		text := fmt.Sprintf("%d of %d were cut: %s", w.Failed, w.Sent, classText(w.Classes))
		if c := s.cuts[w.ID]; c != nil && c.Back != nil {
			text += ", back after " + quantity.Length(*c.Back, false)
		}
		list = append(list, model.Lost{Of: s.kindOf(w), Text: text})
	}
	return list
}

// when says when the first and the last request of an incident failed, how long after the command began, and what set
// it off.
func (s *scene) when(in *model.Incident) string {
	from, to, known := failedBetween([]*model.Incident{in})
	if !known {
		from, to = in.Start.Latest, max(in.Start.Latest, in.End.Earliest)
	}
	text := s.clock(from) + " UTC"
	if to > from {
		text = fmt.Sprintf("%s to %s UTC (%s)", s.clock(from), s.clock(to), quantity.Span(to-from))
	}
	if in.Recurs != nil {
		text = fmt.Sprintf("%d times, %s", in.Recurs.Times, text)
	}
	if c := s.tl.Run.Command; c != nil && c.Start != nil && from >= *c.Start {
		text += fmt.Sprintf(", %s after the command began", quantity.Span(from-*c.Start))
	}
	if len(in.Triggers) > 0 {
		text += "; set off by " + setOffBy(in)
	}
	return text
}

// why says the cause of most losses, and how sure it is.
func (s *scene) why(in *model.Incident) string {
	if len(in.Causes) == 0 {
		return "no known cause was looked for"
	}
	c := &in.Causes[0]
	text := fmt.Sprintf("%s, %s confidence: %s", c.Rule, c.Confidence, c.Text)
	if c.Rule == model.Unexplained {
		text = "not explained: " + c.Text
	}
	if others := s.elsewhere(c); others != "" {
		text += "; " + others
	}
	if more := len(in.Causes) - 1; more > 0 {
		rules := make([]string, more)
		for i, c := range in.Causes[1:] {
			rules[i] = c.Rule
		}
		text += "; and " + strings.Join(rules, ", ")
	}
	return s.ofService(in, text)
}

// elsewhere says how long other nodes routed to the Pod that a cause is about.
func (s *scene) elsewhere(c *model.IncidentCause) string {
	if len(c.Measures) == 0 || c.Measures[0].Name != model.RouteLag {
		return ""
	}
	about := c.Measures[0]
	lags := map[string]model.Length{}
	for _, id := range c.Windows {
		w := s.windows[id]
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

// ofService begins a sentence with the Service it is about, where the run has several.
func (s *scene) ofService(in *model.Incident, text string) string {
	if !several(s.tl) {
		return text
	}
	var names []string
	for _, target := range in.Targets {
		t := s.targets[target]
		if t == nil {
			continue
		}
		if name := serviceOf(t); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	if more := len(names) - 3; more > 0 {
		names = append(names[:3:3], fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ") + ": " + text
}

// do says what to change, or what to look at next, and the command that changes it.
func (s *scene) do(in *model.Incident) (list []string, patch string) {
	list = []string{}
	known := map[string]bool{"": true}
	for i := range in.Causes {
		c := &in.Causes[i]
		if known[c.Fix] {
			continue
		}
		known[c.Fix] = true
		if c.Sleep == nil || patch != "" {
			list = append(list, s.ofService(in, c.Fix))
			continue
		}
		text := sleepText(c.Sleep)
		command, whyNot := s.patch(c.Sleep)
		if patch = command; whyNot != "" {
			text += "; " + whyNot
		}
		list = append([]string{s.ofService(in, text)}, list...)
	}
	return list, patch
}

// sleepText says how long Pods have to serve on: what was measured, and what is added to that.
func sleepText(sleep *model.Sleep) string {
	return fmt.Sprintf("serve on for %d s after SIGTERM, as with a preStop sleep (%s measured + %s of margin)",
		sleep.Seconds(), quantity.Span(sleep.Measured), quantity.Span(sleep.Margin))
}

// incidentHeadline says an incident in a line.
func (s *scene) incidentHeadline(in *model.Incident) string {
	text := incidentRequests(in)
	if in.FailedFrom != nil {
		text = s.clock(*in.FailedFrom) + " " + text
	}
	if len(in.Causes) > 0 {
		text += ": " + in.Causes[0].Rule
	}
	return s.ofService(in, text)
}
