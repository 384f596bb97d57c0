package cli

import (
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/internal/run/exit"
	"lapse/internal/run/prober"
	"lapse/internal/run/spec"
)

// Defaults of `lapse routes`: requests per second from each node, and how long to measure before and after the
// changes.
const (
	routesRate     = 500
	routesBaseline = 3 * time.Second
	routesSettle   = 5 * time.Second
)

func newRoutes() *cobra.Command {
	var o spec.Options
	runFlags(&o, &cobra.Command{}) // every default
	cmd := &cobra.Command{
		Use:   "routes",
		Short: "Measure how long each node's routes take to follow a change, on a Service of its own",
		Long: `Measure how long each node keeps routing to a deleted Pod, and how long a new Pod waits for its first
request.

The command creates its own Service with Pods that keep answering while they terminate, so no request
fails and no other Pod is touched. It deletes these Pods, sends requests from every node, prints tables
by node, and deletes what it created.

Every second change deletes several Pods (--burst), as a drain does: a proxy that has just written its
rules waits before it writes them again.

It also queries each of the cluster's DNS servers for a headless Service with the same Pods, 25 times
per second, and prints how long the answers take to change.`,
		Example: `  lapse routes -n default
  lapse routes --changes 20 --burst 5 --from node1,node2 -o json
  lapse routes --fail-if 'route.lag.max>2s'`,
		Args: exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Changes < 1 {
				return exit.Usagef("as in --changes 10", "changes %d: at least 1", o.Changes)
			}
			if o.AtOnce < 1 {
				return exit.Usagef("as in --burst 3; 1 deletes one Pod at a time", "burst %d: at least 1", o.AtOnce)
			}
			o.Env, o.Given = spec.EnvOf(os.Environ()), given(cmd.Flags())
			for _, set := range []string{"direct-rate", "baseline", "settle", "target"} {
				o.Given[set] = false // as if it was given, with its default
			}
			o.Kinds, o.DirectRate, o.Baseline, o.Settle = []string{"new"}, 0, routesBaseline, routesSettle
			o.Rate = 0           // it is NodeRate that is given
			o.ByClusterIP = true // what is measured is the route, and a name that is not found costs a request
			o.NoPreflight, o.ExternalCommand, o.ID = true, true, spec.NewID()
			if err := o.Check([]string{"svc/" + deploy.CanaryName(o.ID)}, nil); err != nil {
				return err
			}
			if err := chooseImage(&o); err != nil {
				return err
			}
			return measure(cmd, &o)
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	kubeFlags(&o.Kube, f)
	f.IntVar(&o.Changes, "changes", 10, "how many times to delete Pods")
	f.IntVar(&o.AtOnce, "burst", 3, "how many Pods every second change deletes; the others delete one")
	f.StringVar(&o.From, "from", "all", "measure from `NODES`: all, how many, their names, or a label selector")
	f.DurationVar(&o.ProberWait, "wait", time.Minute,
		"how long to wait until its Pods are created and have nodes, and for the probers; the run then starts "+
			"without probers that are not ready")
	f.StringVar(&o.NodeCoverage, "min-node-coverage", "", minNodeCoverageUsage+" (default 99%)")
	f.Float64Var(&o.NodeRate, "rate", routesRate, "requests per second from each node")
	f.StringArrayVar(&o.GateExprs, "fail-if", nil, "a gate `EXPR`, such as 'route.lag.max>2s' (repeatable)")
	f.StringVar(&o.Out, "out", "", "directory for the recording and timeline.json (default runs/RUN)")
	outputFlags(&o.Output, f)
	f.StringVar(&o.Dashboard, "dashboard", "", "serve the live page here, such as 127.0.0.1:8080")
	f.StringVar(&o.Image, "image", "",
		"image of the Job, the probers and the Service's Pods (default: "+defaultImage+")")
	f.StringVar(&o.ImagePullSecret, "image-pull-secret", "", "Secret to pull the image with")
	f.StringVar(&o.CPU, "cpu", deploy.DefaultCPU, "CPU that the Job's Pod and each prober ask for")
	return cmd
}

// newCanary returns the verb that the Pods of the Service of `lapse routes` run. Users do not call it.
func newCanary() *cobra.Command {
	var serveOn time.Duration
	cmd := &cobra.Command{
		Use:    "canary",
		Short:  "Internal: run by the Pods that lapse routes creates",
		Hidden: true,
		Args:   exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), stopSignals...)
			defer stop()
			return prober.ServeCanary(ctx, ":8080", serveOn)
		},
	}
	cmd.Flags().DurationVar(&serveOn, "serve-on", deploy.CanaryServes, "how long to go on after SIGTERM")
	return cmd
}
