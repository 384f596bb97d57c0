package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/internal/guard/gate"
	"lapse/internal/report/document"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
)

// Where a guard is that `lapse gen guard` printed, as its cluster names it, and what says so of another one.
const (
	envGuard     = "LAPSE_GUARD"
	defaultGuard = "http://" + deploy.GuardName + "." + deploy.GuardNamespace + ".svc:7117"
)

// A guardPlace says where a guard is.
type guardPlace struct{ url, namespace string }

const gateHelp = `Ask a guard whether a Service got through a disruption: the rollout of a Pod template (--hash),
the drain of a node (--node), a run (--run), or all that happened since a time (--since).

The exit code is 0 if it passed, 3 if it failed, and 4 if nobody knows: the run is inconclusive, there was
no such disruption within --wait, or the guard or the API server does not answer. It is 2 for a Service
that is not guarded.`

func newGate() *cobra.Command {
	var kube access.Kube
	var q gate.Query
	var place guardPlace
	var since, format string
	var wait time.Duration
	cmd := &cobra.Command{
		Use:   "gate svc/NAME [flags]",
		Short: "Ask a guard whether a Service got through a disruption",
		Long:  gateHelp,
		Example: `  lapse gate svc/web -n shop --hash 54cf597767 --wait 10m
  lapse gate svc/web -n shop --node node1 --since 2026-11-26T10:15:00Z --wait 10m`,
		Args: exactly(1, "the Service, svc/NAME"),
		RunE: func(cmd *cobra.Command, args []string) (err error) {
			if q.Service, err = gateService(args[0], kube); err != nil {
				return err
			}
			if since != "" {
				if q.Since, err = gate.ParseTime(since); err != nil {
					return exit.Usagef("`date -u +%FT%TZ` prints one", "--since %q: %w", since, err)
				}
			}
			if err := checkFormat(format); err != nil {
				return err
			}
			if wait < 0 {
				return exit.Usagef("as in --wait 10m", "wait %v: must not be negative", wait)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := q.Check(); err != nil {
				return exit.Usagef("see `lapse gate --help`", "%w", err)
			}
			a, err := askGate(ctx, kube, place, q, wait)
			if _, refused := errors.AsType[*gate.RefusedError](err); refused {
				return exit.Usagef("see `lapse gate --help`, and `lapse guard status`", "%w", err)
			}
			if err != nil {
				return exit.StoppedOr(ctx, err)
			}
			return sayGate(cmd, a, format)
		},
	}
	kubeFlags(&kube, cmd.Flags())
	f := cmd.Flags()
	f.StringVar(&q.Hash, "hash", "", "the hash of a Pod template, in its Pods' label pod-template-hash, "+
		"controller-revision-hash or rollouts-pod-template-hash")
	f.StringVar(&q.Node, "node", "", "a node that was drained")
	f.StringVar(&q.Run, "run", "", "a run's name")
	f.StringVar(&since, "since", "", "leave out what was over before this `TIME`, such as 2026-11-26T10:15:00Z")
	f.BoolVar(&q.NonePasses, "none-passes", false, "that there was no disruption since --since passes, too")
	f.DurationVar(&wait, "wait", 0, "how long to wait for a verdict")
	formatFlag(&format, f)
	placeFlags(&place, f)
	return cmd
}

// askGate asks the gate of the guard that guards a Service, for at most wait until there is a verdict.
func askGate(
	ctx context.Context, kube access.Kube, place guardPlace, q gate.Query, wait time.Duration,
) (a gate.Answer, err error) {
	began := time.Now()
	at, client, err := findGuard(ctx, kube, place, q.Service)
	for errors.Is(err, access.ErrUnanswered) && ctx.Err() == nil {
		if time.Since(began) >= wait {
			return gate.Answer{State: gate.Inconclusive, Reason: err.Error()}, nil
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		at, client, err = findGuard(ctx, kube, place, q.Service)
	}
	if err != nil {
		return a, err
	}
	return gate.Client{Address: at, Do: client.Do, Refuses: apierrors.IsForbidden}.Await(ctx, q, wait-time.Since(began))
}

func placeFlags(place *guardPlace, f *pflag.FlagSet) {
	f.StringVar(&place.url, "guard", "", "the guard's `URL` (default: $"+envGuard+", else through the kubeconfig; "+
		"in a Pod without one "+defaultGuard+")")
	f.StringVar(&place.namespace, "guard-namespace", "", "namespace of the guard "+
		"(default: "+deploy.GuardNamespace+", else that of the Service)")
}

// findGuard returns the URL of the gate of the guard that guards a Service, and a client for it.
func findGuard(
	ctx context.Context, kube access.Kube, place guardPlace, service string,
) (at string, client *http.Client, err error) {
	at, client = cmp.Or(place.url, os.Getenv(envGuard)), http.DefaultClient
	switch inPod := os.Getenv("KUBERNETES_SERVICE_HOST") != "" && !kube.Given(); {
	case at != "":
	case inPod:
		client = unproxied()
	default:
		namespace, _, _ := strings.Cut(service, "/")
		namespaces := []string{deploy.GuardNamespace, namespace}
		if place.namespace != "" {
			namespaces = []string{place.namespace}
		}
		if client, err = guardClient(ctx, kube, deploy.GatePort, namespaces...); err != nil {
			return "", nil, err
		}
	}
	if at == "" {
		namespace := cmp.Or(place.namespace, deploy.GuardNamespace)
		at = fmt.Sprintf("http://%s.%s.svc:%d", deploy.GuardName, namespace, deploy.GatePort)
	}
	if u, err := url.Parse(at); err != nil || u.Host == "" || !strings.HasPrefix(u.Scheme, "http") {
		return "", nil, exit.Usagef("as in --guard "+defaultGuard, "%q is no address of a guard", at)
	}
	return at, client, nil
}

// unproxied returns a client that ignores the environment's proxy. $NO_PROXY may not cover a Service's name.
func unproxied() *http.Client {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.Proxy = nil
	return &http.Client{Transport: transport}
}

// gateService returns NAMESPACE/NAME of an argument svc/NAME.
func gateService(arg string, kube access.Kube) (string, error) {
	t, err := spec.ParseTarget(arg)
	switch {
	case err != nil:
		return "", err
	case t.Service == "" || t.Port != "" || t.Path != "/" || t.Routes != "":
		return "", exit.Usagef("as in svc/web", "%q is not a Service", arg)
	}
	namespace, err := kube.NamespaceOrDefault()
	return namespace + "/" + t.Service, err
}

// sayGate prints an answer, and returns its exit code as an error.
func sayGate(cmd *cobra.Command, a gate.Answer, format string) (err error) {
	line := strings.ToUpper(string(a.State)) + " " + a.Reason
	if a.Run != "" {
		line += " (run " + a.Run + ")"
	}
	if format == "json" {
		err = printJSON(cmd.OutOrStdout(), a)
	} else {
		_, err = fmt.Fprintln(cmd.OutOrStdout(), document.Clean(line))
	}
	switch a.State {
	case gate.Pass:
		return err
	case gate.Fail:
		return exit.With(verdict.ExitGateFailed, err)
	}
	return exit.With(verdict.ExitInconclusive, err)
}
