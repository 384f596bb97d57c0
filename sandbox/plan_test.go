package main

import (
	"net/netip"
	"strings"
	"testing"
)

func TestNoTwoAddressesCollide(t *testing.T) {
	seen := map[string]string{controlPlaneAddr: "control plane"}
	for _, h := range hosts {
		seen[h.Addr.String()], seen[h.Netns], seen[h.Link()] = h.Name, h.Name, h.Name
		if !ourNetns.MatchString(h.Netns) {
			t.Errorf("down would not know %s", h.Netns)
		}
	}
	for i, addr := 0, netip.MustParseAddr(balancerFirst); i < balancerCount; i, addr = i+1, addr.Next() {
		seen[addr.String()] = "the load balancer"
	}
	for _, n := range planNodes(maxNodes) {
		for what, addr := range map[string]string{"address": n.Addr.String(), "pods": n.PodCIDR.String(),
			"netns": n.Netns, "link": n.Link()} {
			if other, taken := seen[addr]; taken {
				t.Errorf("%s of %s is that of %s: %s", what, n.Name, other, addr)
			}
			seen[addr] = what + " of " + n.Name
		}
		if len(n.Link()) > 15 {
			t.Errorf("%s is longer than an interface name may be", n.Link())
		}
		if !ourNetns.MatchString(n.Netns) {
			t.Errorf("down would not know %s", n.Netns)
		}
	}
}

func TestEveryNodeRoutesToEveryOtherNodesPods(t *testing.T) {
	nodes := planNodes(3)
	script := ipScript(nodeLines(nodes[1], nodes))
	for _, want := range []string{
		"address add 10.200.0.12/24 dev eth0\n",
		"route add default via 10.200.0.1\n",
		"route add 10.244.1.0/24 via 10.200.0.11 dev eth0\n",
		"route add 10.244.3.0/24 via 10.200.0.13 dev eth0\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("node2 lacks %q in\n%s", want, script)
		}
	}
	if strings.Contains(script, "10.244.2.0/24") {
		t.Errorf("node2 routes its own pods elsewhere:\n%s", script)
	}
}

func TestDualStackAddressesStandBesideThoseOfIPv4(t *testing.T) {
	lines := dualStackLines(planNodes(3))
	if len(lines) != len(namespaces(planNodes(3))) {
		t.Errorf("IPv6 in %d namespaces of %d", len(lines), len(namespaces(planNodes(3))))
	}
	script := ipScript(lines["lapse-node2"])
	for _, want := range []string{
		"address add fd00:10:200::12/64 dev eth0 nodad\n", "route add default via fd00:10:200::1 dev eth0\n",
		"route add fd00:10:244:1::/64 via fd00:10:200::11 dev eth0\n",
		"route add fd00:10:244:3::/64 via fd00:10:200::13 dev eth0\n",
	} {
		if !strings.Contains(script, want) {
			t.Errorf("node2 lacks %q in\n%s", want, script)
		}
	}
	if strings.Contains(script, "fd00:10:244:2::") {
		t.Errorf("node2 routes its own pods elsewhere:\n%s", script)
	}
	pods, services := netip.MustParsePrefix(podRange6), netip.MustParsePrefix(serviceRange6)
	for _, n := range planNodes(maxNodes) {
		if !pods.Contains(n.PodCIDR6.Addr()) {
			t.Errorf("%s is not of %s", n.PodCIDR6, pods)
		}
	}
	if !services.Contains(netip.MustParseAddr(dnsServiceAddr6)) {
		t.Errorf("%s is not of %s", dnsServiceAddr6, services)
	}
}

func TestVethPairsAreMadeInsideNamespaces(t *testing.T) {
	for _, line := range controlPlaneLines(planNodes(2)) {
		if strings.Contains(line, "veth") && !strings.Contains(line, " netns lapse-") {
			t.Errorf("%q would put an end into the wrong namespace", line)
		}
	}
}

func TestTagTellsWhoseANamespaceIs(t *testing.T) {
	if got := parseAlias([]byte(`[{"ifname":"lo","ifalias":"/var/lib/lapse-sandbox"}]`)); got != "/var/lib/lapse-sandbox" {
		t.Errorf("alias %q", got)
	}
	if got := parseAlias([]byte(`[{"ifname":"lo"}]`)) + parseAlias(nil); got != "" {
		t.Errorf("alias %q of an untagged one", got)
	}
}
