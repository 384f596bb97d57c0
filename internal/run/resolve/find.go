package resolve

import (
	"cmp"
	"context"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// Find looks up the Services and hosts of the run, and asks preflight.
func (r *Found) Find(ctx context.Context) error {
	if err := r.findServices(ctx); err != nil {
		return exit.AsUsage(err)
	}
	if err := r.resolve(ctx); err != nil {
		return err
	}
	if err := chooseProbers(ctx, r.opts, r.Client); err != nil {
		return err
	}
	r.Predicts = r.predict(ctx)
	return nil
}

// findServices looks up each Service that is measured or watched.
func (r *Found) findServices(ctx context.Context) error {
	if len(r.opts.Chosen) > 0 {
		return r.findChosen(ctx)
	}
	targets := slices.Clone(r.opts.Parsed)
	if r.opts.Watch != "" {
		watched, err := spec.ParseTarget(r.opts.Watch)
		if err != nil {
			return err
		}
		targets = append(targets, watched)
	}
	for i, s := range targets {
		if s.Service == "" {
			continue
		}
		c, err := r.opts.Kube.Connect(ctx)
		if err != nil {
			return err
		}
		info, err := watcher.Describe(ctx, c.Client, c.Namespace, s.Service, r.opts.Asked(s))
		if err != nil {
			return err
		}
		r.Client, r.REST = c.Client, c.REST()
		r.Services = append(r.Services, spec.Service{Target: s, Info: info, Measured: i < len(r.opts.Parsed)})
	}
	r.describeCluster(ctx)
	return nil
}

// describeCluster notes what this machine may know of the cluster, unless the workstation has said it, which often may
// know more.
func (r *Found) describeCluster(ctx context.Context) {
	if r.Client != nil && r.opts.Cluster == (timeline.Cluster{}) {
		r.opts.Cluster = watcher.DescribeCluster(ctx, r.Client)
	}
}

// resolve refuses hosts that do not resolve. Chosen Services get trial requests instead: some of them may fail.
func (r *Found) resolve(ctx context.Context) error {
	if len(r.opts.Chosen) > 0 {
		return r.tryChosen(ctx)
	}
	for _, s := range r.Resolved() {
		for _, way := range s.Ways() {
			u, err := url.Parse(r.opts.ProbeBy(s, way).URL)
			if err != nil {
				return exit.Usagef(spec.TargetHint, "%w", err)
			}
			if err := r.reachable(ctx, s, way, u.Hostname()); err != nil {
				return err
			}
		}
	}
	return nil
}

// noRouteHint is for a Service at whose address this machine cannot ask.
const noRouteHint = "measure where that family is routed: --from chooses nodes, " +
	"and ?route=ipv4 or ?route=ipv6 the family"

// reachable refuses a way whose host does not resolve here, or to whose address this machine has no route.
func (r *Found) reachable(ctx context.Context, s spec.Service, way watcher.Way, host string) error {
	name := s.Target.Service
	if way.Turns && spec.ClusterDomain(r.opts.Env) == "" {
		return exit.Usagef("measure it in the cluster: drop --here",
			"Service %q is headless, and its name resolves only in the cluster", name)
	}
	if err := resolvable(ctx, host); err != nil && s.Info.Service.ExternalName != "" {
		return exit.Usagef("check its spec.externalName, and who resolves that name",
			"Service %q only names another host: %w", name, err)
	} else if err != nil {
		return err
	}
	if name == "" || len(r.opts.Probers) > 0 {
		return nil
	}
	if addr, err := netip.ParseAddr(host); err == nil && !loadgen.HasRoute(addr) {
		return exit.Usagef(noRouteHint,
			"Service %q is asked at %s, and this machine has no route to that address", name, host)
	}
	return nil
}

// resolvable refuses a host that does not resolve within 10 s.
func resolvable(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return exit.Usagef("check its spelling, and that this machine can resolve it",
			"host %q does not resolve: %w", host, err)
	}
	return nil
}

// findChosen looks up the chosen Services again, where the requests are sent from. It sets aside those that have gone.
func (r *Found) findChosen(ctx context.Context) error {
	scopes := r.opts.ChosenNamespaces()
	if r.opts.AllNamespaces {
		scopes = []string{metav1.NamespaceAll}
	}
	r.opts.Kube.Burst = 100 + watchesOf*len(scopes)
	c, err := r.opts.Kube.Connect(ctx)
	if err != nil {
		return err
	}
	r.Client, r.REST = c.Client, c.REST()
	infos, why := map[string]watcher.Info{}, map[string]string{}
	for _, scope := range scopes {
		found, aside, err := watcher.Find(ctx, c.Client, watcher.Query{Namespace: scope})
		if err != nil {
			return err
		}
		for _, info := range found {
			infos[spec.ServiceKey(info.Service)] = info
		}
		for _, s := range aside {
			why[s.Namespace+"/"+s.Name] = s.Why
		}
	}
	r.describeCluster(ctx)
	for _, s := range r.opts.Parsed {
		key := s.Namespace + "/" + s.Service
		if info, ok := infos[key]; ok {
			r.Services = append(r.Services, spec.Service{Target: s, Info: info, Measured: true})
			continue
		}
		r.setAside(s, cmp.Or(why[key], "it was deleted before the run began"))
	}
	return r.keepFound()
}

// watchesOf is the number of requests that the watches of a namespace begin with: a list and a watch of each of 8
// kinds. They must not wait for each other.
const watchesOf = 16
