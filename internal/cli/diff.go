package cli

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/correlate/compare"
	"lapse/correlate/verdict"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/internal/run/terminal"
)

func newDiff() *cobra.Command {
	var format, worse string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "diff A B",
		Short: "Compare two runs, before and after a fix",
		Long: `Say what changed from run A to run B: failures, downtime, windows, their causes, and latency. Each is a
directory that "lapse run" wrote, or a timeline.json.

A difference counts as a change only where the error bars of the two do not overlap. What makes the runs
unlike (other targets, rates or timeouts), and what makes one of them prove little (too little observed,
nothing tested, a command that failed), is said first. That a second drain names another node is only noted.

Without --fail-if-worse the exit code is 0 whatever is found. With it, the exit code is 3 if one of these
figures became worse, and 4 if that cannot be said: a figure was not measured in both, or the runs are not
comparable. Gate on failures and downtime, and on cuts where both runs hold connections; latency differs
from one drain to the next by where the Pods are.`,
		Example: `  lapse diff runs/before runs/after
  lapse diff runs/main runs/ci --fail-if-worse failures,downtime`,
		Args: exactly(2, "two runs, A and B: the DIR of each, such as runs/…, or its timeline.json"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := judging.CheckFormat(report.DiffFormats(), format); err != nil {
				return err
			}
			var gates []compare.Group
			if cmd.Flags().Changed("fail-if-worse") {
				var err error
				if gates, err = compare.ParseGroups(worse); err != nil {
					return exit.AsUsage(fmt.Errorf("--fail-if-worse: %w", err))
				}
			}
			c, err := loadComparison(args[0], args[1])
			if err != nil {
				return err
			}
			f, _ := report.FormatNamed(report.Formats, format)
			s := terminal.StyleOf(cmd.OutOrStdout())
			opts := report.Options{Color: s.Color, Unicode: s.Unicode, Width: s.Width, Verbose: verbose}
			if err := f.Diff(cmd.OutOrStdout(), c, opts); err != nil {
				return err
			}
			return gateDiff(cmd.ErrOrStderr(), c.Diff, gates)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+judging.FormatNames(report.DiffFormats()))
	cmd.Flags().StringVar(&worse, "fail-if-worse", "",
		"exit 3 if one of these `FIGURES` is worse in B: "+compare.Keys())
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "list the figures that did not change, too")
	return cmd
}

func loadComparison(a, b string) (*report.Comparison, error) {
	before, err := saved.Load(a, correlate.Options{}, nil)
	if err != nil {
		return nil, err
	}
	after, err := saved.Load(b, correlate.Options{}, nil)
	if err != nil {
		return nil, err
	}
	return report.Compare(before, after, a, b), nil
}

// gateDiff says on w why a comparison does not pass, and returns the exit code for it.
func gateDiff(w io.Writer, d compare.Diff, groups []compare.Group) error {
	worse, unknown := d.Worse(groups)
	switch {
	case len(worse) > 0:
		fmt.Fprintf(w, "lapse: worse in B: %s\n", strings.Join(worse, ", "))
		return exit.With(verdict.ExitGateFailed, nil)
	case len(groups) > 0 && len(unknown) > 0:
		fmt.Fprintf(w, "lapse: inconclusive: %s\n", strings.Join(unknown, "; "))
		return exit.With(verdict.ExitInconclusive, nil)
	}
	return nil
}
