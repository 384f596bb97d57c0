package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lapse/report"
	"lapse/run"
	"lapse/timeline"
)

// An exporter writes facts of a run in a format others read.
type exporter struct {
	flag  string
	what  string
	write func(io.Writer, timeline.Run) error
	left  string // what of it timeline.json holds; "" if nothing
}

var exporters = []exporter{
	{"csv", "a CSV row for every request", report.RequestsCSV, "the failed requests"},
	{"events", "a CSV row for every event: Pods, endpoints, nodes, the command, the run itself", report.EventsCSV, "the events, without what bounds each from below"},
	{"hlog", "an HdrHistogram log: latency from due, per target and second, in nanoseconds", report.LatencyLog, ""},
}

const exportHelp = `Export writes the facts of a saved run, as they were recorded and unjudged, for other tools. One of --csv,
--events and --hlog says what. It needs little memory however long the run was.

If the recording is cut off or damaged, or its run goes on, what lies before is exported, and the exit code is 6. So it is where
only timeline.json is left of a run: it holds the events, and of the requests those that failed.`

func newExport() *cobra.Command {
	chosen := make([]bool, len(exporters))
	var out string
	cmd := &cobra.Command{
		Use:     "export RUN",
		Short:   "Write a saved run's requests, events or latencies for other tools",
		Long:    exportHelp,
		Example: "  lapse export runs/lapse-20261121-101500-ab3d --csv > requests.csv\n  lapse export runs/lapse-20261121-101500-ab3d --hlog --out latency.hlog",
		Args:    exactly(1, "the RUN to export: a directory such as runs/…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			e, err := chooseExporter(chosen)
			if err != nil {
				return err
			}
			return export(cmd.OutOrStdout(), args[0], out, e)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	for i, e := range exporters {
		f.BoolVar(&chosen[i], e.flag, false, e.what)
	}
	f.StringVar(&out, "out", "", "`FILE` to write, whole or not at all (default: standard output)")
	return cmd
}

func chooseExporter(chosen []bool) (exporter, error) {
	var one exporter
	n := 0
	for i, yes := range chosen {
		if yes {
			one = exporters[i]
			n++
		}
	}
	if n != 1 {
		return one, run.Usagef("--csv for the requests, --events for the events, --hlog for latencies", "export what? one of --csv, --events and --hlog is needed (got %d)", n)
	}
	return one, nil
}

// export writes the run at path to the file out, or to stdout if that is empty.
func export(stdout io.Writer, path, out string, e exporter) error {
	saved, err := openToExport(path, e)
	if err != nil {
		return err
	}
	defer saved.Close()
	broken := saved.Broken
	write := func(w io.Writer) error {
		err := e.write(w, saved.Run)
		if run.IsDamage(err) {
			broken, err = fmt.Errorf("what lies before: %w", err), nil
		}
		return err
	}
	if out == "" {
		err = write(stdout)
	} else if info, serr := os.Stat(out); serr == nil && !info.Mode().IsRegular() {
		return run.Usagef("name a file", "--out %s is not a file", out)
	} else {
		err = run.WriteFile(out, write)
	}
	if err != nil || broken == nil {
		return err
	}
	return run.Stopped("exported only %w", broken)
}

// openToExport opens the saved run at path. Where only its timeline.json is left, the facts are what e can have of that.
func openToExport(path string, e exporter) (run.Saved, error) {
	file, ok := run.TimelineOnly(path)
	if !ok {
		saved, err := run.Open(path)
		if saved.Broken != nil {
			saved.Broken = fmt.Errorf("what lies before: %w", saved.Broken)
		}
		return saved, err
	}
	tl, err := run.OpenTimeline(file)
	if err != nil {
		return run.Saved{}, err
	}
	if e.left == "" {
		return run.Saved{}, run.Usagef("--csv and --events export what it holds", "--%s needs the run's recording, %s: %s does not hold it", e.flag, run.FactsFile, file)
	}
	return run.Saved{Run: report.Facts(tl), Broken: fmt.Errorf("%s: %s holds no more, and its recording is not here", e.left, file)}, nil
}
