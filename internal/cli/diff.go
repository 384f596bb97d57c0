package cli

import (
	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/internal/report"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/internal/run/terminal"
)

func newDiff() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs, before and after a fix",
		Long: `Say what changed from run A to run B: failures, downtime, windows, their causes, and latency. Each is a
directory that "lapse run" wrote, or a timeline.json.

A difference counts as a change only where the error bars of the two do not overlap. What makes the runs
unlike (other targets, rates or timeouts, too little observed) is said first.

The exit code is 0 whatever is found: one run of each is no gate. A pipeline that wants one asks the
JSON:
  lapse diff A B -o json | jq -e 'all(.changes[]; .direction != "more")'`,
		Example: "  lapse diff runs/before runs/after",
		Args:    exactly(2, "two runs, A and B: the DIR of each, such as runs/…, or its timeline.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := judging.CheckFormat(report.DiffFormats(), format); err != nil {
				return err
			}
			f, _ := report.FormatNamed(report.Formats, format)
			a, err := saved.Load(args[0], correlate.Options{}, nil)
			if err != nil {
				return err
			}
			b, err := saved.Load(args[1], correlate.Options{}, nil)
			if err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			s := terminal.StyleOf(out)
			as := report.Options{Color: s.Color, Unicode: s.Unicode, Width: s.Width}
			return f.Diff(out, report.Compare(a, b, args[0], args[1]), as)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+judging.FormatNames(report.DiffFormats()))
	return cmd
}
