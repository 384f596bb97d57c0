package report

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/report/document"
)

// mostLatencies is how many targets have a row with their latency; of more, those with the slowest answers have one.
const mostLatencies = 20

// latencySection has how long answers took, counted from when their requests were due.
func latencySection(v *view) document.Section {
	t := document.Table{
		Item: "target",
		Columns: []document.Column{
			{Title: ""},
			{Title: "p50", Right: true},
			{Title: "p90", Right: true},
			{Title: "p99", Right: true},
			{Title: "p99.9", Right: true},
			{Title: "max", Right: true},
		},
	}
	targets := v.Timeline.Judged()
	if more := len(targets) - mostLatencies; more > 0 {
		slices.SortStableFunc(targets, func(a, b model.Target) int {
			return cmp.Compare(worstLatency(b), worstLatency(a))
		})
		targets = targets[:mostLatencies]
		t.More = "and " + quantity.Count(more, "more target") + " whose 99th percentile is lower: see timeline.json"
	}
	for _, target := range targets {
		cells := make([]document.Cell, len(t.Columns))
		cells[0] = document.Cell{Text: v.name(target.Name), Verbatim: true}
		if l := target.Latency; l == nil {
			cells[1] = document.Cell{Text: "no answer", Tone: document.Yellow}
		} else {
			for i, d := range []time.Duration{l.P50, l.P90, l.P99, l.P999, l.Max} {
				cells[i+1].Text = quantity.Span(d)
			}
		}
		t.Rows = append(t.Rows, document.Row{Cells: cells})
	}
	if len(t.Rows) == 0 {
		return document.Section{}
	}
	return document.Section{
		Title: "latency", Remark: "of answered requests, from when they were due", Blocks: []document.Block{t},
	}
}

// worstLatency is the 99th percentile of a target's latency; of one that answered nothing, longer than any.
func worstLatency(t model.Target) time.Duration {
	if t.Latency == nil {
		return 1<<63 - 1
	}
	return t.Latency.P99
}
