package watcher

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// A limit is something that a pass says nothing of, by what the Service is and how it is asked. Each says so in a
// sentence, or in none.
type limit func(*surroundings, []Way) string

// limits are those there are, in the order in which they are said.
var limits = []limit{
	noEndpointsKnown, onlyOneAddressAtATime, onlyOnePod, onlyThisNode, onlyNearPods, externalFromWithin, noNodePorts, someNodePorts,
	loadBalancerNotAsked, loadBalancerFromWithin, externalIPsNotAsked, externalIPsFromWithin, oneFamily, publishedEarly, endpointsByHand,
}

// notCovered says what a pass over these ways says nothing of, a sentence each.
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

// asksWithin reports whether a route is asked from within the cluster.
func asksWithin(ways []Way, route string) bool {
	return slices.ContainsFunc(ways, func(w Way) bool { return w.Route == route && !w.Outside })
}

// throughProxy reports whether kube-proxy leads requests on some of these ways.
func (s *surroundings) throughProxy(ways []Way) bool {
	return !isExternalName(s.service) && slices.ContainsFunc(ways, func(w Way) bool { return !w.Turns })
}

func noEndpointsKnown(s *surroundings, _ []Way) string {
	if !isExternalName(s.service) {
		return ""
	}
	return fmt.Sprintf("the Service only names %s: it has no endpoints, so which Pods answer there, if any, is not known, and no cause can be found in them", strings.TrimSuffix(s.service.Spec.ExternalName, "."))
}

func onlyOneAddressAtATime(s *surroundings, ways []Way) string {
	if !slices.ContainsFunc(ways, func(w Way) bool { return w.Turns }) {
		return ""
	}
	return "the Service is headless: each connection looked its name up and took the next address; clients that keep an answer for longer dial Pods that have gone for longer"
}

func onlyOnePod(s *surroundings, ways []Way) string {
	if s.service.Spec.SessionAffinity != corev1.ServiceAffinityClientIP || !s.throughProxy(ways) {
		return ""
	}
	return "sessionAffinity ClientIP: each prober was led to one Pod only; a pass says nothing of the others"
}

func onlyThisNode(s *surroundings, ways []Way) string {
	policy := s.service.Spec.InternalTrafficPolicy
	within := slices.ContainsFunc(ways, func(w Way) bool {
		return !w.Turns && (w.Route == "" || w.Route == "clusterip" || w.Family != 0)
	})
	if policy == nil || *policy != corev1.ServiceInternalTrafficPolicyLocal || !within {
		return ""
	}
	return "internalTrafficPolicy Local: requests go only to endpoints on the prober's own node, and are dropped where there is none: " + s.perNode()
}

// perNode says on which nodes endpoints are ready.
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
	return fmt.Sprintf("trafficDistribution %s: requests go only to Pods near the prober's node while there are any; --from all asks from every node", *s.service.Spec.TrafficDistribution)
}

// externalFromWithin is about requests of Pods to external addresses: kube-proxy takes them to all endpoints,
// whatever the policy. https://kubernetes.io/docs/reference/networking/virtual-ips/#external-traffic-policy
func externalFromWithin(s *surroundings, ways []Way) string {
	external := slices.ContainsFunc(outer, func(route string) bool { return asksWithin(ways, route) })
	if s.service.Spec.ExternalTrafficPolicy != corev1.ServiceExternalTrafficPolicyLocal || !external {
		return ""
	}
	return "externalTrafficPolicy Local: kube-proxy may lead requests from Pods to endpoints on all nodes all the same, and those from outside only to endpoints on the node asked: " + s.perNode()
}

func noNodePorts(s *surroundings, ways []Way) string {
	if s.port.NodePort == 0 || asksFor(ways, "nodeport") {
		return ""
	}
	return fmt.Sprintf("the node ports (%d) were not asked: ?route=nodeport asks that of every node", s.port.NodePort)
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
	return "the node ports of these nodes were not asked: " + strings.Join(others, ", ")
}

func loadBalancerNotAsked(s *surroundings, ways []Way) string {
	switch {
	case s.service.Spec.Type != corev1.ServiceTypeLoadBalancer || asksFor(ways, "loadbalancer"):
		return ""
	case len(s.service.Status.LoadBalancer.Ingress) == 0:
		return "the Service is of type LoadBalancer and has no load balancer's address: nothing was asked there"
	}
	return "the load balancer's address was not asked: ?route=loadbalancer asks it"
}

// loadBalancerFromWithin is about requests of Pods to a load balancer's address that never leave their node.
// https://kubernetes.io/docs/concepts/services-networking/service/#load-balancer-ip-mode
func loadBalancerFromWithin(s *surroundings, ways []Way) string {
	if !asksWithin(ways, "loadbalancer") || !slices.ContainsFunc(s.service.Status.LoadBalancer.Ingress, func(in corev1.LoadBalancerIngress) bool {
		return in.IP != "" && (in.IPMode == nil || *in.IPMode == corev1.LoadBalancerIPModeVIP)
	}) {
		return ""
	}
	return "within the cluster kube-proxy takes the load balancer's address for its own (ipMode VIP): the load balancer itself was asked only by clients outside"
}

func externalIPsNotAsked(s *surroundings, ways []Way) string {
	if len(s.service.Spec.ExternalIPs) == 0 || asksFor(ways, "externalip") {
		return ""
	}
	return "the external IPs were not asked: ?route=externalip asks them"
}

func externalIPsFromWithin(_ *surroundings, ways []Way) string {
	if !asksWithin(ways, "externalip") {
		return ""
	}
	return "within the cluster kube-proxy takes external IPs for its own: what leads to them from outside was asked only by clients there"
}

func oneFamily(s *surroundings, ways []Way) string {
	families := familiesOf(s.service)
	chooses := slices.ContainsFunc(ways, func(w Way) bool { return w.Host == "" || w.Family != 0 })
	if !chooses || len(families) < 2 || asksFor(ways, "ipv4") && asksFor(ways, "ipv6") {
		return ""
	}
	for _, f := range families {
		if asksFor(ways, familyName(f)) {
			return fmt.Sprintf("of the Service's two address families only %s was asked: ?route=ipv4,ipv6 asks each", familyName(f))
		}
	}
	if slices.ContainsFunc(ways, func(w Way) bool { return w.Turns }) {
		return "the Service has two address families, and connections went to addresses of those that the prober has a route for: ?route=ipv4,ipv6 asks each by itself"
	}
	return "the Service has two address families, and connections went to the first address of its name that accepted them: ?route=ipv4,ipv6 asks each by itself"
}

func publishedEarly(s *surroundings, _ []Way) string {
	if !s.service.Spec.PublishNotReadyAddresses {
		return ""
	}
	return "publishNotReadyAddresses: endpoints count as ready before their Pods are, and after"
}

func endpointsByHand(s *surroundings, _ []Way) string {
	if isExternalName(s.service) || len(s.service.Spec.Selector) > 0 {
		return ""
	}
	return "the Service has no selector: its endpoints are made by hand, or by another controller, and what stands behind them is not watched"
}
