package run

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"lapse/hint"
	"lapse/preflight"
)

// Preflight predicts what will go wrong with a Service.
type Preflight struct {
	Kube
	Manifests      []string // files, directories or "-"; none: the cluster is asked
	Node           string   // that will be drained
	Format         string
	Baseline       string        // a file; "": none
	RouteLag       time.Duration // as measured; 0: it is assumed
	LongestRequest time.Duration // 0: not known
	RequestTimeout time.Duration // of each request to the API server
}

// exitFound is the exit code where something is predicted.
const exitFound = 3

// Run prints what is predicted of the Service that arg names. The error has the exit code.
func (o *Preflight) Run(ctx context.Context, arg string, in io.Reader, stdout io.Writer) error {
	target, err := o.check(arg)
	if err != nil {
		return err
	}
	format := preflight.Formats[slices.IndexFunc(preflight.Formats, func(f preflight.Format) bool { return f.Name == o.Format })]
	var baseline preflight.Baseline
	if o.Baseline != "" {
		if baseline, err = preflight.ReadBaseline(o.Baseline); err != nil {
			return AsUsage(err)
		}
	}
	state, err := o.read(ctx, target.Service, in)
	if err != nil {
		return err
	}
	if o.RouteLag > 0 {
		state.RouteLag = preflight.Lag{Most: o.RouteLag}
	}
	state.Node, state.LongestRequest = o.Node, o.LongestRequest
	if err := state.CheckNode(); err != nil {
		return AsUsage(err)
	}
	result := preflight.Judge(state)
	result.Accept(baseline)
	if err := format.Write(stdout, &result, StyleOf(stdout).Screen); err != nil {
		return err
	}
	switch {
	case !state.PodsKnown():
		return ExitWith(ExitUsage, hint.Errorf("the lines under NOT JUDGED say what is missing", "nothing is known of the Pods behind svc/%s: most rules could not judge", target.Service))
	case result.Fails():
		return ExitWith(exitFound, nil)
	}
	return nil
}

// check refuses what cannot be meant.
func (o *Preflight) check(arg string) (targetSpec, error) {
	target, err := ParseTarget(arg)
	switch {
	case err != nil:
		return target, err
	case target.Service == "" || target.port != "" || target.Path != "/":
		return target, Usagef("as in `lapse preflight svc/web`", "preflight is of a Service, svc/NAME, without a port or a path: not %q", arg)
	case !slices.ContainsFunc(preflight.Formats, func(f preflight.Format) bool { return f.Name == o.Format }):
		return target, Usagef("one of: "+preflight.FormatNames(), "unknown output format %q", o.Format)
	case o.RouteLag < 0 || o.LongestRequest < 0:
		return target, Usagef("", "durations must not be negative")
	case o.RequestTimeout <= 0:
		return target, Usagef("", "request-timeout %v: must be greater than 0", o.RequestTimeout)
	case len(o.Manifests) > 0 && (o.Kubeconfig != "" || o.Context != ""):
		return target, Usagef("leave -f out to ask the cluster", "with -f the cluster is not asked: --kubeconfig and --context have no effect")
	case len(o.Manifests) > 0 && o.Node != "":
		return target, Usagef("leave -f out to ask the cluster", "manifests do not say where Pods run: with -f, --node has no effect")
	}
	return target, nil
}

func (o *Preflight) read(ctx context.Context, service string, in io.Reader) (*preflight.State, error) {
	if len(o.Manifests) > 0 {
		state, err := preflight.FromManifests(o.Manifests, in, o.Namespace, service)
		return state, AsUsage(err)
	}
	c, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	state, err := preflight.FromCluster(ctx, c.client, c.Namespace, service, preflight.Asking{Timeout: o.RequestTimeout, Advise: true})
	if ctx.Err() != nil {
		return nil, Stopped("stopped before the cluster was read")
	}
	return state, AsUsage(err)
}

// PreflightFormats lists the formats of its result.
func PreflightFormats() string { return preflight.FormatNames() }

// PreflightRules lists the rules with what each looks for, for help and reference.
func PreflightRules() string {
	var b strings.Builder
	for _, r := range preflight.Rules() {
		fmt.Fprintf(&b, "    %s  %-20s %s\n", r.ID, r.Name, r.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}
