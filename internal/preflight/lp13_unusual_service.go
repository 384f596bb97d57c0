package preflight

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var unusualService = Rule{
	ID: "LP13", Name: "unusual-service",
	Doc: "Session affinity, publishNotReadyAddresses, externalTrafficPolicy Local, no selector, ExternalName, or headless.",
	Check: func(s *State) (found []Finding) {
		spec := &s.Service.Spec
		add := func(severity Severity, when timeline.Disturbance, causes []string, field, value, prediction, fix string) {
			found = append(found, Finding{When: when, ConfirmedBy: causes, Severity: severity, Prediction: prediction, Evidence: []Evidence{{"Service/" + s.Service.Name, field, value}}, Fix: fix})
		}
		if spec.SessionAffinity == corev1.ServiceAffinityClientIP {
			add(MayLose, timeline.PodEnds, staleRoutes, "spec.sessionAffinity", fmt.Sprintf("ClientIP for %s", quantity.Span(affinity(spec))),
				fmt.Sprintf("a client stays with one Pod: where routes outlive that Pod (%s), all of its requests fail, not only a share", s.RouteLag.words()), "no affinity, if the application can do without; else make Pods end later than their routes (LP05)")
		}
		if spec.PublishNotReadyAddresses {
			add(MayLose, timeline.PodStarts, []string{"startup-race"}, "spec.publishNotReadyAddresses", "true", "Pods that are not ready, or have not started to listen, are sent requests", "leave it out; a headless Service of its own is enough for peers to find each other")
		}
		if spec.Type == corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			add(MayLose, timeline.PodEnds, append([]string{"lb-drain-gap"}, staleRoutes...), "spec.externalTrafficPolicy", "Local",
				"when the last Pod on a node ends, the load balancer sends connections there until its health checks have failed: for its interval times its threshold, which are not known here",
				"have Pods serve on after SIGTERM for longer than that; or more than one Pod on each node, and a load balancer that checks often")
		}
		if (spec.Type == corev1.ServiceTypeNodePort || len(spec.ExternalIPs) > 0) && spec.Type != corev1.ServiceTypeLoadBalancer && spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			add(MayLose, "", []string{"local-no-endpoint", "node-port-unreachable"}, "spec.externalTrafficPolicy", "Local",
				"requests from outside to a node without a ready endpoint are dropped and time out: which nodes these are changes with each Pod that moves",
				"externalTrafficPolicy: Cluster, a DaemonSet, or a load balancer that asks each node whether it has an endpoint")
		}
		switch {
		case spec.Type == corev1.ServiceTypeExternalName:
			add(Blind, "", nil, "spec.type", "ExternalName", "the Service only names "+spec.ExternalName+": nothing is known of what answers there", "measure what answers there: lapse run svc/"+s.Service.Name+":PORT")
		case len(spec.Selector) == 0:
			add(Blind, "", nil, "spec.selector", "none", "somebody else makes its endpoints: nothing is known of what ends or replaces them", "give it a selector; or measure it: its endpoints and their changes are seen")
		case spec.ClusterIP == corev1.ClusterIPNone:
			add(MayLose, "", nil, "spec.clusterIP", "None", "headless: clients get the addresses of Pods from DNS, and may go on to a Pod that is gone until they resolve again", "a Service with a cluster IP beside it; clients that resolve again when they fail")
		}
		return found
	},
}

// affinity is how long a client stays with a Pod.
func affinity(spec *corev1.ServiceSpec) time.Duration {
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		return seconds(*c.ClientIP.TimeoutSeconds)
	}
	return 3 * time.Hour
}
