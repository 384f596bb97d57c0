package rules

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var oneNode = Rule{
	ID:          "LP02",
	Name:        "one-node",
	Doc:         "All endpoints, or all but one, are on one node or in one zone, or on the node to drain.",
	Needs:       []service.Fact{service.ReplicasFact},
	ConfirmedBy: []string{"no-ready-endpoint/node-drained", "node-unreachable", "node-presumed-dead"},
	Predicts:    []string{"no-ready-endpoint/node-drained"},
	Lacks: func(s *service.State) string {
		if n, _ := s.Count(); n.Least > 1 && pinned(s, n.Least) == nil {
			return s.Missing[service.EndpointsFact]
		}
		return ""
	},
	Check: func(s *service.State) []Finding {
		count, _ := s.Count()
		n := count.Least
		if n < 2 {
			return nil // LP01's
		}
		if s.Missing[service.EndpointsFact] != "" {
			return pinned(s, n)
		}
		var found []Finding
		nodes := s.ByNode()
		for _, node := range fullestFirst(nodes) {
			if s.Node != "" && node != s.Node && nodes[node] < n {
				continue
			}
			if f, ok := onNode(s, node, nodes[node], n); ok {
				found = append(found, f)
			}
		}
		if found == nil {
			found = oneZone(s, n)
		}
		return found
	},
}

// fullestFirst returns the nodes, those with the most endpoints first.
func fullestFirst(endpoints map[string]int) []string {
	return slices.SortedFunc(maps.Keys(endpoints), func(a, b string) int {
		return cmp.Or(cmp.Compare(endpoints[b], endpoints[a]), cmp.Compare(a, b))
	})
}

// onNode returns a finding about the loss of a node with k of n endpoints.
func onNode(s *service.State, node string, k, n int) (Finding, bool) {
	const (
		lost = "if %s fails, all requests fail until new Pods are ready elsewhere. In a drain they do too, " +
			"unless a PodDisruptionBudget lets new Pods start first or the old ones serve on after SIGTERM"
		fails = "without %s, 1 of %d endpoints carries everything; " +
			"if %s fails, %d of %d requests fail until its endpoints are removed"
	)
	there := fmt.Sprintf("%d of %d: %s", k, n, strings.Join(podsOn(s, node), ", "))
	f := Finding{
		Node:     node,
		Evidence: []service.Evidence{fact("Node/"+node, "ready endpoints", there)},
		Fix: "topologySpreadConstraints over kubernetes.io/hostname with whenUnsatisfiable: DoNotSchedule, " +
			"or a required podAntiAffinity",
	}
	switch {
	case k == n:
		f.Severity, f.When = WillLose, timeline.NodeLost
		f.Prediction = fmt.Sprintf(lost, node)
	case k == n-1 && k > 1:
		f.Severity, f.When, f.ConfirmedBy = MayLose, timeline.NodeFails, []string{"node-unreachable"}
		f.Prediction = fmt.Sprintf(fails, node, n, node, k, n)
	default:
		return Finding{}, false
	}
	return f, true
}

// podsOn returns the names of a node's ready endpoints.
func podsOn(s *service.State, node string) (names []string) {
	for _, e := range s.Ready() {
		if e.Node == node {
			names = append(names, e.Pod)
		}
	}
	slices.Sort(names)
	return names
}

// oneZone returns a finding about endpoints that are all in one of several zones.
func oneZone(s *service.State, n int) []Finding {
	used, all := map[string]bool{}, map[string]bool{}
	for _, e := range s.Ready() {
		used[e.Zone] = true
	}
	for i := range s.Nodes {
		all[s.Nodes[i].Labels[corev1.LabelTopologyZone]] = true
	}
	delete(all, "")
	if len(used) != 1 || used[""] || len(all) < 2 {
		return nil
	}
	zone := slices.Collect(maps.Keys(used))[0]
	return []Finding{{
		Severity:   WillLose,
		Prediction: fmt.Sprintf("if zone %s fails, all requests fail until new Pods are ready in another", zone),
		Evidence: []service.Evidence{
			s.At("zones of ready endpoints", fmt.Sprintf("%d of %d in %s", n, n, zone)),
			fact("Nodes", "zones", strings.Join(slices.Sorted(maps.Keys(all)), ", ")),
		},
		Fix:         "topologySpreadConstraints over topology.kubernetes.io/zone",
		ConfirmedBy: []string{"node-unreachable", "node-presumed-dead"},
	}}
}

// pinned returns a finding about templates that allow a single node.
func pinned(s *service.State, n int) (found []Finding) {
	const onlyThere = "all %d Pods may run on %s only: if it fails, all requests fail until it is back, " +
		"because no new Pod can start elsewhere"
	count := map[string]int{}
	var evidence []service.Evidence
	for _, t := range s.Running() {
		node, field := podspec.PinnedTo(&t.Spec)
		if field == "nodeName" && t.Workload == nil && t.Owner != "" {
			node = "" // the scheduler chose it
		}
		count[node] += t.Count.Least
		if node != "" {
			evidence = append(evidence, t.At(field, node))
		}
	}
	for node, k := range count {
		if node == "" || k < n {
			continue
		}
		found = append(found, Finding{
			Severity:   WillLose,
			Prediction: fmt.Sprintf(onlyThere, n, node),
			Evidence:   evidence,
			Fix:        "allow more nodes than one, and spread over them",
			When:       timeline.NodeLost,
			Node:       node,
		})
	}
	return found
}
