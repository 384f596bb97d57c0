package run

import (
	"context"
	"net"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"time"

	"lapse/loadgen"
	"lapse/run/exit"
	"lapse/watcher"
)

// find looks up the Services and hosts of the run, and asks preflight. A signal ends it.
func (m *measurement) find(ctx context.Context, signals <-chan os.Signal) error {
	setup, release := Interruptible(ctx, signals)
	defer release()
	if err := m.findServices(setup); err != nil {
		return exit.StoppedOr(setup, exit.AsUsage(err))
	}
	if err := m.resolve(setup); err != nil {
		return exit.StoppedOr(setup, err)
	}
	if err := m.opts.chooseProbers(setup, m.client); err != nil {
		return exit.StoppedOr(setup, err)
	}
	m.predicts = m.predict(setup)
	if release(); setup.Err() != nil {
		return exit.StoppedOr(setup, nil)
	}
	return nil
}

// findServices looks up each Service that is measured or watched.
func (m *measurement) findServices(ctx context.Context) error {
	if len(m.opts.Chosen) > 0 {
		return m.findChosen(ctx)
	}
	targets := slices.Clone(m.opts.targets)
	if m.opts.Watch != "" {
		watched, err := ParseTarget(m.opts.Watch)
		if err != nil {
			return err
		}
		targets = append(targets, watched)
	}
	for i, s := range targets {
		if s.Service == "" {
			continue
		}
		c, err := m.opts.Kube.Connect(ctx)
		if err != nil {
			return err
		}
		info, err := watcher.Describe(ctx, c.client, c.Namespace, s.Service, m.opts.asked(s))
		if err != nil {
			return err
		}
		m.client = c.client
		m.services = append(m.services, service{target: s, info: info, measured: i < len(m.opts.targets)})
	}
	return nil
}

// resolve refuses hosts that do not resolve. Chosen Services get trial requests instead: some of them may fail.
func (m *measurement) resolve(ctx context.Context) error {
	if len(m.opts.Chosen) > 0 {
		return m.tryChosen(ctx)
	}
	for _, s := range m.resolved() {
		for _, way := range s.ways() {
			u, err := url.Parse(m.opts.probeBy(s, way).URL)
			if err != nil {
				return exit.Usagef(TargetHint, "%w", err)
			}
			if err := m.reachable(ctx, s, way, u.Hostname()); err != nil {
				return err
			}
		}
	}
	return nil
}

// reachable refuses a way whose host does not resolve here, or to whose address this machine has no route.
func (m *measurement) reachable(ctx context.Context, s service, way watcher.Way, host string) error {
	name := s.target.Service
	if way.Turns && clusterDomain() == "" {
		return exit.Usagef("measure it in the cluster: drop --here", "Service %q is headless, and its name resolves only in the cluster", name)
	}
	if err := resolvable(ctx, host); err != nil && s.info.Service.ExternalName != "" {
		return exit.Usagef("check its spec.externalName, and who resolves that name", "Service %q only names another host: %w", name, err)
	} else if err != nil {
		return err
	}
	if addr, err := netip.ParseAddr(host); err == nil && name != "" && len(m.opts.Probers) == 0 && !loadgen.HasRoute(addr) {
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
