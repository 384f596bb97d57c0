package run

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"lapse/kube"
	"lapse/loadgen"
	"lapse/run/exit"
	"lapse/timeline"
	"lapse/watcher"
)

// found is what was found before the run begins: the Services that are measured or watched, and what preflight predicts of them.
type found struct {
	opts     *Options
	logger   *slog.Logger
	client   kube.Client // nil: nothing to watch
	services []service
	predicts []timeline.Event
}

// find looks up the Services and hosts of the run, and asks preflight.
func (r *found) find(ctx context.Context) error {
	if err := r.findServices(ctx); err != nil {
		return exit.AsUsage(err)
	}
	if err := r.resolve(ctx); err != nil {
		return err
	}
	if err := chooseProbers(ctx, r.opts, r.client); err != nil {
		return err
	}
	r.predicts = r.predict(ctx)
	return nil
}

// findServices looks up each Service that is measured or watched.
func (r *found) findServices(ctx context.Context) error {
	if len(r.opts.Chosen) > 0 {
		return r.findChosen(ctx)
	}
	targets := slices.Clone(r.opts.targets)
	if r.opts.Watch != "" {
		watched, err := ParseTarget(r.opts.Watch)
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
		info, err := watcher.Describe(ctx, c.client, c.Namespace, s.Service, r.opts.asked(s))
		if err != nil {
			return err
		}
		r.client = c.client
		r.services = append(r.services, service{target: s, info: info, measured: i < len(r.opts.targets)})
	}
	return nil
}

// resolve refuses hosts that do not resolve. Chosen Services get trial requests instead: some of them may fail.
func (r *found) resolve(ctx context.Context) error {
	if len(r.opts.Chosen) > 0 {
		return r.tryChosen(ctx)
	}
	for _, s := range r.resolved() {
		for _, way := range s.ways() {
			u, err := url.Parse(r.opts.probeBy(s, way).URL)
			if err != nil {
				return exit.Usagef(TargetHint, "%w", err)
			}
			if err := r.reachable(ctx, s, way, u.Hostname()); err != nil {
				return err
			}
		}
	}
	return nil
}

// reachable refuses a way whose host does not resolve here, or to whose address this machine has no route.
func (r *found) reachable(ctx context.Context, s service, way watcher.Way, host string) error {
	name := s.target.Service
	if way.Turns && clusterDomain(r.opts.Env) == "" {
		return exit.Usagef("measure it in the cluster: drop --here", "Service %q is headless, and its name resolves only in the cluster", name)
	}
	if err := resolvable(ctx, host); err != nil && s.info.Service.ExternalName != "" {
		return exit.Usagef("check its spec.externalName, and who resolves that name", "Service %q only names another host: %w", name, err)
	} else if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil && name != "" && len(r.opts.Probers) == 0 && !loadgen.HasRoute(addr) {
		return exit.Usagef("measure where that family is routed: --from chooses nodes, and ?route=ipv4 or ?route=ipv6 the family",
			"Service %q is asked at %s, and this machine has no route to that address", name, host)
	}
	return nil
}

// resolvable refuses a host that does not resolve within 10 s.
func resolvable(ctx context.Context, host string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if _, err := net.DefaultResolver.LookupHost(ctx, host); err != nil {
		return exit.Usagef("check its spelling, and that this machine can resolve it", "host %q does not resolve: %w", host, err)
	}
	return nil
}
