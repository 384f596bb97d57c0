package rules

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var unusualService = Rule{
	ID:   "LP13",
	Name: "unusual-service",
	Doc: "Session affinity, publishNotReadyAddresses, externalTrafficPolicy Local, " +
		"no selector, ExternalName, or headless.",
	Check: func(s *service.State) (found []Finding) {
		for _, check := range unusual {
			if f, ok := check(s); ok {
				found = append(found, f)
			}
		}
		return found
	},
}

var unusual = []func(*service.State) (Finding, bool){sticky, unready, localBalancer, localPort, unknown, headless}

// sticky returns a finding about session affinity.
func sticky(s *service.State) (Finding, bool) {
	const allFail = "a client stays with one Pod: where routes outlive that Pod (%s), " +
		"all of its requests fail, not only a share"
	spec := &s.Service.Spec
	lasts := 3 * time.Hour
	if c := spec.SessionAffinityConfig; c != nil && c.ClientIP != nil && c.ClientIP.TimeoutSeconds != nil {
		lasts = podspec.Seconds(*c.ClientIP.TimeoutSeconds)
	}
	return Finding{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(allFail, s.RouteLag.Words()),
		Evidence:   []service.Evidence{s.At("spec.sessionAffinity", "ClientIP for "+quantity.Span(lasts))},
		Fix: "no affinity, if the application can do without; " +
			"else make Pods end later than their routes (LP05)",
		ConfirmedBy: staleRoutes,
		When:        timeline.PodEnds,
	}, spec.SessionAffinity == corev1.ServiceAffinityClientIP && !isHeadless(s)
}

// unready returns a finding about a Service that also publishes Pods which are not ready.
func unready(s *service.State) (Finding, bool) {
	fix := "leave it out; a headless Service of its own is enough for peers to find each other"
	if isHeadless(s) {
		fix = "keep it if Pods find each other by it; a second Service for clients, with a cluster IP and without it"
	}
	return Finding{
		Severity: MayLose,
		Prediction: "Pods that are not ready, or have not started to listen, are sent requests, " +
			"and so are Pods that end, until they are gone",
		Evidence:    []service.Evidence{s.At("spec.publishNotReadyAddresses", "true")},
		Fix:         fix,
		ConfirmedBy: []string{"startup-race"},
		When:        timeline.PodStarts,
	}, s.Service.Spec.PublishNotReadyAddresses
}

// isLocal reports whether requests from outside stay on the node that they come to.
func isLocal(s *service.State) bool {
	return s.Service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// onEachNode reports whether DaemonSets make all Pods that serve.
func onEachNode(s *service.State) bool {
	all := s.Templates()
	other := func(t service.Template) bool { return t.Owner != "DaemonSet" }
	return len(all) > 0 && !slices.ContainsFunc(all, other)
}

// localBalancer returns a finding about a load balancer that must find out which nodes have an endpoint.
func localBalancer(s *service.State) (Finding, bool) {
	spare := "more than one Pod on each node, and a load balancer that checks often"
	if onEachNode(s) {
		spare = surge
	}
	return Finding{
		Severity: MayLose,
		Prediction: "when the last Pod on a node ends, the load balancer sends connections there " +
			"until its health checks have failed: for its interval times its threshold, which are not known here",
		Evidence:    []service.Evidence{s.At("spec.externalTrafficPolicy", "Local")},
		Fix:         "have Pods serve on after SIGTERM for longer than that; or " + spare,
		ConfirmedBy: append([]string{"lb-drain-gap"}, staleRoutes...),
		When:        timeline.PodEnds,
	}, isLocal(s) && s.Service.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// localPort returns a finding about ports of nodes that nobody checks.
func localPort(s *service.State) (Finding, bool) {
	spec := &s.Service.Spec
	open := spec.Type == corev1.ServiceTypeNodePort ||
		len(spec.ExternalIPs) > 0 && spec.Type != corev1.ServiceTypeLoadBalancer
	which, policy := "which nodes these are changes with each Pod that moves", "Cluster, a DaemonSet,"
	if onEachNode(s) {
		which, policy = "that of each Pod that ends, until the next one there is ready", "Cluster,"
	}
	return Finding{
		Severity:   MayLose,
		Prediction: "requests from outside to a node without a ready endpoint are dropped and time out: " + which,
		Evidence:   []service.Evidence{s.At("spec.externalTrafficPolicy", "Local")},
		Fix: "externalTrafficPolicy: " + policy +
			" or a load balancer that asks each node whether it has an endpoint",
		ConfirmedBy: []string{"local-no-endpoint", "node-port-unreachable"},
	}, isLocal(s) && open
}

// unknown returns a finding about a Service whose endpoints nothing here makes.
func unknown(s *service.State) (Finding, bool) {
	f := Finding{Severity: Blind}
	switch spec := &s.Service.Spec; {
	case spec.Type == corev1.ServiceTypeExternalName:
		f.Prediction = "the Service only names " + spec.ExternalName + ": nothing is known of what answers there"
		f.Evidence = []service.Evidence{s.At("spec.type", "ExternalName")}
		f.Fix = "measure what answers there: lapse run svc/" + s.Service.Name + ":PORT"
	case len(spec.Selector) == 0:
		f.Prediction = "somebody else makes its endpoints: nothing is known of what ends or replaces them"
		f.Evidence = []service.Evidence{s.At("spec.selector", "none")}
		f.Fix = "give it a selector; or measure it: its endpoints and their changes are seen"
	default:
		return Finding{}, false
	}
	return f, true
}

// headless returns a finding about clients that know Pods by their addresses. Without a selector, unknown says more.
func headless(s *service.State) (Finding, bool) {
	_, isUnknown := unknown(s)
	return Finding{
		Severity: MayLose,
		Prediction: "headless: clients get the addresses of Pods from DNS, " +
			"and may go on to a Pod that is gone until they resolve again",
		Evidence: []service.Evidence{s.At("spec.clusterIP", "None")},
		Fix:      "a second Service, with a cluster IP; or clients that resolve again when they fail",
	}, isHeadless(s) && !isUnknown
}

// isHeadless reports whether clients get the addresses of Pods: kube-proxy does nothing for the Service, and what is
// set for it has no effect.
func isHeadless(s *service.State) bool { return s.Service.Spec.ClusterIP == corev1.ClusterIPNone }
