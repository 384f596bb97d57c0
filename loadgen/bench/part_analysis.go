package main

import (
	"context"
	"strconv"
	"strings"

	"golang.org/x/perf/benchfmt"
)

// A benchClaim is a target for a figure of a Go benchmark.
type benchClaim struct {
	bench, unit, figure, must string
	limit, scale              float64
}

var analysisClaims = []benchClaim{
	{
		"Analyze10M", "ns/op",
		"analysis of 10 M requests and 10 k events, s",
		"≤ 2", 2, 1e-9,
	},
	{
		"Analyze10M", "MiB-heap",
		"analysis of 10 M requests and 10 k events, heap, MiB",
		"≤ 500", 500, 1,
	},
	{
		"TrackerAdd/facts_only", "ns/op",
		"Tracker, per request, µs",
		"≤ 1", 1, 1e-3,
	},
	{
		"TrackerAdd/with_Timeline_at_5_Hz", "ns/op",
		"Tracker with a look at it five times a second, per request, µs",
		"≤ 1", 1, 1e-3,
	},
	{
		"Scale/1000", "MiB",
		"judging 10 Services with 1000 ready endpoints for ten minutes: memory held, MiB",
		"≤ 256", 256, 1,
	},
	{
		"Scale/1000", "CPU-s/h",
		"judging them once a second, cores",
		"≤ 1", 1, 1.0 / 3600,
	},
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
	for _, c := range analysisClaims {
		page.Claims = append(page.Claims, c.judge(lines))
	}
	page.Claims = append(page.Claims, linearity(lines))
	return nil
}

func (c benchClaim) judge(lines []*benchfmt.Result) claim {
	found := values(lines, c.bench, c.unit, c.scale)
	if len(found) == 0 {
		return claim{Figure: c.figure, Must: c.must, Missing: "there is no benchmark " + c.bench + " with " + c.unit}
	}
	s := spreadOf(found)
	return claim{Figure: c.figure, Must: c.must, Measured: s.format(2), Held: s.Median <= c.limit}
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
			if found := values(lines, name, unit, 1); len(found) > 0 {
				rows = append(rows, []string{name, unit, spreadOf(found).format(1)})
			}
		}
	}
	return table([]string{"benchmark", "unit", "median (min..max)"}, rows)
}
