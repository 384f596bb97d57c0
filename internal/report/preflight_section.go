package report

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/internal/report/document"
)

// preflightSection has what was predicted before the run, with what the run says of it.
func preflightSection(v *view) document.Section {
	card := v.Scorecard
	if card == nil {
		return document.Section{}
	}
	s := document.Section{Title: "preflight", Blocks: []document.Block{document.Note{Text: card.Said}}}
	if t := v.predictionTable(card); len(t.Rows) > 0 {
		s.Blocks = append(s.Blocks, t)
	}
	for _, u := range unjudged(card) {
		s.Blocks = append(s.Blocks, document.Note{Label: "not judged", Text: u, Tone: document.Dim})
	}
	return s
}

// outcomeWords are the outcomes for people.
func outcomeWords(o model.PredictionOutcome) string { return strings.ReplaceAll(string(o), "-", " ") }

// predictionTable has a line for each prediction, and for each cause that was missed. Where a rule predicts the same
// of many objects, and the same came of it, they share a line.
func (v *view) predictionTable(c *model.Scorecard) document.Table {
	t := document.Table{Item: "prediction", Headless: true, Columns: []document.Column{
		{Title: "prediction"}, {Title: "outcome"}, {Title: "why", Label: "why"},
	}}
	for i, p := range c.Predictions {
		name := p.Prediction.Rule + " " + p.Prediction.Name + v.ofService(p.Service)
		alike := func(o model.ScoredPrediction) bool {
			return o.Service == p.Service && o.Prediction.Rule == p.Prediction.Rule &&
				o.Outcome == p.Outcome && o.Why == p.Why && o.Prediction.Accepted == p.Prediction.Accepted
		}
		together := count(c.Predictions, alike)
		if together > maxListed && !v.Verbose && slices.ContainsFunc(c.Predictions[:i], alike) {
			continue
		}
		switch {
		case together > maxListed && !v.Verbose:
			name += fmt.Sprintf(" (%d times)", together)
		case p.Prediction.Node != "":
			name += " " + p.Prediction.Node
		case twice(c, p) && len(p.Prediction.Evidence) > 0:
			object, _, _ := strings.Cut(p.Prediction.Evidence[0], ": ")
			name += " " + object
		}
		row := document.Row{Cells: []document.Cell{
			{Text: name}, {Text: outcomeWords(p.Outcome), Tone: outcomeTone(p.Outcome)}, {Text: p.Why},
		}}
		if p.Prediction.Accepted != "" {
			row.Notes = append(row.Notes, document.Note{
				Label: "accepted", Text: p.Prediction.Accepted, Tone: document.Dim,
			})
		}
		if v.Verbose {
			row.Notes = append(row.Notes, document.Note{
				Label: "said", Text: p.Prediction.Severity + ": " + p.Prediction.Text,
			})
			for _, e := range p.Prediction.Evidence {
				row.Notes = append(row.Notes, document.Note{Label: "for", Text: e, Tone: document.Dim})
			}
			row.Notes = append(row.Notes, document.Note{Label: "fix", Text: p.Prediction.Fix})
		}
		t.Rows = append(t.Rows, row)
	}
	for _, m := range c.Misses {
		t.Rows = append(t.Rows, document.Row{Cells: []document.Cell{
			{Text: ruleOf(m.Cause) + v.ofService(m.Service)}, {Text: "missed", Tone: document.Yellow},
			{Text: fmt.Sprintf("incident %d: %s", m.Incident, m.Why)},
		}})
	}
	return t
}

// twice reports whether a rule predicts more than once for a Service.
func twice(c *model.Scorecard, of model.ScoredPrediction) bool {
	return count(c.Predictions, func(p model.ScoredPrediction) bool {
		return p.Service == of.Service && p.Prediction.Rule == of.Prediction.Rule
	}) > 1
}

// ruleOf is the rule of a cause that is named as RULE or RULE/REASON.
func ruleOf(cause string) string {
	rule, _, _ := strings.Cut(cause, "/")
	return rule
}

func outcomeTone(o model.PredictionOutcome) document.Style {
	switch o {
	case model.Confirmed:
		return document.Bold
	case model.NotTested:
		return document.Dim
	}
	return document.Normal
}

// ofService names a Service where there are several.
func (v *view) ofService(name string) string {
	if len(v.Run.Services) < 2 {
		return ""
	}
	return " of svc/" + name
}

// unjudged says which rules could not judge, each reason once.
func unjudged(c *model.Scorecard) (all []string) {
	var order []string
	rules := map[string][]string{}
	for _, u := range c.Unjudged {
		key := u.Why
		if u.Rule == "" {
			key = "svc/" + u.Service + ": " + u.Why
		}
		if rules[key] == nil {
			order, rules[key] = append(order, key), []string{}
		}
		if u.Rule != "" && !slices.Contains(rules[key], u.Rule) {
			rules[key] = append(rules[key], u.Rule)
		}
	}
	for _, why := range order {
		if list := strings.Join(rules[why], ", "); list != "" {
			why = list + ": " + why
		}
		all = append(all, why)
	}
	return all
}

// preflightLines are the section's lines for formats that have no tables.
func preflightLines(tl *model.Timeline) []string {
	if tl.Scorecard == nil {
		return nil
	}
	lines := []string{"preflight: " + tl.Scorecard.Said}
	v := &view{Timeline: tl}
	for _, row := range v.predictionTable(tl.Scorecard).Rows {
		lines = append(lines, fmt.Sprintf("%s: %s: %s", row.Cells[0].Text, row.Cells[1].Text, row.Cells[2].Text))
	}
	return lines
}
