package report

import (
	"lapse/correlate/model"
	"lapse/correlate/verdict"
)

// gatesSection has each gate with what the error bars say about it.
func gatesSection(v *view) section {
	s := section{title: "gates"}
	if len(v.Verdict.Gates) == 0 {
		s.blocks = []block{note{text: "none: this run could not fail", tone: dim}}
		return s
	}
	s.remark = "the run fails if"
	t := table{item: "gate", headless: true, columns: []column{{title: ""}, {title: "the run fails if"}, {title: "measured"}, {title: "outcome"}}}
	for _, g := range v.Verdict.Gates {
		mark, tone, remark := gateMark(v.Timeline, g)
		t.rows = append(t.rows, tableRow{cells: []cell{{text: mark, tone: tone}, {text: g.Expr, verbatim: true}, {text: gateValue(g)}, {text: remark, tone: dim}}})
	}
	s.blocks = []block{t}
	return s
}

// gateValue renders a gate's value in the unit of its metric.
func gateValue(g model.GateResult) string {
	if g.Value == nil {
		return "not measured"
	}
	return verdict.ValueText(g)
}
