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

// This file measures what the cluster's DNS servers answer for the name of each Service, at each server's own address.
// That is evidence, as requests to Pods' own addresses are: it has no windows, and no part in downtime or coverage.

const (
	nameRate  = 10  // requests per second to one DNS server for one name
	namesRate = 100 // requests per second to all servers for all names, at most
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

// namesProbes returns the look-ups of Services' names. The family of a Service's address decides which records are
// asked for.
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
