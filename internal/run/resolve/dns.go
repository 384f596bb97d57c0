package resolve

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube"
	"lapse/internal/run/spec"
	"lapse/loadgen/lookup"
	"lapse/timeline"
)

// The Service of a cluster's DNS servers, whichever these are.
// https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/
const (
	dnsNamespace = metav1.NamespaceSystem
	dnsService   = "kube-dns"
)

// mostDNSServers is the largest number of addresses that are asked.
const mostDNSServers = 20

// findDNS returns the addresses of the cluster's DNS servers, or why there are none. Without them the rest is
// measured.
func findDNS(ctx context.Context, client kube.Client) *spec.DNS {
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + dnsService}
	list, err := client.EndpointSlices(dnsNamespace).List(ctx, ofService)
	switch {
	case apierrors.IsForbidden(err):
		return &spec.DNS{NotAsked: "no right to list the EndpointSlices of namespace " + dnsNamespace}
	case err != nil:
		why := fmt.Sprintf("the EndpointSlices of namespace %s could not be listed: %v", dnsNamespace, err)
		return &spec.DNS{NotAsked: why}
	}
	found := &spec.DNS{}
	found.Servers, found.NotAsked = dnsServers(list.Items)
	return found
}

// dnsServers returns the addresses that serve DNS over UDP, sorted by Pod and address, at most mostDNSServers. leftOut
// says which others there are.
func dnsServers(endpoints []discoveryv1.EndpointSlice) (servers []lookup.Server, leftOut string) {
	for _, slice := range endpoints {
		port, ok := dnsPort(slice.Ports)
		if !ok {
			continue
		}
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && !*e.Conditions.Ready {
				continue
			}
			pod := timeline.Object{}
			if ref := e.TargetRef; ref != nil {
				pod = timeline.Object{Kind: ref.Kind, Namespace: ref.Namespace, Name: ref.Name, UID: string(ref.UID)}
			}
			if e.NodeName != nil {
				pod.Node = *e.NodeName
			}
			for _, text := range e.Addresses {
				if addr, err := netip.ParseAddr(text); err == nil {
					servers = append(servers, lookup.Server{Addr: netip.AddrPortFrom(addr, port), Pod: pod})
				}
			}
		}
	}
	slices.SortFunc(servers, func(a, b lookup.Server) int {
		return cmp.Or(cmp.Compare(a.Pod.Name, b.Pod.Name), a.Addr.Compare(b.Addr))
	})
	servers = slices.CompactFunc(servers, func(a, b lookup.Server) bool { return a.Addr == b.Addr })
	if len(servers) == 0 {
		return nil, fmt.Sprintf("Service %s/%s has no ready endpoint for DNS over UDP", dnsNamespace, dnsService)
	}
	if len(servers) > mostDNSServers {
		var others []string
		for _, s := range servers[mostDNSServers:] {
			others = append(others, s.Addr.Addr().String())
		}
		const tooMany = "at most %d addresses are asked, and these are not: %s"
		return servers[:mostDNSServers], fmt.Sprintf(tooMany, mostDNSServers, strings.Join(others, ", "))
	}
	return servers, ""
}

// dnsPort returns the number of the port for DNS over UDP: the one named dns, else the first.
func dnsPort(ports []discoveryv1.EndpointPort) (port uint16, ok bool) {
	for _, p := range ports {
		udp := p.Protocol != nil && *p.Protocol == corev1.ProtocolUDP && p.Port != nil
		if named := p.Name != nil && *p.Name == "dns"; udp && (!ok || named) {
			port, ok = uint16(*p.Port), true
		}
	}
	return port, ok
}
