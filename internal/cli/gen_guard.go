package cli

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"lapse/deploy"
	"lapse/internal/bucket"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

const genGuardHelp = `Print the guard's Deployment, its rights, its ConfigMap and the Service of its gate, as YAML for
kubectl apply -f. Flags of "lapse guard" go after --, as in "lapse gen guard -A -- --rate=50", and into
the ConfigMap: changes of it take effect within two minutes.

It may read Services, Pods, workloads and Events, and create Events: with -A in all namespaces, else in
that of -n, where it runs. With -A it may also read nodes and kube-proxy's configuration. Where it runs,
it may also write its Lease, the ConfigMap lapse-guard-history, and with --from, by which a DaemonSet has
a prober on each of these nodes, the Secret lapse-guard-probers.`

func newGenGuard() *cobra.Command {
	var g deploy.Guard
	var placement, from string
	var annotations []string
	cmd := &cobra.Command{
		Use:     "guard [flags] [-- GUARD-FLAGS...]",
		Short:   "Print a guard and its rights as YAML, to apply by hand",
		Long:    genGuardHelp,
		Example: "  kubectl create namespace lapse && lapse gen guard -A | kubectl apply -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if g.Namespace == "" && !g.AllNamespaces {
				return exit.Usagef("-n NAMESPACE for those of one, -A for all", "the Services of which namespace?")
			}
			var check guardCommand
			flags := check.flags()
			if err := flags.Parse(args); err != nil {
				return exit.Usagef("see `lapse guard --help`", "%w", err)
			}
			if flags.NArg() > 0 {
				return exit.Usagef("flags of the guard go after --", "%q is no flag", flags.Arg(0))
			}
			if other := otherThan(flags, guardSettings); other != "" {
				return exit.Usagef("leave it out", "--%s is set by `lapse gen guard` itself", other)
			}
			_, err := (&storeFlags{g.Store, g.StoreEndpoint}).open()
			if err != nil && !errors.Is(err, bucket.ErrNoKey) { // the guard has one
				return err
			}
			if g.StoreSecret != "" && g.Store == "" {
				return exit.Usagef("as in --store s3://my-bucket/lapse", "--store-secret needs --store")
			}
			if err := cmp.Or(deploy.CheckCPU(g.CPU), readPlacement(placement, &g.Placement)); err != nil {
				return exit.Usagef("see `lapse gen guard --help`", "%w", err)
			}
			if g.Annotations, err = readAnnotations(annotations); err != nil {
				return err
			}
			if cmd.Flags().Changed("from") {
				if err := readGuardFrom(from, &g); err != nil {
					return err
				}
			}
			if _, err := check.settings(flags); err != nil {
				return err
			}
			image := spec.Options{Image: g.Image, Env: spec.EnvOf(os.Environ())}
			if err := chooseImage(&image); err != nil {
				return err
			}
			g.Flags, g.Image = givenTo(flags, guardSettings), image.Image
			g.Namespace = cmp.Or(g.Namespace, deploy.GuardNamespace)
			return deploy.WriteYAML(cmd.OutOrStdout(), g.Objects()...)
		},
	}
	cmd.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		var guard guardCommand
		unknown, ok := errors.AsType[*pflag.NotExistError](err)
		if ok && guard.flags().Lookup(unknown.GetSpecifiedName()) != nil {
			return exit.Usagef("flags of `lapse guard` go after --: -- --"+unknown.GetSpecifiedName(), "%w", err)
		}
		return flagError(cmd, err)
	})
	f := cmd.Flags()
	f.StringVarP(&g.Namespace, "namespace", "n", "", "where the guard runs (default "+deploy.GuardNamespace+")")
	f.BoolVarP(&g.AllNamespaces, "all-namespaces", "A", false, "guard the annotated Services of all namespaces")
	f.StringVar(&from, "from", "", "measure from these `NODES`, too: all, their names, or a label selector")
	f.StringVar(&g.Image, "image", "", "image of the guard (default: "+defaultImage+")")
	f.StringVar(&g.ImagePullSecret, "image-pull-secret", "", "Secret to pull the image with")
	f.StringVar(&g.CPU, "cpu", deploy.DefaultCPU, "CPU request of each Pod but probers")
	f.StringVar(&placement, "placement", "", "a `FILE` with nodeSelector, affinity, tolerations and priorityClassName "+
		"of these Pods, as YAML")
	f.StringVar(&g.TokenSecret, "token-secret", "", "the Secret `NAME`, whose key token has the token of who may arm "+
		"a Service or call a hook (default: nobody may)")
	f.StringVar(&g.Store, "store", "", "s3://BUCKET/PREFIX that keeps all runs and lines of history, too")
	f.StringVar(&g.StoreEndpoint, "store-endpoint", "", "`URL` of an S3 server other than Amazon's")
	f.StringVar(&g.StoreSecret, "store-secret", "", "the Secret `NAME` with the variables AWS_ACCESS_KEY_ID and "+
		"AWS_SECRET_ACCESS_KEY (default: the IAM role of the ServiceAccount)")
	f.StringArrayVar(&annotations, "annotation", nil, "`KEY=VALUE` of the ServiceAccount, such as "+
		"eks.amazonaws.com/role-arn=ARN (repeatable)")
	f.StringVar(&g.Claim, "claim", "", "PersistentVolumeClaim for the runs (default: they go with the Pod)")
	return cmd
}

// readAnnotations returns the annotations of KEY=VALUE.
func readAnnotations(all []string) (map[string]string, error) {
	var annotations map[string]string
	for _, a := range all {
		key, value, ok := strings.Cut(a, "=")
		if !ok || len(validation.IsQualifiedName(strings.ToLower(key))) > 0 {
			return nil, exit.Usagef("as in --annotation eks.amazonaws.com/role-arn=arn:aws:iam::1234:role/lapse",
				"--annotation %q is no KEY=VALUE", a)
		}
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[key] = value
	}
	return annotations, nil
}

// readGuardFrom reads from which nodes a guard measures.
func readGuardFrom(from string, into *deploy.Guard) (err error) {
	const advice = "as in --from all, --from node1,node2 or --from topology.kubernetes.io/zone=a"
	places := strings.Split(from, ",")
	_, number := strconv.Atoi(from)
	switch {
	case slices.Contains(places, spec.FromOutside):
		return exit.Usagef(advice, "--from outside: a guard measures from nodes only")
	case number == nil:
		return exit.Usagef(advice, "--from %s: nodes come and go: a guard takes names or labels, no number", from)
	case slices.Contains(places, "all") && len(places) > 1:
		return exit.Usagef("--from all", "--from %s: all has every node in it", from)
	}
	if into.Probers, into.ProberLabels, err = spec.Placed(from); err != nil {
		return hint.Add(advice, err)
	}
	return exit.AsUsage(deploy.CheckNodes(into.Probers))
}

// readPlacement reads a file with fields of a Pod's spec, if one is named.
func readPlacement(file string, into *deploy.Placement) error {
	if file == "" {
		return nil
	}
	text, err := input.File(file, 1<<20)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}
