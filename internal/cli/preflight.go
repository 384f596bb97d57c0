package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
	"lapse/internal/run/precheck"
)

func newPreflight() *cobra.Command {
	var o precheck.Verb
	cmd := &cobra.Command{
		Use:   "preflight [svc/NAME | KIND/NAME]... [flags]",
		Short: "Predict what will go wrong with Services, before anything is measured",
		Long: `Predict from a Service's spec and the placement of its Pods what a drain, a rollout or a crash will do
to it. No request is sent, and nothing is changed. Without a name, all Services of the namespace or of
the manifests are judged; of a workload, such as deploy/web, the Services that select it, or itself.
With -f, manifests are read instead of a cluster: rules that need placement say that they could not
judge.

Severities: will-lose: if the named event happens, requests fail, whatever the application does.
may-lose: requests may fail; the spec does not show it. will-block: a drain does not finish. blind:
Lapse cannot judge it.

Exit codes:
  0  no finding that fails (--fail-on), and something is known of the Pods of each Service
  2  bad arguments, no such Service, or files that cannot be read or that kubectl refuses; the rest is
     judged
  3  findings
  4  nothing is known of the Pods of a Service, and --baseline does not accept it

If several hold, the first of 2, 3, 4, 0 is the exit code.

Rules:

` + precheck.Rules(),
		Example: `  lapse preflight svc/web -n shop --node node2
  lapse preflight -f . --fail-on will-lose -o sarif
  helm template shop | lapse preflight -f - -o junit`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := positive(cmd, "route-lag", "longest-request"); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return o.Run(ctx, args, cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	kubeFlags(&o.Kube, f)
	f.StringVar(&o.Node, "node", "", "the node that will be drained")
	f.StringArrayVarP(&o.Manifests, "filename", "f", nil, "manifests instead of the cluster: a `FILE`, a directory, "+
		"or - for standard input (repeatable; more may follow as arguments)")
	f.StringVar(&o.Validation, "validate", "strict",
		"fields that do not exist and keys set twice: "+precheck.Validations())
	f.StringVarP(&o.Format, "output", "o", "table", "result on standard output: "+precheck.Formats())
	f.StringVar(&o.FailOn, "fail-on", "may-lose", "the least severity that fails: "+precheck.Thresholds())
	f.StringSliceVar(&o.Rules, "rules", nil, "only these rules, by ID or name, separated by commas (default: all)")
	f.StringSliceVar(&o.Skip, "skip", nil, "not these rules, by ID or name, separated by commas")
	f.StringVar(&o.Baseline, "baseline", "",
		"a `FILE` of accepted findings with reasons, YAML or JSON: they are listed apart and do not fail")
	f.StringVar(&o.WriteBaseline, "write-baseline", "",
		"write all that is found into a `FILE` for --baseline, instead of a result")
	f.DurationVar(&o.RouteLag, "route-lag", 0,
		"how long routes outlive a Pod in this cluster at most, as measured (default: 1 s to 5 s, an assumption)")
	f.DurationVar(&o.LongestRequest, "longest-request", 0, "how long a request takes at most (default: not known)")
	f.DurationVar(&o.RequestTimeout, "request-timeout", 10*time.Second, "timeout of each request to the API server")
	return cmd
}

// positive refuses durations of 0 and less that were given: without the flag, what they set is not known.
func positive(cmd *cobra.Command, flags ...string) error {
	for _, name := range flags {
		if d, _ := cmd.Flags().GetDuration(name); d <= 0 && cmd.Flags().Changed(name) {
			return exit.Usagef("leave it out if it is not known", "--%s %v: must be greater than 0", name, d)
		}
	}
	return nil
}
