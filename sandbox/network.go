package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"lapse/sandbox/command"
)

const netnsDir = "/run/netns" // where iproute2 keeps named network namespaces

func netnsPath(name string) string { return filepath.Join(netnsDir, name) }

// buildNetwork makes the namespaces, joins them by a bridge in the control plane's namespace and
// routes each node's pods to that node. No interface ever exists in the host's namespace: veth pairs
// are created inside.
func buildNetwork(ctx context.Context, owner string, nodes []node, dualStack bool) error {
	for _, ns := range namespaces(nodes) {
		if err := command.Run(ctx, "", "ip", "netns", "add", ns); err != nil {
			return err
		}
		if err := command.Run(ctx, ipScript(ownerLines(owner)), "ip", "-n", ns, "-batch", "-"); err != nil {
			return err
		}
	}
	err := command.Run(ctx, ipScript(controlPlaneLines(nodes)), "ip", "-n", controlPlaneNetns, "-batch", "-")
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := command.Run(ctx, ipScript(nodeLines(n, nodes)), "ip", "-n", n.Netns, "-batch", "-"); err != nil {
			return err
		}
	}
	for _, h := range hosts {
		if err := command.Run(ctx, ipScript(hostLines(h, nodes)), "ip", "-n", h.Netns, "-batch", "-"); err != nil {
			return err
		}
	}
	for _, ns := range namespaces(nodes) {
		if err := inNetns(ns, func() error { return setSysctls(dualStack) }); err != nil {
			return fmt.Errorf("sysctls of %s: %w", ns, err)
		}
	}
	if !dualStack {
		return nil
	}
	for ns, lines := range dualStackLines(nodes) {
		if err := command.Run(ctx, ipScript(lines), "ip", "-6", "-n", ns, "-batch", "-"); err != nil {
			return err
		}
	}
	return nil
}

func namespaces(nodes []node) []string {
	names := []string{controlPlaneNetns}
	for _, h := range hosts {
		names = append(names, h.Netns)
	}
	for _, n := range nodes {
		names = append(names, n.Netns)
	}
	return names
}

// ownerLines tag a namespace with the state directory it belongs to: the tag lives and dies with the
// namespace, and tells a leftover from somebody else's sandbox.
func ownerLines(owner string) []string {
	return []string{"link set lo alias " + owner, "link set lo up"}
}

func controlPlaneLines(nodes []node) []string {
	lines := []string{
		"link add " + bridgeName + " type bridge",
		fmt.Sprintf("address add %s/%d dev %s", controlPlaneAddr, machineBits, bridgeName),
		"link set " + bridgeName + " up",
	}
	for _, h := range hosts {
		lines = append(lines, cableLines(h.Link(), h.Netns)...)
	}
	for _, n := range nodes {
		lines = append(lines, cableLines(n.Link(), n.Netns)...)
		lines = append(lines, fmt.Sprintf("route add %s via %s dev %s onlink", n.PodCIDR, n.Addr, bridgeName))
	}
	return lines
}

// cableLines join a namespace to the bridge.
func cableLines(link, netns string) []string {
	return []string{
		fmt.Sprintf("link add %s type veth peer name eth0 netns %s", link, netns),
		fmt.Sprintf("link set %s master %s", link, bridgeName),
		fmt.Sprintf("link set %s up", link),
	}
}

// hostLines returns the addresses and routes of a machine that is no node. As in the network of a cloud, it reaches
// the addresses of Pods.
func hostLines(h host, nodes []node) []string {
	lines := []string{
		fmt.Sprintf("address add %s/%d dev eth0", h.Addr, machineBits),
		"link set eth0 up",
	}
	for _, n := range nodes {
		lines = append(lines, fmt.Sprintf("route add %s via %s dev eth0", n.PodCIDR, n.Addr))
	}
	return lines
}

// nodeLines include a default route, so that a connection to a Service address from the node itself has a
// route before kube-proxy's rules rewrite it. The control plane, which has no way out, answers
// "unreachable" for everything else.
func nodeLines(n node, all []node) []string {
	lines := []string{
		fmt.Sprintf("address add %s/%d dev eth0", n.Addr, machineBits),
		"link set eth0 up",
		"route add default via " + controlPlaneAddr,
	}
	for _, other := range all {
		if other.Name != n.Name {
			lines = append(lines, fmt.Sprintf("route add %s via %s dev eth0", other.PodCIDR, other.Addr))
		}
	}
	return lines
}

// dualStackLines returns what adds IPv6 to each namespace. Duplicates of the addresses are not looked for (nodad):
// there can be none, and that would take a second.
func dualStackLines(nodes []node) map[string][]string {
	routes := func(but, dev string) (lines []string) {
		for _, n := range nodes {
			if n.Name != but {
				lines = append(lines, fmt.Sprintf("route add %s via %s dev %s", n.PodCIDR6, n.Addr6, dev))
			}
		}
		return lines
	}
	address := func(addr, dev string) string {
		return fmt.Sprintf("address add %s/%d dev %s nodad", addr, machineBits6, dev)
	}
	all := map[string][]string{controlPlaneNetns: append([]string{address(controlPlaneAddr6, bridgeName)},
		routes("", bridgeName)...)}
	for _, h := range hosts {
		all[h.Netns] = append([]string{address(h.Addr6.String(), "eth0")}, routes("", "eth0")...)
	}
	for _, n := range nodes {
		lines := []string{address(n.Addr6.String(), "eth0"),
			"route add default via " + controlPlaneAddr6 + " dev eth0"}
		all[n.Netns] = append(lines, routes(n.Name, "eth0")...)
	}
	return all
}

func ipScript(lines []string) string { return strings.Join(lines, "\n") + "\n" }

// setSysctls runs inside a namespace; /proc/sys/net shows the namespace of the thread that opens it.
func setSysctls(dualStack bool) error {
	on := []string{"net/ipv4/ip_forward"}
	if hasBridgeFilter() {
		on = append(on, "net/bridge/bridge-nf-call-iptables")
	}
	var off []string
	if dualStack {
		on = append(on, "net/ipv6/conf/all/forwarding", "net/ipv6/conf/default/forwarding")
		if hasBridgeFilter() {
			on = append(on, "net/bridge/bridge-nf-call-ip6tables")
		}
		// A node's end of a new Pod's cable has its address at once. Else it asks for nothing meanwhile: requests to
		// a Pod that is ready are lost for a second or two.
		off = append(off, "net/ipv6/conf/default/accept_dad")
	}
	return errors.Join(writeSysctls(on, "1"), writeSysctls(off, "0"))
}

func writeSysctls(names []string, value string) error {
	for _, name := range names {
		if err := os.WriteFile(filepath.Join("/proc/sys", name), []byte(value), 0); err != nil {
			return err
		}
	}
	return nil
}

// hasBridgeFilter: is br_netfilter there? Two pods of one node sit on one bridge. When one reaches the other
// through a Service, the reply must come back through the node's NAT and not straight over the
// bridge; br_netfilter sees to that. Without it pods get point-to-point links instead.
func hasBridgeFilter() bool {
	_, err := os.Stat("/proc/sys/net/bridge/bridge-nf-call-iptables")
	return err == nil
}

// netnsOwners maps each existing lapse-* namespace to the state directory it is tagged with ("" if none).
func netnsOwners(ctx context.Context) map[string]string {
	entries, _ := os.ReadDir(netnsDir)
	owners := map[string]string{}
	for _, e := range entries {
		if ourNetns.MatchString(e.Name()) {
			owners[e.Name()] = netnsOwner(ctx, e.Name())
		}
	}
	return owners
}

func netnsOwner(ctx context.Context, name string) string {
	out, err := exec.CommandContext(ctx, "ip", "-n", name, "-json", "link", "show", "lo").Output()
	if err != nil {
		return ""
	}
	return parseAlias(out)
}

func parseAlias(ipJSON []byte) string {
	var links []struct {
		Alias string `json:"ifalias"`
	}
	if json.Unmarshal(ipJSON, &links) != nil || len(links) == 0 {
		return ""
	}
	return links[0].Alias
}

func deleteNetns(ctx context.Context, name string) error {
	err := command.Run(ctx, "", "ip", "netns", "delete", name)
	if err != nil { // half-made: a plain file that never became a namespace
		os.Remove(netnsPath(name))
	}
	if _, gone := os.Stat(netnsPath(name)); os.IsNotExist(gone) {
		return nil
	}
	return err
}
