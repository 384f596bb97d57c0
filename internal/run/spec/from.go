package spec

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/deploy"
	"lapse/internal/kubectl"
	"lapse/internal/run/exit"
)

// FromHint shows how nodes are chosen.
const FromHint = "as in --from all, --from 3, --from node1,node2 or --from topology.kubernetes.io/zone=a"

// checkFrom checks --from as far as possible without the cluster.
func checkFrom(o *Options) error {
	if o.ProberWait <= 0 && (o.From != "" || o.WasGiven("wait")) {
		return exit.Usagef("as in --wait 1m", "wait %v: must be greater than 0", o.ProberWait)
	}
	if o.From == "" {
		if o.YAML && o.WasGiven("wait") {
			return exit.Usagef(FromHint, "--wait is for the probers of --from, and there is none")
		}
		if o.AgentListen == "" && o.WasGiven("min-node-coverage") {
			return exit.Usagef(FromHint, "--min-node-coverage is for the nodes of --from, and there is none")
		}
		return nil
	}
	if n, err := strconv.Atoi(o.From); err == nil && n < 1 {
		return exit.Usagef(FromHint, "from %s: at least one node", o.From)
	}
	if _, _, err := Placed(o.From); err != nil {
		return err
	}
	return checkDaemonSets(o)
}

// IsSelector reports whether --from selects nodes by labels.
func IsSelector(from string) bool { return strings.ContainsAny(from, "=!()") }

// Placed returns what --from says to a DaemonSet: the names of nodes, or a selector of their labels.
func Placed(from string) (names []string, selected labels.Selector, err error) {
	switch {
	case from == "all":
		return nil, labels.Everything(), nil
	case !IsSelector(from):
		return NamedNodes(from), nil, nil
	}
	if selected, err = labels.Parse(from); err != nil {
		err = exit.Usagef(FromHint, "from %q: %w", from, err)
	}
	return nil, selected, err
}

// checkDaemonSets refuses a wrapped `kubectl drain` that would fail because of the probers' Pods.
func checkDaemonSets(o *Options) error {
	words := kubectl.Unwrap(o.Command)
	if len(words) == 0 || !kubectl.Is(words[0]) {
		return nil
	}
	command, err := kubectl.Read(words)
	ignored := slices.Contains(words, "--ignore-daemonsets") || slices.Contains(words, "--ignore-daemonsets=true")
	if err != nil || command.Verb != "drain" || ignored {
		return nil
	}
	return exit.Usagef("add --ignore-daemonsets to the command",
		"`kubectl drain` refuses nodes with Pods of a DaemonSet, and --from %s puts such Pods there", o.From)
}

// ChosenNodes returns the names of the nodes that from chooses, of those that a prober can run on. If from is a number,
// it chooses the most informative nodes.
func ChosenNodes(from string, nodes []corev1.Node, drained []string) ([]string, error) {
	slices.SortFunc(nodes, func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	all := NodeNamesOf(nodes)
	nodes = slices.DeleteFunc(nodes, func(node corev1.Node) bool { return !deploy.CanProbe(&node) })
	able := NodeNamesOf(nodes)
	n, err := strconv.Atoi(from)
	switch {
	case from == "all" && len(all) == 0:
		return nil, exit.Usagef("does `kubectl get nodes` list any?", "--from all: the cluster has no nodes")
	case IsSelector(from) && len(all) == 0:
		return nil, exit.Usagef("`kubectl get nodes --show-labels` lists them",
			"--from %q: no node has these labels", from)
	case from == "all" || IsSelector(from):
		if len(able) == 0 {
			return nil, unable(from, all)
		}
		return able, nil
	case err == nil && n > len(able):
		return nil, exit.Usagef("--from all takes them all",
			"--from %d: the cluster has %d nodes that a prober can run on", n, len(able))
	case err == nil:
		return mostInformative(nodes, drained)[:n], nil
	}
	named := NamedNodes(from)
	for _, name := range named {
		if !slices.Contains(all, name) {
			return nil, exit.Usagef("the cluster has "+strings.Join(all, ", "),
				"--from %s: there is no node %q", from, name)
		}
		if !slices.Contains(able, name) {
			return nil, unable(from, []string{name})
		}
	}
	return named, nil
}

func unable(from string, nodes []string) error {
	return exit.Usagef("it needs a node with Linux that is neither Fargate's nor a virtual kubelet",
		"--from %s: no prober can run on %s", from, strings.Join(nodes, ", "))
}

// NamedNodes returns the names in a list of nodes.
func NamedNodes(from string) []string {
	named := strings.Split(from, ",")
	for i, name := range named {
		named[i] = strings.TrimPrefix(strings.TrimSpace(name), "node/")
	}
	slices.Sort(named)
	return slices.Compact(named)
}

// NodeNamesOf returns the names of nodes.
func NodeNamesOf(nodes []corev1.Node) (names []string) {
	for _, node := range nodes {
		names = append(names, node.Name)
	}
	return names
}

// mostInformative returns the names of nodes in this order: the drained ones, one of each zone, the others.
func mostInformative(nodes []corev1.Node, drained []string) []string {
	seen := map[string]int{}
	rank := map[string]int{}
	for _, node := range nodes {
		zone := node.Labels[corev1.LabelTopologyZone]
		if rank[node.Name] = 1 + seen[zone]; slices.Contains(drained, node.Name) {
			rank[node.Name] = 0
		}
		seen[zone]++
	}
	names := NodeNamesOf(nodes)
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(rank[a], rank[b]) })
	return names
}
