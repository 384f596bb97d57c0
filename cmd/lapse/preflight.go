package main

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/run"
)

func newPreflight() *cobra.Command {
	var o run.Preflight
	cmd := &cobra.Command{
		Use:   "preflight svc/NAME [flags]",
		Short: "Predict what will go wrong with a Service, before anything is measured",
		Long: `Predict from a Service's spec and the placement of its Pods what a drain, a rollout or a crash will do to it. No request is sent, and nothing
is changed. With -f, manifests are read instead of a cluster: rules that need placement say that they could not judge.

Severities: will-lose: if the named event happens, requests fail, whatever the application does. may-lose: requests may fail; the spec does
not show it. will-block: a drain does not finish. blind: Lapse cannot judge it. Exit codes: 0 no findings except blind or accepted ones, 3 findings,
2 nothing could be read.

Rules:

` + run.PreflightRules(),
		Example: `  lapse preflight svc/web -n shop --node node2
  helm template shop | lapse preflight svc/web -f - -o junit`,
		Args: exactly(1, "the Service, svc/NAME"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.Run(ctx, args[0], cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	kubeFlags(&o.Kube, f)
	f.StringVar(&o.Node, "node", "", "the node that will be drained")
	f.StringArrayVarP(&o.Manifests, "filename", "f", nil, "manifests instead of the cluster: a `FILE`, a directory, or - for standard input (repeatable)")
	f.StringVarP(&o.Format, "output", "o", "table", "result on standard output: "+run.PreflightFormats())
	f.StringVar(&o.Baseline, "baseline", "", "a `FILE` of accepted findings with reasons, YAML or JSON: they are listed apart and do not fail")
	f.DurationVar(&o.RouteLag, "route-lag", 0, "how long routes outlive a Pod in this cluster at most, as measured (default: 1 s to 5 s, an assumption)")
	f.DurationVar(&o.LongestRequest, "longest-request", 0, "how long a request takes at most (default: not known)")
	f.DurationVar(&o.RequestTimeout, "request-timeout", 10*time.Second, "timeout of each request to the API server")
	return cmd
}
