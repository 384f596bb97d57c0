package cli

import (
	"io"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
)

const exportHelp = `Export writes a saved run in any format, to standard output or into a file.

The facts (csv, events, held, hlog) are written as they were recorded, unjudged, with little memory.
Exit code 6: the recording is cut off, damaged or still in progress, and its readable part was exported;
or only timeline.json is left, which holds all events, but only the failed requests.

The other formats are judged as the run was; the exit code says nothing of the verdict.`

func newExport() *cobra.Command {
	var out string
	var as saved.Output
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a saved run's requests, events, held connections, latencies or trace for other tools",
		Long:  exportHelp,
		Example: `  lapse export runs/lapse-20261121-101500-ab3d -o csv > requests.csv
  lapse export runs/lapse-20261121-101500-ab3d -o hlog --out latency.hlog`,
		Args: exactly(1, "the DIR of the run to export, such as runs/…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as.Format == "" {
				const hint = "-o csv for the requests, -o events for the events, -o held for held connections, " +
					"-o hlog for latencies, -o perfetto for a trace"
				return exit.Usagef(hint, "export what? -o is needed")
			}
			if err := as.Check(); err != nil {
				return err
			}
			if f, _ := report.FormatNamed(report.Formats, as.Format); f.Facts {
				return saved.Export(cmd.OutOrStdout(), args[0], out, f)
			}
			tl, err := saved.Load(args[0], correlate.Options{}, nil)
			if err != nil {
				return err
			}
			return saved.ToFile(cmd.OutOrStdout(), out, func(w io.Writer) error {
				return saved.Print(w, args[0], as, tl)
			})
		},
	}
	outputFlags(&as, cmd.Flags())
	cmd.Flags().Lookup("output").DefValue, as.Format = "", ""
	cmd.Flags().StringVar(&out, "out", "", "`FILE` to write, whole or not at all (default: standard output)")
	return cmd
}
