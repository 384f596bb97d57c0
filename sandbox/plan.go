package main

import (
	"fmt"
	"net/netip"
	"regexp"
	"time"
)

// The address plan. None of these addresses exists outside the sandbox's own network namespaces, so
// they cannot collide with anything on the host.
//
//	lapse-cp      bridge lapse0 10.200.0.1     etcd, API server, scheduler, controllers, CoreDNS
//	lapse-node1   eth0 10.200.0.11             pods 10.244.1.0/24
//	lapse-node2   eth0 10.200.0.12             pods 10.244.2.0/24
//	lapse-lb      eth0 10.200.0.2              the load balancer and the ingress; Services get 10.200.0.201 and so on
//	lapse-outside eth0 10.200.0.3              a client that is no node: it has no routes to Services
//
// With --families ipv4,ipv6 each has an address of IPv6 as well, with the same last number: fd00:10:200::11. Pods of
// node1 are in fd00:10:244:1::/64, Services in fd00:10:96::/112.
const (
	controlPlaneAddr = "10.200.0.1"
	machineBits      = 24
	podRange         = "10.244.0.0/16"
	serviceRange     = "10.96.0.0/16"
	apiServiceAddr   = "10.96.0.1"
	dnsServiceAddr   = "10.96.0.10"
	apiPort          = "6443"
	clusterDomain    = "cluster.local"

	controlPlaneAddr6 = "fd00:10:200::1"
	machineBits6      = 64
	podRange6         = "fd00:10:244::/56"
	serviceRange6     = "fd00:10:96::/112"
	dnsServiceAddr6   = "fd00:10:96::10"

	controlPlane      = "cp" // its name in `sandbox exec`
	controlPlaneNetns = "lapse-cp"
	bridgeName        = "lapse0"
	maxNodes          = 20

	balancerFirst  = "10.200.0.201" // of the load balancer's addresses
	balancerFirst6 = "fd00:10:200::201"
	balancerCount  = 40
)

var ourNetns = regexp.MustCompile(`^lapse-(cp|lb|outside|node[0-9]+)$`)

// A host is a machine of the network that is no node.
type host struct {
	Name  string // in `sandbox exec`
	Netns string
	Addr  netip.Addr
	Addr6 netip.Addr
}

var (
	balancerHost = host{"lb", "lapse-lb", netip.MustParseAddr("10.200.0.2"), netip.MustParseAddr("fd00:10:200::2")}
	outsideHost  = host{"outside", "lapse-outside", netip.MustParseAddr("10.200.0.3"),
		netip.MustParseAddr("fd00:10:200::3")}
	hosts = []host{balancerHost, outsideHost}
)

func (h host) Link() string { return "to-" + h.Name }

// A node is one machine of the cluster.
type node struct {
	Name     string // node1, as kubectl shows it
	Netns    string
	Addr     netip.Addr
	PodCIDR  netip.Prefix
	Addr6    netip.Addr // used with --families ipv4,ipv6 only, as is PodCIDR6
	PodCIDR6 netip.Prefix
	Uptime   time.Duration // by how much it has been up longer than this machine, by the clocks of its Pods
}

// PodGateway returns the node's own address on its pod bridge.
func (n node) PodGateway() netip.Addr { return n.PodCIDR.Addr().Next() }

// Link returns the end of the node's cable in the control plane's namespace.
func (n node) Link() string { return "to-" + n.Name }

func planNodes(count int) []node {
	nodes := make([]node, count)
	for i := range nodes {
		number := byte(i + 1)
		name := fmt.Sprintf("node%d", number)
		nodes[i] = node{
			Name:     name,
			Netns:    "lapse-" + name,
			Addr:     netip.AddrFrom4([4]byte{10, 200, 0, 10 + number}),
			PodCIDR:  netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, number, 0}), 24),
			Addr6:    netip.MustParseAddr(fmt.Sprintf("fd00:10:200::%d", 10+number)),
			PodCIDR6: netip.MustParsePrefix(fmt.Sprintf("fd00:10:244:%d::/64", number)),
			Uptime:   time.Duration(number) * (time.Hour + 7*time.Second),
		}
	}
	return nodes
}

func findNode(nodes []node, name string) (node, bool) {
	for _, n := range nodes {
		if n.Name == name {
			return n, true
		}
	}
	return node{}, false
}
