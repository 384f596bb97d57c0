package report

import (
	"time"

	"lapse/correlate/quantity"
)

// latencySection has how long answers took, counted from when their requests were due.
func latencySection(v *view) section {
	t := table{item: "target", columns: []column{{title: ""}, {title: "p50", right: true}, {title: "p90", right: true}, {title: "p99", right: true}, {title: "p99.9", right: true}, {title: "max", right: true}}}
	for _, target := range judged(v.Timeline) {
		cells := make([]cell, len(t.columns))
		cells[0] = cell{text: v.name(target.Name), verbatim: true}
		if l := target.Latency; l == nil {
			cells[1] = cell{text: "no answer", tone: yellow}
		} else {
			for i, d := range []time.Duration{l.P50, l.P90, l.P99, l.P999, l.Max} {
				cells[i+1].text = quantity.Span(d)
			}
		}
		t.rows = append(t.rows, tableRow{cells: cells})
	}
	if len(t.rows) == 0 {
		return section{}
	}
	return section{title: "latency", remark: "of answered requests, from when they were due", blocks: []block{t}}
}
