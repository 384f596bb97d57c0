package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
)

// A benchLine is a line of `go test -bench`: a name without its -GOMAXPROCS, and its figures by unit.
type benchLine struct {
	name    string
	figures map[string]float64
}

// parseBench reads the lines of benchmarks from what `go test -bench` prints.
func parseBench(text string) []benchLine {
	var found []benchLine
	for line := range strings.Lines(text) {
		fields := strings.Fields(line)
		if len(fields) < 4 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		b := benchLine{name: strings.TrimPrefix(fields[0], "Benchmark"), figures: map[string]float64{}}
		if dash := strings.LastIndex(b.name, "-"); dash > 0 {
			b.name = b.name[:dash]
		}
		for i := 2; i+1 < len(fields); i += 2 {
			if v, err := strconv.ParseFloat(fields[i], 64); err == nil {
				b.figures[fields[i+1]] = v
			}
		}
		found = append(found, b)
	}
	return found
}

// A benchClaim is a target for a figure of a Go benchmark.
type benchClaim struct {
	bench, unit, figure, must string
	limit, scale              float64
}

var analysisClaims = []benchClaim{
	{"Analyze10M", "ns/op", "analysis of 10 M requests and 10 k events, s", "≤ 2", 2, 1e-9},
	{"Analyze10M", "MiB-heap", "analysis of 10 M requests and 10 k events, heap, MiB", "≤ 500", 500, 1},
	{"TrackerAdd/facts_only", "ns/op", "Tracker, per request, µs", "≤ 1", 1, 1e-3},
	{"TrackerAdd/with_Timeline_at_5_Hz", "ns/op", "Tracker with a look at it five times a second, per request, µs", "≤ 1", 1, 1e-3},
	{"Scale/1000", "MiB", "judging 10 Services with 1000 ready endpoints for ten minutes: memory held, MiB", "≤ 256", 256, 1},
	{"Scale/1000", "CPU-s/h", "judging them once a second, cores", "≤ 1", 1, 1.0 / 3600},
}

// analysisBenchmarks are those that are run, in a process each: the heap is that of the process.
var analysisBenchmarks = []string{"Analyze|TrackerAdd|Write|Read$", "Scale"}

// runAnalysis runs the Go benchmarks that need no load.
func runAnalysis(ctx context.Context, b *bench, page *page, _ *settings) error {
	var out bytes.Buffer
	for _, benchmarks := range analysisBenchmarks {
		cmd := exec.CommandContext(ctx, "go", "test", "-run", "^$", "-bench", benchmarks, "-count", strconv.Itoa(b.runs), "./correlate", "./record")
		cmd.Dir = b.root
		cmd.Stdout, cmd.Stderr = io.MultiWriter(&out, b.talk), b.talk
		if err := cmd.Run(); err != nil {
			return fmt.Errorf("go test -bench %s: %w", benchmarks, err)
		}
	}
	lines := parseBench(out.String())
	page.Analysis = recordingTable(lines)
	for _, c := range analysisClaims {
		page.Claims = append(page.Claims, c.judge(lines))
	}
	page.Claims = append(page.Claims, linearity(lines))
	return nil
}

// values are a figure of all runs of a benchmark.
func values(lines []benchLine, name, unit string, scale float64) (found []float64) {
	for _, l := range lines {
		if v, ok := l.figures[unit]; ok && l.name == name {
			found = append(found, v*scale)
		}
	}
	return found
}

func (c benchClaim) judge(lines []benchLine) claim {
	found := values(lines, c.bench, c.unit, c.scale)
	if len(found) == 0 {
		return claim{Figure: c.figure, Must: c.must, Missing: "there is no benchmark " + c.bench + " with " + c.unit}
	}
	s := spreadOf(found)
	return claim{Figure: c.figure, Must: c.must, Measured: s.format(2), Held: s.Median <= c.limit}
}

// linearity holds ten times as many requests against ten times the time.
func linearity(lines []benchLine) claim {
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
func recordingTable(lines []benchLine) string {
	var rows [][]string
	seen := map[string]bool{}
	for _, l := range lines {
		if seen[l.name] || !strings.HasPrefix(l.name, "Write") && l.name != "Read" {
			continue
		}
		seen[l.name] = true
		for _, unit := range []string{"ns/request", "bytes/request"} {
			if found := values(lines, l.name, unit, 1); len(found) > 0 {
				rows = append(rows, []string{l.name, unit, spreadOf(found).format(1)})
			}
		}
	}
	return table([]string{"benchmark", "unit", "median (min..max)"}, rows)
}
