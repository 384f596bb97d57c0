package main

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lapse/report"
	"lapse/timeline"
)

// An exporter writes facts of a run in a format others read.
type exporter struct {
	flag  string
	what  string
	write func(io.Writer, timeline.Run) error
}

var exporters = []exporter{
	{"csv", "a CSV row for every request", report.RequestsCSV},
	{"events", "a CSV row for every event: Pods, endpoints, nodes, the command, the run itself", report.EventsCSV},
	{"hlog", "an HdrHistogram log: latency from due, per target and second, in nanoseconds", report.LatencyLog},
}

const exportHelp = `Export writes the facts of a saved run, as they were recorded and unjudged, for other tools. One of --csv,
--events and --hlog says what. It needs little memory however long the run was.

If the recording is cut off or damaged, or its run goes on, what lies before is exported, and the exit code is 6.`

func newExport() *cobra.Command {
	chosen := make([]bool, len(exporters))
	var out string
	cmd := &cobra.Command{
		Use:     "export RUN",
		Short:   "Write a saved run's requests, events or latencies for other tools",
		Long:    exportHelp,
		Example: "  lapse export runs/20261121-101500-ab3d --csv > requests.csv\n  lapse export runs/20261121-101500-ab3d --hlog --out latency.hlog",
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
		return one, refuse("--csv for the requests, --events for the events, --hlog for latencies", "export what? one of --csv, --events and --hlog is needed (got %d)", n)
	}
	return one, nil
}

// export writes the run at path to the file out, or to stdout if that is empty.
func export(stdout io.Writer, path, out string, e exporter) error {
	saved, err := openRun(path)
	if err != nil {
		return err
	}
	defer saved.file.Close()
	broken := saved.broken
	write := func(w io.Writer) error {
		err := e.write(w, saved.Run)
		if isDamage(err) {
			broken, err = err, nil
		}
		return err
	}
	if out == "" {
		err = write(stdout)
	} else if info, serr := os.Stat(out); serr == nil && !info.Mode().IsRegular() {
		return refuse("name a file", "--out %s is not a file", out)
	} else {
		err = writeFile(out, write)
	}
	if err != nil || broken == nil {
		return err
	}
	return stoppedError{fmt.Errorf("exported only what lies before: %w", broken)}
}
