// Package resolve asks a cluster what the options of a run mean there: which Services, nodes and DNS servers. On the
// workstation this makes the Job ([Job]); where the requests are sent from, it finds the Services again ([Found]).
package resolve

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/deploy"
	"lapse/internal/hint"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/plane"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/watcher"
)

// A resolver fills in the options of a run with what a cluster says of them.
type resolver struct {
	*spec.Options
	c   *access.Cluster
	log *slog.Logger
}

// choose makes the choices of the options that need the cluster: nodes to avoid, Services, nodes to measure from, DNS
// servers.
func (r *resolver) choose(ctx context.Context) error {
	r.Cluster = watcher.DescribeCluster(ctx, r.c.Client)
	if err := r.avoidSelected(ctx); err != nil {
		return err
	}
	if err := r.chooseServices(ctx); err != nil {
		return err
	}
	if err := chooseProbers(ctx, r.Options, r.c.Client); err != nil {
		return err
	}
	if r.Changes > 0 || r.LooksNamesUp() {
		r.DNS = findDNS(ctx, r.c.Client)
	}
	if r.ControlPlane {
		r.APIServers = new(plane.Find(ctx, r.c.Client))
	}
	return nil
}

// avoidSelected resolves the labels by which a wrapped `kubectl drain -l` names nodes.
func (r *resolver) avoidSelected(ctx context.Context) error {
	if r.AvoidSelector == "" {
		return nil
	}
	selected, err := r.c.Client.Nodes().List(ctx, metav1.ListOptions{LabelSelector: r.AvoidSelector})
	if apierrors.IsForbidden(err) {
		r.log.Warn("no right to list nodes: name the nodes of -l " + r.AvoidSelector + " with --avoid-node, " +
			"or the Job may be evicted, which ends the run")
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the nodes that -l %s means: %w", r.AvoidSelector, err)
	}
	for _, node := range selected.Items {
		r.AvoidNodes = append(r.AvoidNodes, node.Name)
	}
	return nil
}

// chooseServices finds the Services to measure, and shares the rate out among them.
func (r *resolver) chooseServices(ctx context.Context) error {
	if !r.Chooses() {
		return nil
	}
	if err := r.nodeExists(ctx); err != nil {
		return err
	}
	scope := r.Scope(r.c.Namespace)
	query := watcher.Query{Namespace: scope, Selector: r.Selector, Node: r.OnNode}
	found, aside, err := watcher.Find(ctx, r.c.Client, query)
	if err != nil {
		if scope == metav1.NamespaceAll {
			err = hint.Add("name a namespace with -n, and choose there with --selector or --on-node", err)
		}
		return fmt.Errorf("%s: %w", r.ChoiceText(), err)
	}
	if len(found) == 0 {
		return exit.Usagef("`kubectl get services -A` lists what there is; "+spec.ChoiceHint,
			"%s: %s", r.ChoiceText(), spec.NothingToMeasure(aside))
	}
	r.Chosen, r.SetAside = nil, aside
	for _, info := range found {
		if info.Service.Namespace == r.c.Namespace {
			r.Nearby = append(r.Nearby, info.Selector)
		}
		chosen := spec.ChosenService{Scheme: r.SchemeFor(info)}
		chosen.Namespace, chosen.Name = info.Service.Namespace, info.Service.Name
		r.Chosen = append(r.Chosen, chosen)
	}
	r.Parsed = r.ChosenTargets()
	if err := spec.ShareRate(r.Options); err != nil {
		return err
	}
	if r.OnNode != "" && !r.WasGiven("avoid-node") && !slices.Contains(r.AvoidNodes, r.OnNode) {
		r.AvoidNodes = append(r.AvoidNodes, r.OnNode)
	}
	if !r.NoPreflight && len(r.Chosen) > spec.MostPredicted {
		r.NoPreflight = true
		r.log.Warn(fmt.Sprintf("preflight is not asked about more than %d Services: "+
			"`lapse preflight svc/NAME` predicts for one", spec.MostPredicted))
	}
	return nil
}

// nodeExists refuses a node that the cluster does not have. Without the right to list nodes it accepts any.
func (r *resolver) nodeExists(ctx context.Context) error {
	if r.OnNode == "" {
		return nil
	}
	nodes, err := r.c.Client.Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--on-node %s: list nodes: %w", r.OnNode, err)
	}
	names := spec.NodeNamesOf(nodes.Items)
	slices.Sort(names)
	if !slices.Contains(names, r.OnNode) {
		return exit.Usagef("the cluster has "+strings.Join(names, ", "),
			"--on-node %s: there is no such node", r.OnNode)
	}
	return nil
}

// checkRights checks all rights at once, and makes the keys of the probers. If only rights to watch are missing, the
// Job watches less.
func (r *resolver) checkRights(ctx context.Context, config *deploy.Config) error {
	served, err := watcher.ServesEvictionRequests(ctx, r.c.Client)
	config.EvictionRequests = served && err == nil // else the agent asks
	missing, err := deploy.CheckRights(ctx, r.c.Client, r.c.Namespace, deploy.Needs{
		Nodes: true, Secret: len(config.Private) > 0, Probers: len(config.Probers) > 0, Canary: config.CanaryPods > 0,
		Namespaces: config.Namespaces, AllNamespaces: config.AllNamespaces, EvictionRequests: config.EvictionRequests,
	})
	if err != nil {
		return err
	}
	if len(config.Probers) > 0 {
		if config.Keys, err = deploy.NewKeys(config.Deadline); err != nil {
			return err
		}
	}
	unwatched, needed := config.Without(missing)
	if len(needed) > 0 {
		return deploy.NoRights(needed)
	}
	if len(unwatched) > 0 {
		r.log.Warn("no right to let the Job read " + strings.Join(unwatched, ", ") +
			": these will not be watched, and causes are judged without them")
	}
	if slices.ContainsFunc(r.Parsed, spec.Target.NeedsNodes) && !config.NodesAccess {
		return exit.Usagef("ask for the right to list nodes and to grant it, or measure by another route",
			"?route=nodeport: no right to let the Job list nodes, whose addresses it needs")
	}
	return nil
}

// describeServices looks up the Services that are measured or watched, unless they were chosen, and so looked up, or
// come with the Job.
func (r *resolver) describeServices(ctx context.Context, config *deploy.Config) error {
	looked := slices.Clone(r.Parsed)
	if r.Changes > 0 || r.Chooses() {
		looked = nil
	}
	if r.Watch != "" {
		watched, err := spec.ParseTarget(r.Watch)
		if err != nil {
			return err
		}
		looked = append(looked, watched)
	}
	config.Selectors = r.Nearby
	for i, s := range looked {
		info, err := watcher.Describe(ctx, r.c.Client, r.c.Namespace, s.Service, r.Asked(s))
		if err != nil {
			return err
		}
		config.Selectors = append(config.Selectors, info.Selector)
		if i < len(r.Parsed) { // and not only watched
			if err := r.findOutside(ctx, s, info); err != nil {
				return err
			}
		}
		if r.DNS == nil && i < len(r.Parsed) && spec.IsHeadless(info) {
			r.DNS = findDNS(ctx, r.c.Client)
			config.Spec = spec.MustMarshal(r.Spec)
		}
		r.NotCovered = append(r.NotCovered, spec.NotCoveredLines(info)...)
	}
	return nil
}

// findOutside finds the ways by which this machine reaches a Service, and refuses one that leads nowhere.
func (r *resolver) findOutside(ctx context.Context, s spec.Target, info watcher.Info) error {
	if !r.Outside {
		return nil
	}
	ways, err := watcher.OutsideWays(ctx, r.c.Client, info.Service.Namespace, info.Service.Name, r.Asked(s))
	if err != nil {
		return err
	}
	for _, w := range ways {
		if addr, err := netip.ParseAddr(w.Host); err == nil && !loadgen.HasRoute(addr) {
			return exit.Usagef("measure from a machine that has one, or leave out --from outside",
				"--from outside: this machine has no route to %s of Service %q, %s", w.Name(), s.Service, addr)
		}
	}
	info.Ways = ways
	r.FromHere = append(r.FromHere, spec.Service{Target: s, Info: info, Measured: true})
	return nil
}
