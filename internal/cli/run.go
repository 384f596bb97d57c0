package cli

import (
	"os"
	"strings"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
	"lapse/internal/run/prober"
	"lapse/internal/run/spec"
)

func newRun() *cobra.Command {
	var o spec.Options
	cmd := &cobra.Command{
		Use:   "run [TARGET...] [flags] [-- COMMAND...]",
		Short: "Measure while COMMAND runs, for --duration, or --armed, then judge",
		Long: `Measure one or more targets while a command runs (or for --duration, or --armed), then judge.

A svc/ target is measured from a Job in the cluster, which is removed afterwards. A URL is measured
from here, and needs no cluster. Instead of targets, --on-node, -A and --selector choose Services.

svc/NAME?route=ROUTE,... sends requests over other routes than the default one: ` +
			strings.Join(spec.RouteNames(), ", ") + `.`,
		Example: `  lapse run svc/web -n shop --fail-if 'failed>0' -- kubectl drain node1 --ignore-daemonsets
  lapse run --on-node node1 -- kubectl drain node1 --ignore-daemonsets
  lapse run svc/web -n shop --armed --fail-if 'failed>0'
  lapse run http://127.0.0.1:8080/ --duration 30s`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var command []string
			if dash := cmd.ArgsLenAtDash(); dash >= 0 {
				args, command = args[:dash], args[dash:]
				if len(command) == 0 {
					return exit.Usagef("as in `-- kubectl drain node1`", "no command after --")
				}
			}
			if err := check(&o, cmd, args, command); err != nil {
				return err
			}
			return measure(cmd, &o)
		},
	}
	runFlags(&o, cmd)
	return cmd
}

// newProbe returns the verb that prober Pods run. Users do not call it.
func newProbe() *cobra.Command {
	return &cobra.Command{
		Use:    "probe",
		Short:  "Internal: run by the prober Pods of --from",
		Hidden: true,
		Args:   exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			signals, stop := takeSignals()
			defer stop()
			return prober.Run(cmd.Context(), spec.EnvOf(os.Environ()), signals.C, cmd.ErrOrStderr())
		},
	}
}
