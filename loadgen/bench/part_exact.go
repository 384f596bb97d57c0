package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

const (
	peerRate        = 2000
	peerConnections = 50
)

// A figure is something measured on every tool.
type figure struct {
	name   string
	digits int
	of     func(*result) float64
	// What Lapse must reach: how it reads, and whether a median does. Nil where there is no target.
	must  string
	holds func(float64) bool
}

// bytesPerRequest returns the size of the recording over the requests that arrived.
func bytesPerRequest(r *result) float64 {
	return float64(r.bytes) / float64(max(1, len(r.server.Arrivals)))
}

func atMost(limit float64) func(float64) bool  { return func(v float64) bool { return v <= limit } }
func atLeast(limit float64) func(float64) bool { return func(v float64) bool { return v >= limit } }

// exactFigures returns the figures of a healthy server.
func exactFigures() []figure {
	return []figure{
		{"schedule error p50, read by the server, ms", 3, errorAt(0.5, peerRate, read), "≤ 0.06", atMost(0.06)},
		{"schedule error p99, read by the server, ms", 3, errorAt(0.99, peerRate, read), "≤ 0.15", atMost(0.15)},
		{"schedule error p50, in the server's kernel, ms", 3, errorAt(0.5, peerRate, kernel), "≤ 0.06", atMost(0.06)},
		{"schedule error p99, in the server's kernel, ms", 3, errorAt(0.99, peerRate, kernel), "≤ 0.15", atMost(0.15)},
		{"milliseconds with no request at all, %", 1,
			func(r *result) float64 { return 100 * evenAt(peerRate, read(&r.server)).Empty }, "≤ 1", atMost(1)},
		{"CPU per request, every fact recorded to disk, µs", 1, (*result).cpuPerRequest, "≤ 45", atMost(45)},
		{"resident memory after 20 s, MB", 1, func(r *result) float64 { return float64(r.memory.after20s) / 1e6 },
			"≤ 40", atMost(40)},
		{"recorded, bytes per request", 2, bytesPerRequest, "", nil},
	}
}

// errorAt returns a percentile of how late requests came at a rate, in milliseconds.
func errorAt(p, rate float64, stamps func(*serverReport) []time.Duration) func(*result) float64 {
	return func(r *result) float64 {
		return percentile(evenAt(rate, stamps(&r.server)).Errors, p).Seconds() * 1000
	}
}

// evenAt judges a whole run's arrivals at a rate.
func evenAt(rate float64, arrivals []time.Duration) evenness {
	return evennessOf(middle(arrivals), time.Duration(float64(time.Second)/rate))
}

func runExact(ctx context.Context, b *bench, page *page, _ *settings) error {
	t := trial{load: load{Rate: peerRate, Connections: peerConnections, For: b.length, CPU: -1}, record: true}
	results, err := b.compare(ctx, t, tools)
	if err != nil {
		return err
	}
	page.Exact = compareTable(tools, exactFigures(), results)
	page.claim(exactFigures(), results)
	page.claimBesideHey(results)
	page.Forgiven = forgiven(results[lapseEngine.name])
	for _, of := range results {
		for _, r := range of {
			page.Stepped = page.Stepped || r.server.Stepped
		}
	}
	return nil
}

// compare makes runs of every tool, in turn.
func (b *bench) compare(ctx context.Context, t trial, tools []tool) (map[string][]result, error) {
	const outcome = "  run %d, %s: %d requests arrived, %d cut, %d reported as failed, %.1f µs of CPU each, " +
		"late %d, not sent %d, load %s\n"
	results := map[string][]result{}
	for i := range b.runs {
		for _, t.tool = range tools {
			r, err := b.run(ctx, t)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(b.talk, outcome, i+1, t.tool.name, len(r.server.Arrivals), r.server.Cuts, r.Failed,
				r.cpuPerRequest(), r.Late, r.NotSent, loadNow())
			results[t.tool.name] = append(results[t.tool.name], r)
		}
	}
	return results, nil
}

// spreadOver is what a figure came to in several runs.
func (f figure) spreadOver(results []result) spread {
	values := make([]float64, len(results))
	for i := range results {
		values[i] = f.of(&results[i])
	}
	return spreadOf(values)
}

// compareTable has a row for each figure and a column for each tool.
func compareTable(tools []tool, figures []figure, results map[string][]result) string {
	head := []string{"figure"}
	for _, t := range tools {
		head = append(head, t.name)
	}
	head = append(head, "Lapse must reach")
	var rows [][]string
	for _, f := range figures {
		row := []string{f.name}
		for _, t := range tools {
			row = append(row, f.spreadOver(results[t.name]).format(f.digits))
		}
		rows = append(rows, append(row, f.must))
	}
	return table(head, rows)
}

// forgiven says by how much the grids that were fitted to the engine's arrivals lie behind the schedule that it kept
// itself.
func forgiven(results []result) string {
	const interval = time.Second / peerRate
	var behind []time.Duration
	for _, r := range results {
		for _, anchor := range evenAt(peerRate, read(&r.server)).Anchors {
			behind = append(behind, (anchor-r.Zero)%interval)
		}
	}
	slices.Sort(behind)
	return fmt.Sprintf("%.3f ms (p50), %.3f ms (p99)", percentile(behind, 0.5).Seconds()*1000,
		percentile(behind, 0.99).Seconds()*1000)
}
