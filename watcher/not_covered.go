package watcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A limit returns a sentence about what a measurement of the Service by these ways does not cover, or "".
type limit func(*surroundings, []Way) string

// limits are all limits, in the order of their sentences.
var limits = []limit{
	noEndpointsKnown,
	onlyOneAddressAtATime,
	onlyOnePod,
	onlyThisNode,
	onlyNearPods,
	externalFromWithin,
	noNodePorts,
	someNodePorts,
	loadBalancerNotAsked,
	loadBalancerFromWithin,
	externalIPsNotAsked,
	externalIPsFromWithin,
	oneFamily,
	publishedEarly,
	endpointsByHand,
}

// notCovered returns the sentences about what a measurement by these ways does not cover.
func (s *surroundings) notCovered(ways []Way) (sentences []string) {
	for _, limit := range limits {
		if text := limit(s, ways); text != "" {
			sentences = append(sentences, text)
		}
	}
	return sentences
}

func asksFor(ways []Way, route string) bool {
	return slices.ContainsFunc(ways, func(w Way) bool { return w.Route == route })
}

// asksWithin reports whether a route is measured from inside the cluster.
func asksWithin(ways []Way, route string) bool {
	return slices.ContainsFunc(ways, func(w Way) bool { return w.Route == route && !w.Outside })
}

// throughProxy reports whether kube-proxy routes the requests of one of these ways.
func (s *surroundings) throughProxy(ways []Way) bool {
	return !isExternalName(s.service) && slices.ContainsFunc(ways, func(w Way) bool { return !w.Turns })
}

func noEndpointsKnown(s *surroundings, _ []Way) string {
	if !isExternalName(s.service) {
		return ""
	}
	name := strings.TrimSuffix(s.service.Spec.ExternalName, ".")
	return "the Service only names " + name + ": it has no endpoints, " +
		"so Lapse does not know which Pods answer, and finds no cause in them"
}

func onlyOneAddressAtATime(s *surroundings, ways []Way) string {
	if !slices.ContainsFunc(ways, func(w Way) bool { return w.Turns }) {
		return ""
	}
	return "the Service is headless: each connection looked up its name and took the next address; " +
		"a client that caches addresses for longer may dial Pods that are gone"
}

func onlyOnePod(s *surroundings, ways []Way) string {
	if s.service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || !s.throughProxy(ways) {
		return ""
	}
	return "sessionAffinity ClientIP: each prober reached only one Pod; the others were not measured"
}

func onlyThisNode(s *surroundings, ways []Way) string {
	policy := s.service.Spec.InternalTrafficPolicy
	within := slices.ContainsFunc(ways, func(w Way) bool {
		return !w.Turns && (w.Route == "" || w.Route == "clusterip" || w.Family != 0)
	})
	if policy == nil || *policy != corev1.ServiceInternalTrafficPolicyLocal || !within {
		return ""
	}
	return "internalTrafficPolicy Local: requests go only to endpoints on the prober's own node, " +
		"and are dropped where there is none: " + s.perNode()
}

// perNode returns how many endpoints are ready on which nodes, in words.
func (s *surroundings) perNode() string {
	ready := readyByNode(s.slices, s.port.Name)
	delete(ready, "")
	if len(ready) == 0 {
		return "no node is known to have a ready one"
	}
	var parts []string
	for _, node := range slices.Sorted(maps.Keys(ready)) {
		parts = append(parts, fmt.Sprintf("%s has %d", node, ready[node]))
	}
	return strings.Join(parts, ", ") + ", no other node has any"
}

func onlyNearPods(s *surroundings, ways []Way) string {
	if s.service.Spec.TrafficDistribution == nil || !s.throughProxy(ways) {
		return ""
	}
	return fmt.Sprintf("trafficDistribution %s: requests go only to Pods near the prober's node while there are any; "+
		"--from all measures from every node", *s.service.Spec.TrafficDistribution)
}

// externalFromWithin is about Pods' requests to external addresses: kube-proxy routes them to all endpoints, whatever
// the policy. https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy
func externalFromWithin(s *surroundings, ways []Way) string {
	external := slices.ContainsFunc(outer, func(route string) bool { return asksWithin(ways, route) })
	if s.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || !external {
		return ""
	}
	return "externalTrafficPolicy Local: requests from outside go only to endpoints on the node they reach, " +
		"but requests from Pods may go to any node: " + s.perNode()
}

func noNodePorts(s *surroundings, ways []Way) string {
	if s.port.NodePort == 0 || asksFor(ways, "nodeport") {
		return ""
	}
	const sentence = "the node port (%d) was not measured: ?route=nodeport measures it on every node"
	return fmt.Sprintf(sentence, s.port.NodePort)
}

func someNodePorts(s *surroundings, ways []Way) string {
	every := slices.ContainsFunc(ways, func(w Way) bool { return w.Outside && w.Route == "nodeport" && w.Node == "" })
	if every || !asksFor(ways, "nodeport") {
		return ""
	}
	var others []string
	for _, n := range s.nodes {
		if !slices.ContainsFunc(ways, func(w Way) bool { return w.Node == n.Name }) {
			others = append(others, n.Name)
		}
	}
	slices.Sort(others)
	if len(others) == 0 {
		return ""
	}
	return "the node ports of these nodes were not measured: " + strings.Join(others, ", ")
}

func loadBalancerNotAsked(s *surroundings, ways []Way) string {
	switch {
	case s.service.Spec.Type != corev1.ServiceTypeLoadBalancer || asksFor(ways, "loadbalancer"):
		return ""
	case len(s.service.Status.LoadBalancer.Ingress) == 0:
		return "the Service is of type LoadBalancer but has no load balancer's address: none was measured"
	}
	return "the load balancer's address was not measured: ?route=loadbalancer measures it"
}

// loadBalancerFromWithin is about Pods' requests to a load balancer's address, which never leave their node.
// https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-ip-mode
func loadBalancerFromWithin(s *surroundings, ways []Way) string {
	isVIP := func(in corev1.LoadBalancerIngress) bool {
		return in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP)
	}
	if !asksWithin(ways, "loadbalancer") || !slices.ContainsFunc(s.service.Status.LoadBalancer.Ingress, isVIP) {
		return ""
	}
	return "inside the cluster, kube-proxy answers for the load balancer's address (ipMode VIP): " +
		"only a prober outside measures the load balancer itself"
}

func externalIPsNotAsked(s *surroundings, ways []Way) string {
	if len(s.service.Spec.ExternalIPs) == 0 || asksFor(ways, "externalip") {
		return ""
	}
	return "the external IPs were not measured: ?route=externalip measures them"
}

func externalIPsFromWithin(_ *surroundings, ways []Way) string {
	if !asksWithin(ways, "externalip") {
		return ""
	}
	return "inside the cluster, kube-proxy answers for external IPs: only a prober outside measures the way to them"
}

const bothFamilies = "?route=ipv4,ipv6 measures both"

func oneFamily(s *surroundings, ways []Way) string {
	families := familiesOf(s.service)
	chooses := slices.ContainsFunc(ways, func(w Way) bool { return w.Host == "" || w.Family != 0 })
	if !chooses || len(families) < 2 || asksFor(ways, "ipv4") && asksFor(ways, "ipv6") {
		return ""
	}
	for _, f := range families {
		if asksFor(ways, familyName(f)) {
			return "the Service has two address families, but only " + familyName(f) + " was measured: " + bothFamilies
		}
	}
	used := "the first address of its name that accepted them"
	if slices.ContainsFunc(ways, func(w Way) bool { return w.Turns }) {
		used = "only a family that the prober has a route for"
	}
	return "the Service has two address families, and connections used " + used + ": " + bothFamilies
}

func publishedEarly(s *surroundings, _ []Way) string {
	if !s.service.Spec.PublishNotReadyAddresses {
		return ""
	}
	return "publishNotReadyAddresses: endpoints count as ready even while their Pods are not"
}

func endpointsByHand(s *surroundings, _ []Way) string {
	if isExternalName(s.service) || len(s.service.Spec.Selector) > 0 {
		return ""
	}
	return "the Service has no selector: its endpoints are made by hand or by another controller, " +
		"and what is behind them is not watched"
}
