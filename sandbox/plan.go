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
const (
	controlPlaneAddr = "10.200.0.1"
	machineBits      = 24
	podRange         = "10.244.0.0/16"
	serviceRange     = "10.96.0.0/16"
	apiServiceAddr   = "10.96.0.1"
	dnsServiceAddr   = "10.96.0.10"
	apiPort          = "6443"
	clusterDomain    = "cluster.local"

	controlPlane      = "cp" // its name in `sandbox exec`
	controlPlaneNetns = "lapse-cp"
	bridgeName        = "lapse0"
	maxNodes          = 20
)

var ourNetns = regexp.MustCompile(`^lapse-(cp|node[0-9]+)$`)

// A node is one machine of the cluster.
type node struct {
	Name    string // node1, as kubectl shows it
	Netns   string
	Addr    netip.Addr
	PodCIDR netip.Prefix
	Uptime  time.Duration // by how much it has been up longer than this machine, by the clocks of its Pods
}

// PodGateway is the node's own address on its pod bridge.
func (n node) PodGateway() netip.Addr { return n.PodCIDR.Addr().Next() }

// Link is the end of the node's cable in the control plane's namespace.
func (n node) Link() string { return "to-" + n.Name }

func planNodes(count int) []node {
	nodes := make([]node, count)
	for i := range nodes {
		number := byte(i + 1)
		name := fmt.Sprintf("node%d", number)
		nodes[i] = node{
			Name:    name,
			Netns:   "lapse-" + name,
			Addr:    netip.AddrFrom4([4]byte{10, 200, 0, 10 + number}),
			PodCIDR: netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, number, 0}), 24),
			Uptime:  time.Duration(number) * (time.Hour + 7*time.Second),
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
