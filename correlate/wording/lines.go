package wording

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file says of an incident line by line what each target lost, what was not observed, why, and what to do.

// A loss is what one of an incident's targets lost.
type loss struct {
	length             model.Length
	open               bool
	sent, failed, slow int
	cut, held          int // connections
}

// maxLost is of how many targets an incident says what they lost.
const maxLost = 20

// losses says what the targets lost that lost most, if there are several.
func (in *incident) losses() []model.Line {
	if len(in.Targets) < 2 {
		return nil
	}
	of, most := map[string]*loss{}, in.Targets[:min(len(in.Targets), maxLost)]
	for _, target := range most {
		of[target] = &loss{}
	}
	for _, w := range in.windows {
		if l := of[w.Target]; l != nil {
			l.add(w)
		}
	}
	lines := make([]model.Line, len(most))
	for i, target := range most {
		lines[i] = model.Line{Kind: model.LineLost, Target: target, Text: of[target].text()}
	}
	return lines
}

func (l *loss) add(w *model.Window) {
	if w.Kind == model.CutKind {
		l.cut, l.held = l.cut+w.Failed, w.Sent
		return
	}
	l.length.Min, l.length.Max = l.length.Min+w.Downtime.Min, l.length.Max+w.Downtime.Max
	l.open = l.open || w.IsOpen()
	l.sent, l.failed, l.slow = l.sent+w.Sent, l.failed+w.Failed, l.slow+w.Slow
}

func (l *loss) text() string {
	switch {
	case l.cut > 0 && l.cut <= l.held:
		return fmt.Sprintf("%d/%d connections", l.cut, l.held)
	case l.cut > 0:
		return quantity.Count(l.cut, "connection")
	case l.failed == 0:
		return fmt.Sprintf("nothing (%d/%d slow)", l.slow, l.sent)
	}
	return fmt.Sprintf("%s (%d/%d failed)", quantity.Length(l.length, l.open), l.failed, l.sent)
}

// notes says what of an incident was not observed or is not final, and, where no rule explains it, what its failures
// said. Each is said once.
func (in *incident) notes() []model.Line {
	var lines []model.Line
	known := map[string]bool{"": true}
	add := func(kind model.LineKind, text string) {
		if !known[text] {
			known[text] = true
			lines = append(lines, model.Line{Kind: kind, Text: text})
		}
	}
	for _, w := range in.windows {
		for _, e := range w.Errors {
			if !in.explains(e.Text) {
				add(model.LineError, "failed requests said: "+e.Text)
			}
		}
	}
	for _, e := range append(in.edges(in.run.startEdge), in.edges(in.run.endEdge)...) {
		add(model.LineEdge, e.String())
	}
	add(model.LineNoEvidence, setAside(in.NoEvidence))
	if in.Live {
		add(model.LineLive, NotFinal)
	}
	return lines
}

// explains reports whether the incident's first cause explains failures that said this, or says it too.
func (in *incident) explains(text string) bool {
	return len(in.Causes) > 0 && (in.Causes[0].Rule != model.Unexplained || strings.Contains(in.Causes[0].Text, text))
}

// edges returns what is said of one end of the incident's windows, of several alike the one with the longest gap.
func (in *incident) edges(of func(*model.Window) edge) (edges []edge) {
	for _, w := range in.windows {
		e := of(w)
		i := slices.IndexFunc(edges, func(o edge) bool { return o.text == e.text && o.reason == e.reason })
		switch {
		case e.text == "":
		case i < 0:
			edges = append(edges, e)
		case e.gap > edges[i].gap:
			edges[i] = e
		}
	}
	return edges
}

// NotFinal is said of what later requests may change.
const NotFinal = "not final: later requests may change it"

// setAside says how many requests failed amid an incident that are no evidence; "" if none did.
func setAside(n int) string {
	switch n {
	case 0:
		return ""
	case 1:
		return "1 request more was set aside: the prober stood still while it waited, or had no socket for it"
	}
	return fmt.Sprintf(
		"%d requests more were set aside: the prober stood still while they waited, or had no socket for them", n)
}

// causes says why, the cause of most losses first.
func (in *incident) causes() []model.Line {
	lines := make([]model.Line, len(in.Causes))
	for i := range in.Causes {
		c := &in.Causes[i]
		lines[i] = model.Line{Kind: model.LineCause, Rule: c.Rule, Text: in.cause(c)}
	}
	return lines
}

// cause says one, how sure it is, and of how many windows: its text is about the one where it was measured best.
func (in *incident) cause(c *model.IncidentCause) string {
	text := fmt.Sprintf("%s (%s confidence): %s", c.Rule, c.Confidence, c.Text)
	switch {
	case len(c.Windows) < 2, c.Rule == model.Unexplained && in.Recurs != nil:
		return text
	case c.Rule == model.Unexplained:
		return fmt.Sprintf("%s; %d windows are unexplained", text, len(c.Windows))
	}
	text += fmt.Sprintf("; the best measured of %d windows with this cause", len(c.Windows))
	of, others := map[int]bool{}, map[model.Confidence]int{}
	for _, id := range c.Windows {
		of[id] = true
	}
	for _, w := range in.windows {
		if of[w.ID] && len(w.Causes) > 0 && w.Causes[0].Confidence != c.Confidence {
			others[w.Causes[0].Confidence]++
		}
	}
	for _, other := range slices.Sorted(maps.Keys(others)) {
		text += fmt.Sprintf(", %d of them with %s confidence", others[other], other)
	}
	return text
}

// fixes says what to change, or, where no rule explains the failures, what to look at next, each once.
func (in *incident) fixes() []model.Line {
	var lines []model.Line
	known := map[string]bool{"": true}
	for _, c := range in.Causes {
		if known[c.Fix] {
			continue
		}
		known[c.Fix] = true
		kind := model.LineFix
		if c.Rule == model.Unexplained {
			kind = model.LineNext
		}
		lines = append(lines, model.Line{Kind: kind, Rule: c.Rule, Text: c.Fix})
	}
	return lines
}
