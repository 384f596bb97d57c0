package rules

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var localTraffic = Rule{
	ID:          "LP12",
	Name:        "local-traffic",
	Doc:         "internalTrafficPolicy is Local, and there are nodes without a ready endpoint.",
	ConfirmedBy: []string{"local-no-endpoint"},
	When:        timeline.NodeWithout,
	Predicts:    []string{"local-no-endpoint"},
	Lacks: func(s *service.State) string {
		if s.Knows(service.EndpointsFact) {
			return ""
		}
		return s.Lacks(service.TemplatesFact)
	},
	Check: func(s *service.State) []Finding {
		policy := s.Service.Spec.InternalTrafficPolicy
		if policy == nil || *policy != corev1.ServiceInternalTrafficPolicyLocal || isHeadless(s) {
			return nil
		}
		f := Finding{
			Severity: MayLose,
			Prediction: "requests from a node without a ready endpoint are dropped and time out; " +
				"which nodes these are is not known",
			Evidence: []service.Evidence{s.At("spec.internalTrafficPolicy", "Local")},
			Fix:      "a DaemonSet, or internalTrafficPolicy: Cluster with trafficDistribution: PreferSameNode",
		}
		switch {
		case s.Knows(service.EndpointsFact) && s.Knows(service.NodesFact):
			nodesWithout(s, &f)
		case onlyDaemonSets(s):
			eachNode(s, &f)
		}
		return []Finding{f}
	},
}

// nodesWithout adds to a finding which nodes have no endpoint, or will have none.
func nodesWithout(s *service.State, f *Finding) {
	var without []string
	has := s.ByNode()
	for _, n := range s.Nodes {
		if has[n.Name] == 0 {
			without = append(without, n.Name)
		}
	}
	slices.Sort(without)
	const (
		dropped = "requests from %d of %d nodes reach no endpoint: kube-proxy drops them, and they time out"
		drained = "during the drain of %s, requests from there are dropped once its endpoints have gone"
	)
	switch {
	case len(without) > 0:
		f.Severity = WillLose
		f.Prediction = fmt.Sprintf(dropped, len(without), len(s.Nodes))
		f.Evidence = append(f.Evidence, fact("Nodes", "without a ready endpoint", strings.Join(without, ", ")))
	case s.Node != "" && has[s.Node] > 0:
		f.Prediction = fmt.Sprintf(drained, s.Node)
	default:
		f.Prediction = "when the endpoint of a node goes, requests from that node are dropped until it is back"
	}
}

// onlyDaemonSets reports whether DaemonSets make all Pods. Then each Pod is the only one on its node.
func onlyDaemonSets(s *service.State) bool {
	other := func(t service.Template) bool { return t.Workload.Kind != "DaemonSet" }
	makers := s.Makers()
	return len(s.Pods) == 0 && s.Knows(service.TemplatesFact) && len(makers) > 0 && !slices.ContainsFunc(makers, other)
}

// eachNode adds to a finding what happens on the node of each Pod that ends.
func eachNode(s *service.State, f *Finding) {
	const (
		ends = "whenever a Pod of %s ends, except in a rollout, " +
			"requests from its node are dropped and time out until the next one there is ready"
		endsInRollouts = "whenever a Pod of %s ends, " +
			"requests from its node are dropped and time out until the next one there is ready: " +
			"in each rollout on every node, one after the other"
	)
	f.Fix = "internalTrafficPolicy: Cluster with trafficDistribution: PreferSameNode"
	for _, t := range s.Makers() {
		f.Prediction = fmt.Sprintf(ends, t.Object)
		if !surges(t.Workload) {
			f.Severity = WillLose
			f.Prediction = fmt.Sprintf(endsInRollouts, t.Object)
			f.Fix += "; or " + surge
			f.Evidence = append(f.Evidence, fact(t.Object, "spec.updateStrategy.rollingUpdate.maxSurge", "0"))
		}
	}
}

// surge is what spares a DaemonSet's nodes the gap of a rollout.
const surge = "maxSurge: 1 with maxUnavailable: 0, if two Pods can run on a node"

// surges reports whether a DaemonSet's rollout starts a node's new Pod before it ends the old one.
func surges(w *service.Workload) bool {
	none := intstr.FromInt32(0)
	r := w.Update.RollingUpdate
	return r != nil && *intstr.ValueOrDefault(r.MaxSurge, none) != none
}
