package spec

import (
	"net/netip"
	"os"
	"strings"

	"lapse/loadgen/lookup"
)

// This file reads what the kubelet writes into a Pod's resolv.conf:
// https://man7.org/linux/man-pages/man5/resolv.conf.5.html.

// ClusterDomain returns the DNS domain of this Pod's cluster, or "" outside of a cluster. The kubelet writes it into
// the Pod's search list, as svc.DOMAIN. https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
func ClusterDomain(env Env) string {
	conf, err := os.ReadFile("/etc/resolv.conf")
	if err != nil || env["KUBERNETES_SERVICE_HOST"] == "" {
		return ""
	}
	for line := range strings.Lines(string(conf)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] != "search" {
			continue
		}
		for _, name := range fields[1:] {
			if domain, ok := strings.CutPrefix(name, "svc."); ok {
				return domain
			}
		}
	}
	return ""
}

// NameServers returns the DNS servers in a resolv.conf.
func NameServers(conf string) (servers []lookup.Server) {
	const port = 53
	for line := range strings.Lines(conf) {
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[0] != "nameserver" {
			continue
		}
		if addr, err := netip.ParseAddr(fields[1]); err == nil {
			servers = append(servers, lookup.Server{Addr: netip.AddrPortFrom(addr, port)})
		}
	}
	return servers
}
