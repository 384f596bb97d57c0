package report

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	format := func(x float64) string { return rateNumber(x) }
	switch gateUnit(g.Expr) {
	case "duration":
		return FormatLength(model.Length{Min: time.Duration(g.Value.Min), Max: time.Duration(g.Value.Max)}, g.Value.Open)
	case "ratio":
		format = FormatShare
	}
	if g.Value.Min == g.Value.Max {
		return format(g.Value.Min)
	}
	return format(g.Value.Min) + " to " + format(g.Value.Max)
}

func gateUnit(expr string) string {
	gate, err := verdict.ParseGate(expr)
	if err != nil {
		return "" // judged by another version of Lapse: its bare figures still tell something
	}
	i := slices.IndexFunc(verdict.GateMetrics, func(m verdict.GateMetric) bool { return m.Name == gate.Metric })
	return verdict.GateMetrics[i].Unit
}

// rateNumber renders a number of requests per second with at most one decimal, and small ones with two digits: 0.01 is not 0.
func rateNumber(x float64) string {
	if x < 1 {
		return strconv.FormatFloat(x, 'g', 2, 64)
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", x), ".0")
}
