package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/timeline"
)

var localTraffic = Rule{
	ID: "LP12", Name: "local-traffic",
	ConfirmedBy: []string{"local-no-endpoint"}, When: timeline.NodeWithout, Predicts: []string{"local-no-endpoint"},
	Doc: "internalTrafficPolicy is Local, and there are nodes without a ready endpoint.",
	Lacks: func(s *State) string {
		if s.knows(EndpointsFact) {
			return ""
		}
		return s.lacks(TemplatesFact)
	},
	Check: func(s *State) []Finding {
		policy := s.Service.Spec.InternalTrafficPolicy
		if policy == nil || *policy != corev1.ServiceInternalTrafficPolicyLocal {
			return nil
		}
		f := Finding{
			Severity: MayLose, Evidence: []Evidence{{"Service/" + s.Service.Name, "spec.internalTrafficPolicy", "Local"}},
			Prediction: "requests from a node without a ready endpoint are dropped and time out; which nodes these are is not known",
			Fix:        "a DaemonSet, or internalTrafficPolicy: Cluster with trafficDistribution: PreferSameNode",
		}
		if !s.knows(EndpointsFact) || !s.knows(NodesFact) {
			return []Finding{ofEachNode(s, f)}
		}
		var without []string
		has := s.byNode()
		for _, n := range s.Nodes {
			if has[n.Name] == 0 {
				without = append(without, n.Name)
			}
		}
		slices.Sort(without)
		switch {
		case len(without) > 0:
			f.Severity, f.Prediction = WillLose, fmt.Sprintf("requests from %d of %d nodes reach no endpoint: kube-proxy drops them, and they time out", len(without), len(s.Nodes))
			f.Evidence = append(f.Evidence, Evidence{"Nodes", "without a ready endpoint", strings.Join(without, ", ")})
		case s.Node != "" && has[s.Node] > 0:
			f.Prediction = fmt.Sprintf("during the drain of %s, requests from there are dropped once its endpoints have gone", s.Node)
		default:
			f.Prediction = "when the endpoint of a node goes, requests from that node are dropped until it is back"
		}
		return []Finding{f}
	},
}

// ofEachNode says more where DaemonSets make all of the Pods: then it is the node of each Pod that is replaced.
func ofEachNode(s *State, f Finding) Finding {
	if len(s.Pods) > 0 || !s.knows(TemplatesFact) {
		return f
	}
	for _, t := range s.makers() {
		if t.workload.Kind != "DaemonSet" {
			return f
		}
		f.Prediction = fmt.Sprintf("whenever a Pod of %s ends, but for a rollout, requests from its node are dropped and time out until the next one there is ready", t.object)
		if r := t.workload.Update.RollingUpdate; r == nil || *intstr.ValueOrDefault(r.MaxSurge, intstr.FromInt32(0)) == intstr.FromInt32(0) {
			f.Severity = WillLose
			f.Prediction = fmt.Sprintf("whenever a Pod of %s ends, requests from its node are dropped and time out until the next one there is ready: in each rollout on every node, one after the other", t.object)
			f.Evidence = append(f.Evidence, Evidence{t.object, "spec.updateStrategy.rollingUpdate.maxSurge", "0"})
		}
		f.Fix = "internalTrafficPolicy: Cluster with trafficDistribution: PreferSameNode; or maxSurge: 1 with maxUnavailable: 0, if two Pods can run on a node"
	}
	return f
}
