package preflight

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lapse/timeline"
)

var oneNode = Rule{
	ID: "LP02", Name: "one-node", Needs: []Fact{ReplicasFact},
	Doc:         "All endpoints, or all but one, are on one node or in one zone, or on the node to drain.",
	ConfirmedBy: []string{"no-ready-endpoint/node-drained", "node-unreachable", "node-presumed-dead"}, Predicts: []string{"no-ready-endpoint/node-drained"},
	Lacks: func(s *State) string {
		if n, _ := s.count(); n.least > 1 && pinned(s, n.least) == nil {
			return s.Missing[EndpointsFact]
		}
		return ""
	},
	Check: func(s *State) []Finding {
		count, _ := s.count()
		n := count.least
		if n < 2 {
			return nil // LP01's
		}
		if s.Missing[EndpointsFact] != "" {
			return pinned(s, n)
		}
		var found []Finding
		nodes := s.byNode()
		for _, node := range slices.SortedFunc(maps.Keys(nodes), func(a, b string) int { return cmp.Or(cmp.Compare(nodes[b], nodes[a]), cmp.Compare(a, b)) }) {
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

// onNode is what the loss of a node means that has k of n endpoints.
func onNode(s *State, node string, k, n int) (Finding, bool) {
	evidence := []Evidence{{"Node/" + node, "ready endpoints", fmt.Sprintf("%d of %d: %s", k, n, strings.Join(s.podsOn(node), ", "))}}
	const fix = "topologySpreadConstraints over kubernetes.io/hostname with whenUnsatisfiable: DoNotSchedule, or a required podAntiAffinity"
	switch {
	case k == n:
		return Finding{Severity: WillLose, When: timeline.NodeLost, Node: node, Evidence: evidence, Fix: fix, Prediction: fmt.Sprintf("if %s fails, all requests fail until new Pods are ready elsewhere. In a drain they do too, unless a PodDisruptionBudget lets new Pods start first or the old ones serve on after SIGTERM", node)}, true
	case k == n-1 && k > 1:
		return Finding{Severity: MayLose, ConfirmedBy: []string{"node-unreachable"}, When: timeline.NodeFails, Node: node, Evidence: evidence, Fix: fix, Prediction: fmt.Sprintf("without %s, 1 of %d endpoints carries everything; if %s fails, %d of %d requests fail until its endpoints are removed", node, n, node, k, n)}, true
	}
	return Finding{}, false
}

func (s *State) podsOn(node string) (names []string) {
	for _, e := range s.ready() {
		if e.Node == node {
			names = append(names, e.Pod)
		}
	}
	slices.Sort(names)
	return names
}

// oneZone is about endpoints that are all in one of several zones.
func oneZone(s *State, n int) []Finding {
	zones, nodes := map[string]bool{}, map[string]bool{}
	for _, e := range s.ready() {
		zones[e.Zone] = true
	}
	for i := range s.Nodes {
		nodes[zoneOf(&s.Nodes[i])] = true
	}
	delete(nodes, "")
	if len(zones) != 1 || zones[""] || len(nodes) < 2 {
		return nil
	}
	zone := slices.Collect(maps.Keys(zones))[0]
	return []Finding{{
		Severity: WillLose, ConfirmedBy: []string{"node-unreachable", "node-presumed-dead"}, Prediction: fmt.Sprintf("if zone %s fails, all requests fail until new Pods are ready in another", zone),
		Evidence: []Evidence{{"Service/" + s.Service.Name, "zones of ready endpoints", fmt.Sprintf("%d of %d in %s", n, n, zone)}, {"Nodes", "zones", strings.Join(slices.Sorted(maps.Keys(nodes)), ", ")}},
		Fix:      "topologySpreadConstraints over topology.kubernetes.io/zone",
	}}
}

// pinned is about templates that allow a single node.
func pinned(s *State, n int) (found []Finding) {
	only := map[string]int{}
	var evidence []Evidence
	for _, t := range s.running() {
		node, field := pinnedTo(&t.spec)
		if field == "nodeName" && t.workload == nil && t.owner != "" {
			node = "" // where a Pod runs that the scheduler placed
		}
		only[node] += t.count.least
		if node != "" {
			evidence = append(evidence, t.at(field, node))
		}
	}
	for node, k := range only {
		if node == "" || k < n {
			continue
		}
		found = append(found, Finding{
			Severity: WillLose, When: timeline.NodeLost, Node: node, Evidence: evidence, Fix: "allow more nodes than one, and spread over them",
			Prediction: fmt.Sprintf("all %d Pods may run on %s only: if it fails, all requests fail until it is back, for no new Pod can start elsewhere", n, node),
		})
	}
	return found
}
