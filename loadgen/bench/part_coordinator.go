package main

import (
	"cmp"
	"context"
	"time"

	"golang.org/x/perf/benchfmt"
)

// coordinatorFigures are those of BenchmarkCoordinator.
var coordinatorFigures = []benchFigure{
	{"cores", "cores, nobody looks", "≤ 1", 2, 0, atMost(1)},
	{"MiB-peak", "resident memory, peak with the result, MiB", "≤ 512", 0, 0, atMost(512)},
	{"s-behind-max", "how far the judgement is behind the probers, at most, s", "", 2, 0, nil},
	{"s-recorded-max", "how far the workstation's copy is behind the probers, at most, s", "", 2, 0, nil},
	{"requests", "requests that the probers made", "", 0, 0, nil},
	{"lost", "of these missing in the result or the copy, or counted twice", "0", 0, 0, atMost(0)},
	{"targets", "targets", "≥ 20 000", 0, 0, atLeast(20_000)},
	{"events/h", "events of the cluster per hour", "≥ 10 000", 0, 0, atLeast(10_000)},
	{"s-verdict", "page: until the verdict is shown, s", "≤ 1.5", 2, 0, atMost(1.5)},
	{"scroll-fps", "page: frames per second while scrolling", "≥ 30", 1, 0, atLeast(30)},
	{"pan-fps", "page: frames per second while panning", "≥ 30", 1, 0, atLeast(30)},
	{"zoom-fps", "page: frames per second while zooming", "≥ 30", 1, 0, atLeast(30)},
	{
		"served-s-verdict", "page of the recorded run, nothing else running: until the verdict is shown, s",
		"≤ 1.5", 2, 0, atMost(1.5),
	},
	{"served-scroll-fps", "the same: frames per second while scrolling", "≥ 30", 1, 0, atLeast(30)},
	{"served-pan-fps", "the same: frames per second while panning", "≥ 30", 1, 0, atLeast(30)},
	{"served-zoom-fps", "the same: frames per second while zooming", "≥ 30", 1, 0, atLeast(30)},
}

// coordinatorSlack is how long the benchmark may take beside the time that is measured: building, starting, the page,
// and the result.
const coordinatorSlack = 15 * time.Minute

// runCoordinator runs the coordinator of a run of many nodes and Services once.
func runCoordinator(ctx context.Context, b *bench, page *page, s *settings) error {
	length := s.coordinator.String()
	timeout := (s.coordinator + coordinatorSlack).String()
	lines, err := b.goBench(ctx, "Coordinator", "./internal/run/wide",
		"-benchtime", "1x", "-timeout", timeout, "-wide.for", length)
	if err != nil {
		return err
	}
	page.CoordinatorFor = s.coordinator
	page.tellCoordinator(lines)
	return nil
}

// tellCoordinator makes the part of the page, and its claims.
func (p *page) tellCoordinator(lines []*benchfmt.Result) {
	var rows [][]string
	for _, f := range coordinatorFigures {
		c := f.judge("Coordinator", lines)
		rows = append(rows, []string{f.figure, cmp.Or(c.Measured, "–"), f.must})
		if f.holds != nil {
			c.Figure, c.Tabled = "100 nodes, 100 Services, 1000 endpoints: "+f.figure, true
			p.Claims = append(p.Claims, c)
		}
	}
	p.Coordinator = table([]string{"figure", "measured", "must"}, rows)
}
