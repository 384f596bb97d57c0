package cli

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/internal/guard"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/screen"
	"lapse/internal/run/terminal"
	"lapse/internal/run/workstation"
)

func newAttach() *cobra.Command {
	var kube access.Kube
	var addr string
	cmd := &cobra.Command{
		Use:   "attach RUN|guard",
		Short: "Watch a run in progress in the cluster, or the page of a guard",
		Long: `Show the live page and the progress of a run in progress, from any workstation, until the run has ended
or you interrupt it. Several may watch at once.

Watching changes nothing: the run is neither ended nor deleted, and its result stays where it is for
"lapse retrieve". The summary is printed when the run has ended, but the exit code is not the verdict's.

"lapse attach guard" shows the guard in the namespace of -n (default "lapse"): its Services and its runs.`,
		Example: `  lapse attach lapse-20261121-101500-ab3d -n shop --dashboard 127.0.0.1:8080
  lapse attach guard`,
		Args: exactly(1, "the RUN to watch, as `lapse status -n NAMESPACE` lists it, or \"guard\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if args[0] == guardArg {
				return attachGuard(ctx, cmd, kube, addr)
			}
			job, err := kube.FindRun(ctx, args[0], terminal.NewLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if deploy.HasEnded(job.Job) {
				return workstation.NothingToWatch(job)
			}
			say := func(line string) { fmt.Fprintln(cmd.ErrOrStderr(), line) }
			notify, over := workstation.SayWaiting(say, "waiting for the run to answer")
			job.Notify = notify
			agent, _, err := job.WaitMeasuring(ctx)
			over()
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

// guardArg stands for a guard instead of a run.
const guardArg = "guard"

// attachGuard serves the page of a guard in the cluster.
func attachGuard(ctx context.Context, cmd *cobra.Command, kube access.Kube, addr string) error {
	client, err := statusClient(ctx, kube)
	if err != nil {
		return err
	}
	if _, err := guard.Ask(ctx, client, guard.DefaultPrivate); err != nil {
		return exit.StoppedOr(ctx, exit.AsUsage(err))
	}
	address, err := screen.Listen(addr)
	if err != nil {
		return err
	}
	defer address.Close()
	return address.ServeHandler(ctx, cmd.ErrOrStderr(), guardPages(client.Transport))
}

// guardPages passes requests on to a guard. One of its own pages may open a stream there, as at the guard itself; a
// page of another origin may not.
func guardPages(guards http.RoundTripper) http.Handler {
	there := &url.URL{Scheme: "http", Host: guard.DefaultPrivate}
	return &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(there)
			if from, err := url.Parse(r.In.Header.Get("Origin")); err == nil && from.Host == r.In.Host {
				r.Out.Header.Set("Origin", there.String())
			}
		},
		Transport: guards,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "the guard does not answer: "+err.Error(), http.StatusBadGateway)
		},
	}
}
