package cli

import (
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/internal/report"
	"lapse/internal/report/otlp"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/version"
)

const exportHelp = `Export writes a saved run in any format, to standard output or into a file.

The facts (csv, events, held, hlog) are written as they were recorded, unjudged, with little memory.
Exit code 6: the recording is cut off, damaged or still in progress, and its readable part was exported;
or only timeline.json is left, which holds all events, but only the first 10,000 failed requests.

The other formats are judged as the run was; the exit code says nothing of the verdict.`

func newExport() *cobra.Command {
	var out string
	var send bool
	var as saved.Output
	cmd := &cobra.Command{
		Use:   "export DIR",
		Short: "Write a saved run's requests, events, held connections, latencies or trace for other tools",
		Long:  exportHelp,
		Example: `  lapse export runs/lapse-20261121-101500-ab3d -o csv > requests.csv
  lapse export runs/lapse-20261121-101500-ab3d -o hlog --out latency.hlog
  lapse export runs/lapse-20261121-101500-ab3d -o otlp --send`,
		Args: exactly(1, "the DIR of the run to export, such as runs/…"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if as.Format == "" {
				const hint = "-o csv for the requests, -o events for the events, -o held for held connections, " +
					"-o hlog for latencies, -o otlp or -o perfetto for a trace"
				return exit.Usagef(hint, "export what? -o is needed")
			}
			if err := as.Check(); err != nil {
				return err
			}
			if send {
				return sendTrace(cmd, args[0], as.Format, out)
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
	cmd.Flags().BoolVar(&send, "send", false,
		"send the trace of -o otlp to $OTEL_EXPORTER_OTLP_ENDPOINT (see \"lapse help environment\")")
	return cmd
}

// sendTrace sends the trace of a run to the receiver that the environment names.
func sendTrace(cmd *cobra.Command, dir, format, out string) error {
	if format != "otlp" || out != "" {
		return exit.Usagef("-o otlp without --out", "--send sends a trace of OpenTelemetry, and writes no file")
	}
	receiver, err := otlp.ReceiverOf(os.Getenv)
	if err != nil {
		return exit.AsUsage(err)
	}
	tl, err := saved.Load(dir, correlate.Options{}, nil)
	if err != nil {
		return err
	}
	trace, err := otlp.Trace(tl, os.Getenv)
	if err != nil {
		return err
	}
	warning, err := receiver.Send(cmd.Context(), trace, "lapse/"+version.Version)
	if err != nil {
		return err
	}
	if warning != "" {
		fmt.Fprintf(cmd.ErrOrStderr(), "lapse: %s took the trace, and says: %s\n", receiver, warning)
	}
	_, err = fmt.Fprintf(cmd.OutOrStdout(), "sent trace %s to %s\n", otlp.TraceID(trace), receiver)
	return err
}
