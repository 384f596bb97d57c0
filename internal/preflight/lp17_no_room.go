package preflight

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var noRoom = Rule{
	ID: "LP17", Name: "no-room", Needs: []Fact{EndpointsFact, NodesFact, PodsFact},
	Doc: "No other node takes the Pods of a node: cordoned, tainted, or not selected. What Pods request is not added up.",
	Check: func(s *State) (found []Finding) {
		byNode := map[string]*corev1.Pod{}
		for i := range s.Pods {
			if p := &s.Pods[i]; p.Spec.NodeName != "" && (s.Node == "" || p.Spec.NodeName == s.Node) && controllerOf(p) != "DaemonSet" {
				byNode[p.Spec.NodeName] = p
			}
		}
		for _, node := range slices.Sorted(maps.Keys(byNode)) {
			p := byNode[node]
			others, refuse := s.othersRefuse(node, &p.Spec)
			if !refuse {
				continue
			}
			found = append(found, Finding{
				Severity: MayLose, Prediction: fmt.Sprintf("a Pod that is evicted from %s stays Pending: no other node takes it", node),
				Evidence: []Evidence{{"Pod/" + p.Name, "spec.nodeName", node}, others}, Fix: "uncordon or add a node that the Pods may run on",
			})
		}
		return found
	},
}

// othersRefuse reports whether no node but this one takes Pods of a spec, and says why.
func (s *State) othersRefuse(node string, spec *corev1.PodSpec) (why Evidence, refuse bool) {
	var refused []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Name == node {
			continue
		}
		reason := refuses(n, spec)
		if reason == "" {
			return Evidence{}, false
		}
		refused = append(refused, n.Name+" ("+reason+")")
	}
	return Evidence{"Nodes", "others", orNone(strings.Join(refused, ", "))}, true
}

// refuses says why a node takes no Pods of this spec, by what is easily seen; "" if it may.
func refuses(n *corev1.Node, spec *corev1.PodSpec) string {
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(spec.Tolerations, func(o corev1.Toleration) bool { return tolerates(&o, t) }) {
			return "taint " + t.Key
		}
	}
	for key, value := range spec.NodeSelector {
		if n.Labels[key] != value {
			return "no label " + key + "=" + value
		}
	}
	if only, _ := pinnedTo(&corev1.PodSpec{Affinity: spec.Affinity}); only != "" && only != n.Name && only != n.Labels[corev1.LabelHostname] {
		return "nodeAffinity to " + only
	}
	return ""
}

// tolerates follows the scheduler; an operator it does not know tolerates, so that nothing is claimed.
// https://kubernetes.io/docs/concepts/scheduling-eviction/taint-and-toleration/
func tolerates(o *corev1.Toleration, t *corev1.Taint) bool {
	if o.Effect != "" && o.Effect != t.Effect || o.Key != "" && o.Key != t.Key {
		return false
	}
	switch o.Operator {
	case "", corev1.TolerationOpEqual:
		return o.Value == t.Value && o.Key != ""
	}
	return true
}
