package report

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// mostLatencies is how many targets have a row with their latency; of more, those with the slowest answers have one.
const mostLatencies = 20

// latencySection has how long answers took, counted from when their requests were due.
func latencySection(v *view) section {
	t := table{item: "target", columns: []column{{title: ""}, {title: "p50", right: true}, {title: "p90", right: true}, {title: "p99", right: true}, {title: "p99.9", right: true}, {title: "max", right: true}}}
	targets := judged(v.Timeline)
	if more := len(targets) - mostLatencies; more > 0 {
		slices.SortStableFunc(targets, func(a, b model.Target) int { return cmp.Compare(worstLatency(b), worstLatency(a)) })
		targets, t.more = targets[:mostLatencies], "and "+quantity.Count(more, "more target")+" whose 99th percentile is lower: see timeline.json"
	}
	for _, target := range targets {
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

// worstLatency is the 99th percentile of a target's latency; of one that answered nothing, longer than any.
func worstLatency(t model.Target) time.Duration {
	if t.Latency == nil {
		return 1<<63 - 1
	}
	return t.Latency.P99
}
