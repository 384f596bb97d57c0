package coordinator

import (
	"cmp"
	"fmt"
	"net/netip"
	"net/url"
	"os"

	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/loadgen/lookup"
	"lapse/timeline"
	"lapse/watcher"
)

// This file is about what is measured beside every Service that is named: what the cluster's DNS servers say of its
// name, each asked at its own address. That is evidence, as Pods' own addresses are: it has no windows, and no part
// in downtime or coverage.

const (
	// nameRate is how often one DNS server is asked for one name, per second, and namesRate how often all are for all.
	nameRate, namesRate = 10, 100
)

// startNames starts a target for each name and DNS server. Without them the rest is measured.
func (m *measurement) startNames() {
	domain := spec.ClusterDomain(m.opts.Env)
	if domain == "" || m.opts.DNS == nil {
		return
	}
	servers := m.opts.DNS.Servers
	if len(servers) == 0 {
		conf, _ := os.ReadFile("/etc/resolv.conf") // it was read for the domain
		servers = spec.NameServers(string(conf))
	}
	for _, p := range namesProbes(m.MeasuredServices(), servers, domain) {
		if err := m.StartTarget(p); err != nil {
			m.log.Warn("a name is not looked up", "target", p.Name, "error", err)
			return
		}
	}
}

// namesProbes are the look-ups of Services' names. Which records are asked for follows from the family of the
// Service's address.
func namesProbes(infos []watcher.Info, servers []lookup.Server, domain string) (probes []loadgen.Probe) {
	for _, info := range infos {
		query := "type=A"
		if ip, err := netip.ParseAddr(info.Service.ClusterIP); err == nil && ip.Is6() {
			query = "type=AAAA"
		}
		name := fmt.Sprintf("%s.%s.svc.%s", info.Service.Name, info.Service.Namespace, domain)
		for _, s := range servers {
			u := url.URL{Scheme: "dns", Host: s.Addr.String(), Path: "/" + name, RawQuery: query}
			label := fmt.Sprintf("dns %s of %s", cmp.Or(s.Pod.Name, s.Addr.Addr().String()), info.Service.Name)
			if len(infos) > 1 {
				label += "." + info.Service.Namespace
			}
			probes = append(probes, loadgen.Probe{Target: timeline.Target{
				Name: label, Kind: timeline.Direct, URL: u.String(), Addr: s.Addr, PodNode: s.Pod.Node,
				Rate: min(nameRate, namesRate/float64(len(infos)*len(servers))),
			}})
		}
	}
	return probes
}
