package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"lapse/correlate/trend"
	"lapse/internal/report/document"
	trends "lapse/internal/report/trend"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/terminal"
)

const trendHelp = `Trend says what many runs show together, by Service and release. The first line says whether there
are runs enough: a median takes 6, a comparison of two releases 4 of each. Intervals hold with 95 %
probability.

DIR is a folder of runs, which are judged anew, or of a history.ndjson: what -o ndjson writes. Without DIR
it is runs/. The exit code is 0 whatever is found, and 6 if a run or a line could not be read.`

func newTrend() *cobra.Command {
	var format string
	var verbose bool
	cmd := &cobra.Command{
		Use:   "trend [DIR]",
		Short: "Say what many runs show together, by Service and release",
		Long:  trendHelp,
		Example: `  lapse trend runs
  lapse trend runs -o ndjson >> history/history.ndjson
  lapse trend history`,
		Args: atMostOne,
		RunE: func(cmd *cobra.Command, args []string) error {
			f, ok := trends.Named(format)
			if !ok {
				return exit.Usagef("one of: "+trends.Names(), "unknown output format %q", format)
			}
			h, err := saved.ReadHistory(append(args, "runs")[0])
			if err != nil {
				return err
			}
			for _, err := range append(h.CutOff, h.Unread...) {
				fmt.Fprintf(cmd.ErrOrStderr(), "lapse: left out: %s\n", document.Clean(err.Error()))
			}
			runs := trends.Runs{Lines: h.Lines, Trend: trend.Of(h.Lines)}
			options := trends.Options{Screen: terminal.StyleOf(cmd.OutOrStdout()).Screen, Verbose: verbose}
			if err := f.Write(cmd.OutOrStdout(), runs, options); err != nil {
				return err
			}
			if n := len(h.Unread); n > 0 {
				return exit.Stopped("%d of the runs and lines could not be read", n)
			}
			return nil
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+trends.Names())
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "all groups of runs, and all releases")
	return cmd
}

func atMostOne(cmd *cobra.Command, args []string) error {
	if len(args) <= 1 {
		return nil
	}
	return exactly(1, "the DIR of a folder of runs")(cmd, args)
}
