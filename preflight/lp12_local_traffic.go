package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
)

var localTraffic = Rule{
	ID: "LP12", Name: "local-traffic", Needs: []Fact{ReplicasFact},
	ConfirmedBy: []string{"local-no-endpoint"}, When: timeline.NodeWithout, Predicts: []string{"local-no-endpoint"},
	Doc: "internalTrafficPolicy is Local, and there are nodes without a ready endpoint.",
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
			return []Finding{f}
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
