package main

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/report"
)

func newDiff() *cobra.Command {
	var format string
	formats := strings.Join(slices.Sorted(maps.Keys(report.DiffFormats)), ", ")
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs, before and after a fix",
		Long: `Say what changed from run A to run B: failures, downtime, windows, their causes, and latency. Each is a directory that
"lapse run" wrote, or a timeline.json.

A difference counts as a change only where the error bars of the two do not overlap. What makes the runs unlike (other targets,
rates or timeouts, too little observed) is said first.

The exit code is 0 whatever is found: one run of each is no gate. A pipeline that wants one asks the JSON:
  lapse diff A B -o json | jq -e 'all(.changes[]; .direction != "more")'`,
		Example: "  lapse diff runs/before runs/after",
		Args:    exactly(2, "two runs, A and B: directories such as runs/…, or files timeline.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			render, ok := report.DiffFormats[format]
			if !ok {
				return refuse("one of: "+formats, "unknown output format %q", format)
			}
			a, err := judged(args[0])
			if err != nil {
				return err
			}
			b, err := judged(args[1])
			if err != nil {
				return err
			}
			s := styleOf(cmd.OutOrStdout())
			return render(cmd.OutOrStdout(), report.Compare(a, b, args[0], args[1]), report.Options{Color: s.color, Unicode: s.unicode, Width: s.width})
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+formats)
	return cmd
}

// judged is the run at path: a timeline.json as it was judged then, everything else judged now. A
// directory that has lost its recording, or never had one, still has its timeline.json.
func judged(path string) (*correlate.Timeline, error) {
	file := path
	if info, err := os.Stat(path); err == nil && info.IsDir() {
		if _, err := os.Stat(filepath.Join(path, factsFile)); err == nil {
			return load(path, correlate.Options{}, nil)
		}
		file = filepath.Join(path, timelineFile)
	}
	if filepath.Ext(file) != ".json" {
		return load(path, correlate.Options{}, nil)
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, refuse("a run is the directory `lapse run` wrote, or its timeline.json", "%s is not a run: %w", path, err)
	}
	defer f.Close()
	tl, err := report.ReadJSON(f)
	if err != nil {
		return nil, refuse("a run is the directory `lapse run` wrote, or its timeline.json", "%s: %w", path, err)
	}
	return tl, nil
}
