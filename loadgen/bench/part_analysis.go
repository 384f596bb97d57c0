package main

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

var analysisFigures = []struct {
	bench string
	benchFigure
}{
	{"Analyze10M", benchFigure{"ns/op", "analysis of 10 M requests and 10 k events, s", "≤ 2", 2, 1e-9, atMost(2)}},
	{"Analyze10M", benchFigure{
		"MiB-heap", "analysis of 10 M requests and 10 k events, heap, MiB", "≤ 500", 2, 0, atMost(500),
	}},
	{"TrackerAdd/facts_only", benchFigure{"ns/op", "Tracker, per request, µs", "≤ 1", 2, 1e-3, atMost(1)}},
	{"TrackerAdd/with_Timeline_at_5_Hz", benchFigure{
		"ns/op", "Tracker with a look at it five times a second, per request, µs", "≤ 1", 2, 1e-3, atMost(1),
	}},
	{"Scale/1000", benchFigure{
		"MiB", "judging 10 Services with 1000 ready endpoints for ten minutes: memory held, MiB",
		"≤ 256", 2, 0, atMost(256),
	}},
	{"Scale/1000", benchFigure{"CPU-s/h", "judging them once a second, cores", "≤ 1", 2, 1.0 / 3600, atMost(1)}},
}

// analysisBenchmarks are the benchmarks to run, each in a process of its own, because the heap is the process's.
var analysisBenchmarks = []string{"Analyze|TrackerAdd|Write|Read$", "Scale"}

// runAnalysis runs the Go benchmarks that need no load.
func runAnalysis(ctx context.Context, b *bench, page *page, _ *settings) error {
	var lines []*benchfmt.Result
	for _, benchmarks := range analysisBenchmarks {
		more, err := b.goBench(ctx, benchmarks, "-count", strconv.Itoa(b.runs), "./correlate", "./internal/record")
		if err != nil {
			return err
		}
		lines = append(lines, more...)
	}
	page.Analysis = recordingTable(lines)
	for _, f := range analysisFigures {
		page.Claims = append(page.Claims, f.judge(f.bench, lines))
	}
	page.Claims = append(page.Claims, linearity(lines))
	return nil
}

// linearity holds ten times as many requests against ten times the time.
func linearity(lines []*benchfmt.Result) claim {
	c := claim{Figure: "analysis, time per request at 10 M over that at 1 M", Must: "≤ 1.25 (linear)"}
	small, large := values(lines, "Analyze1M", "ns/request", 1), values(lines, "Analyze10M", "ns/request", 1)
	if len(small) == 0 || len(large) == 0 {
		c.Missing = "no benchmark of both sizes"
		return c
	}
	ratio := spreadOf(large).Median / spreadOf(small).Median
	c.Measured, c.Held = decimal(ratio, 2), ratio <= 1.25
	return c
}

// recordingTable returns a row for each figure of writing and reading a recording.
func recordingTable(lines []*benchfmt.Result) string {
	var rows [][]string
	seen := map[string]bool{}
	for _, l := range lines {
		name := nameOf(l)
		if seen[name] || !strings.HasPrefix(name, "Write") && name != "Read" {
			continue
		}
		seen[name] = true
		for _, unit := range []string{"ns/request", "bytes/request"} {
			rows = append(rows, []string{name, unit, cell(lines, name, unit, 1)})
		}
	}
	return table([]string{"benchmark", "unit", "median (min..max)"}, rows)
}
