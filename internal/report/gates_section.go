package report

import (
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/report/document"
)

// gatesSection has each gate with what the error bars say about it.
func gatesSection(v *view) document.Section {
	s := document.Section{Title: "gates"}
	if len(v.Verdict.Gates) == 0 {
		s.Blocks = []document.Block{document.Note{Text: "none: this run could not fail", Tone: document.Dim}}
		return s
	}
	s.Remark = "the run fails if"
	t := document.Table{Item: "gate", Headless: true, Columns: []document.Column{
		{Title: ""}, {Title: "the run fails if"}, {Title: "measured"}, {Title: "outcome"},
	}}
	for _, g := range v.Verdict.Gates {
		t.Rows = append(t.Rows, document.Row{Cells: []document.Cell{
			gateMarks[g.Proven], {Text: g.Expr, Verbatim: true}, {Text: gateValue(g)},
			{Text: g.Said, Tone: document.Dim},
		}})
	}
	s.Blocks = []document.Block{t}
	return s
}

// gatesTellMore reports whether the gates say more than the run's exit code: there are several, or one that holds is
// not proven.
func gatesTellMore(v *view) bool {
	return len(v.Verdict.Gates) > 1 || slices.ContainsFunc(v.Verdict.Gates, func(g model.GateResult) bool {
		return g.Proven == model.GateUndecided
	})
}

// gateMarks say how gates were decided.
var gateMarks = map[model.GateOutcome]document.Cell{
	model.GatePass:      {Text: "✓", Tone: document.Green},
	model.GateFail:      {Text: "✗", Tone: document.RedBold},
	model.GateUndecided: {Text: "?", Tone: document.Yellow},
}

// gateValue renders a gate's value in the unit of its metric.
func gateValue(g model.GateResult) string {
	if g.Value == nil {
		return "not measured"
	}
	return verdict.ValueText(g)
}
