package main

import (
	"context"

	"golang.org/x/perf/benchfmt"
)

// pageFigures are those of the page on a run of an hour.
var pageFigures = []benchFigure{
	{"load-ms", "page on an hour's run: until all of it is drawn, s", "≤ 1.5", 2, 1e-3, atMost(1.5)},
	{"pan-fps", "page on an hour's run: frames per second while panning", "≥ 30", 2, 0, atLeast(30)},
	{"zoom-fps", "page on an hour's run: frames per second while zooming", "≥ 30", 2, 0, atLeast(30)},
	{
		"renderer-MB", "page on an hour's run: resident memory of the browser's process for it, MB",
		"≤ 200", 2, 0, atMost(200),
	},
}

// viewerFigures are what a run tells with and without viewers.
var viewerFigures = []string{"p50-late-µs", "p99-late-µs", "kB/s/viewer"}

// runPage runs the page's benchmarks, in a real browser and with 50 viewers, in turn.
func runPage(ctx context.Context, b *bench, page *page, _ *settings) error {
	var lines []*benchfmt.Result
	for range b.runs {
		for _, benchmark := range []string{"PageOnALargeRun", "RunWithViewers"} {
			more, err := b.goBench(ctx, benchmark, "-benchtime", "1x", "./dashboard")
			if err != nil {
				return err
			}
			lines = append(lines, more...)
		}
	}
	for _, f := range pageFigures {
		page.Claims = append(page.Claims, f.judge("PageOnALargeRun", lines))
	}
	page.Viewers = viewersTable(lines)
	return nil
}

// viewersTable has a column for each of the runs that are compared.
func viewersTable(lines []*benchfmt.Result) string {
	columns := []string{"rate=2000/viewers=0", "rate=2000/viewers=50", "rate=200/viewers=50"}
	var rows [][]string
	for _, unit := range viewerFigures {
		row := []string{unit}
		for _, column := range columns {
			row = append(row, cell(lines, "RunWithViewers/"+column, unit, 1))
		}
		rows = append(rows, row)
	}
	return table([]string{"figure: median (min..max)", "2000 rps, nobody looks", "2000 rps, 50 viewers",
		"200 rps, 50 viewers"}, rows)
}
