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
)

var noRoom = Rule{
	ID:   "LP17",
	Name: "no-room",
	Doc: "No other node takes the Pods of a node: cordoned, tainted, or not selected. " +
		"What Pods request is not added up.",
	Needs:     []service.Fact{service.EndpointsFact, service.NodesFact, service.PodsFact},
	AboutPods: true,
	Check: func(s *service.State) (found []Finding) {
		const pending = "a Pod that is evicted from %s stays Pending: no other node takes it"
		byNode := map[string]*corev1.Pod{}
		for i := range s.Pods {
			p := &s.Pods[i]
			node := p.Spec.NodeName
			if node != "" && (s.Node == "" || node == s.Node) && service.ControllerOf(p) != "DaemonSet" {
				byNode[node] = p
			}
		}
		for _, node := range slices.Sorted(maps.Keys(byNode)) {
			p := byNode[node]
			others, refuse := othersRefuse(s, node, &p.Spec)
			if !refuse {
				continue
			}
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(pending, node),
				Evidence:   []service.Evidence{fact("Pod/"+p.Name, "spec.nodeName", node), others},
				Fix:        "uncordon or add a node that the Pods may run on",
			})
		}
		return found
	},
}

// othersRefuse reports whether no node but this one takes Pods of a spec, and says why.
func othersRefuse(s *service.State, node string, spec *corev1.PodSpec) (why service.Evidence, refuse bool) {
	var refused []string
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Name == node {
			continue
		}
		reason := refuses(n, spec)
		if reason == "" {
			return service.Evidence{}, false
		}
		refused = append(refused, n.Name+" ("+reason+")")
	}
	return fact("Nodes", "others", cmp.Or(strings.Join(refused, ", "), "none")), true
}

// refuses says why a node takes no Pods of this spec, by what is easily seen; "" if it may.
func refuses(n *corev1.Node, spec *corev1.PodSpec) string {
	if n.Spec.Unschedulable {
		return "cordoned"
	}
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; !tolerated(spec, t) {
			return "taint " + t.Key
		}
	}
	for key, value := range spec.NodeSelector {
		if n.Labels[key] != value {
			return "no label " + key + "=" + value
		}
	}
	only, _ := podspec.PinnedTo(&corev1.PodSpec{Affinity: spec.Affinity})
	if only != "" && only != n.Name && only != n.Labels[corev1.LabelHostname] {
		return "nodeAffinity to " + only
	}
	return ""
}

// tolerated reports whether Pods of this spec may run on a node in spite of a taint.
func tolerated(spec *corev1.PodSpec, t *corev1.Taint) bool {
	if t.Effect == corev1.TaintEffectPreferNoSchedule {
		return true
	}
	return slices.ContainsFunc(spec.Tolerations, func(o corev1.Toleration) bool { return tolerates(&o, t) })
}

// tolerates follows the scheduler. An unknown operator tolerates: then nothing is claimed.
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
