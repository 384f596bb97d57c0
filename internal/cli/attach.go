package cli

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/internal/run/access"
	"lapse/internal/run/terminal"
	"lapse/internal/run/workstation"
)

func newAttach() *cobra.Command {
	var kube access.Kube
	var addr string
	cmd := &cobra.Command{
		Use:   "attach RUN",
		Short: "Watch a run in progress in the cluster",
		Long: `Show the live page and the progress of a run in progress, from any workstation, until the run has ended
or you interrupt it. Several may watch at once.

Watching changes nothing: the run is neither ended nor deleted, and its result stays where it is for
"lapse retrieve". The summary is printed when the run has ended, but the exit code is not the verdict's.`,
		Example: "  lapse attach lapse-20261121-101500-ab3d -n shop --dashboard 127.0.0.1:8080",
		Args:    exactly(1, "the RUN to watch, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			job, err := kube.FindRun(ctx, args[0], terminal.NewLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if deploy.HasEnded(job.Job) {
				return workstation.NothingToWatch(job)
			}
			agent, _, err := job.WaitMeasuring(ctx)
			if err != nil {
				return workstation.Quiet(ctx, err)
			}
			defer agent.Close()
			return workstation.Attach(ctx, agent, job, addr, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kubeFlags(&kube, cmd.Flags())
	cmd.Flags().StringVar(&addr, "dashboard", "127.0.0.1:8080", "address to serve the page on")
	return cmd
}
