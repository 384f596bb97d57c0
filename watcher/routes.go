package watcher

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// A route is a kind of way to a Service, as in svc/web?route=nodeport.
type route struct {
	name  string
	nodes bool // it leads through nodes, and the user can name some: nodeport:node1

	lacks func(*surroundings) string         // why the Service does not have it; "" if it does
	ways  func(*surroundings) ([]Way, error) // of a Service that has it
}

// routes are all routes. The default of a Service is the first that it has.
// https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types
var routes = []route{
	{name: "externalname", lacks: lacksExternalName, ways: externalNameWays},
	{name: "headless", lacks: lacksHeadless, ways: headlessWays},
	{name: "clusterip", lacks: lacksClusterIP, ways: clusterIPWays},
	{name: "nodeport", lacks: lacksNodePort, ways: nodePortWays, nodes: true},
	{name: "loadbalancer", lacks: lacksLoadBalancer, ways: loadBalancerWays},
	{name: "externalip", lacks: lacksExternalIP, ways: externalIPWays},
	{name: "ipv4", lacks: lacksFamily(4), ways: familyWays(4)},
	{name: "ipv6", lacks: lacksFamily(6), ways: familyWays(6)},
}

// A Way is where requests to a Service go by one of its routes.
type Way struct {
	Route  string // the name of the route; "" if the user named none
	At     string // a node or an address, which distinguishes the ways of one route; "" if there is only one way
	Host   string // an address or a name; "" is the Service's name, or its cluster IP if that does not resolve
	Port   int32
	Node   string // the node whose port requests go to; "" if they do not go to a node's port
	Family int    // 4 or 6: only the name's addresses of this family; 0: all
	Turns  bool   // connections go to each of the name's addresses in turn

	Outside bool // it is measured from outside the cluster; its Host is not known
}

// Name returns a way's name within its Service: "nodeport node2"; "" if the user named no route.
func (w Way) Name() string {
	if w.Route == "" {
		return ""
	}
	return strings.TrimSpace(w.Route + " " + w.At)
}

// mostWays is the largest number of ways of one target. Each gets the full rate.
const mostWays = 50

// An AskedRoute is a route that the user named, with a node or without.
type AskedRoute struct{ Name, Node string }

func (a AskedRoute) String() string {
	if a.Node == "" {
		return a.Name
	}
	return a.Name + ":" + a.Node
}

// ParseRoutes parses the value of "?route=": names of routes, separated by commas, as in clusterip,nodeport:node2.
func ParseRoutes(text string) (asked []AskedRoute, err error) {
	for _, each := range strings.Split(text, ",") {
		name, node, named := strings.Cut(strings.TrimSpace(each), ":")
		switch r := routeNamed(name); {
		case r.name == "":
			return nil, hint.Errorf("the routes are "+strings.Join(RouteNames(), ", "), "there is no route %q", name)
		case named && !r.nodes:
			advice := "as in ?route=" + name + ", or ?route=nodeport:node2"
			return nil, hint.Errorf(advice, "route %q takes no node", each)
		case named && node == "":
			return nil, hint.Errorf("as in ?route=nodeport:node2", "route %q: no node after the colon", each)
		}
		a := AskedRoute{name, node}
		if slices.Contains(asked, a) {
			return nil, hint.Errorf("name it once", "route %s is named twice", a)
		}
		overlaps := func(o AskedRoute) bool { return o.Name == a.Name && (o.Node == "") != (a.Node == "") }
		if slices.ContainsFunc(asked, overlaps) {
			return nil, hint.Errorf("drop one of them", "route %s is given both with and without a node", a.Name)
		}
		asked = append(asked, a)
	}
	return asked, nil
}

// RouteNames returns the names of all routes.
func RouteNames() (names []string) {
	for _, r := range routes {
		names = append(names, r.name)
	}
	return names
}

// NeedsNodes reports whether the ways of these routes can only be found with a list of nodes.
func NeedsNodes(asked []AskedRoute) bool {
	return slices.ContainsFunc(asked, func(a AskedRoute) bool { return routeNamed(a.Name).nodes })
}

// routeNamed returns the route of that name, or a zero route.
func routeNamed(name string) route {
	i := slices.IndexFunc(routes, func(r route) bool { return r.name == name })
	if i < 0 {
		return route{}
	}
	return routes[i]
}

// surroundings hold what determines the ways to a Service.
type surroundings struct {
	service *corev1.Service
	port    corev1.ServicePort
	slices  []discoveryv1.EndpointSlice
	nodes   []corev1.Node // if a route needs them
	named   []string      // the nodes that the user named for the route; empty: all
}

// has returns the names of the routes that the Service has.
func (s *surroundings) has() (names []string) {
	for _, r := range routes {
		if r.lacks(s) == "" {
			names = append(names, r.name)
		}
	}
	return names
}

const tooManyWays = "Service %q has %d addresses by these routes; each gets the full rate, so at most %d are allowed"

// ways returns the ways of the routes that the user asked for, or of the Service's default route.
func (s *surroundings) ways(asked []AskedRoute) (ways []Way, err error) {
	if len(asked) == 0 {
		return s.defaultWays()
	}
	for i, a := range asked {
		route := routeNamed(a.Name)
		if why := route.lacks(s); why != "" {
			has := "it has " + strings.Join(s.has(), ", ")
			return nil, hint.Errorf(has, "Service %q has no route %s: %s", s.service.Name, a.Name, why)
		}
		if slices.ContainsFunc(asked[:i], func(before AskedRoute) bool { return before.Name == a.Name }) {
			continue // it was done with all its nodes
		}
		s.named = nil
		for _, same := range asked {
			if same.Name == a.Name && same.Node != "" {
				s.named = append(s.named, same.Node)
			}
		}
		found, err := route.ways(s)
		if err != nil {
			return nil, err
		}
		for _, w := range found {
			w.Route = a.Name
			ways = append(ways, w)
		}
	}
	if len(ways) > mostWays {
		advice := "name some, as in ?route=nodeport:node1,nodeport:node2"
		return nil, hint.Errorf(advice, tooManyWays, s.service.Name, len(ways), mostWays)
	}
	return ways, nil
}

// outer are the routes by which clients outside the cluster reach a Service, the best first.
var outer = []string{"loadbalancer", "externalip", "nodeport"}

const outsideHint = "give it type NodePort or LoadBalancer; what stands before it, such as an Ingress, " +
	"can be measured as a URL"

// OutsideWays returns the ways by which a client outside the cluster reaches a Service: of the outer routes that the
// user asked for, or else of the best that the Service has.
func OutsideWays(ctx context.Context, client kube.Client, namespace, name string, asked Asked) ([]Way, error) {
	service, err := client.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, NoService(ctx, client, namespace, name, err)
	}
	port, err := choosePort(service, asked)
	if err != nil {
		return nil, err
	}
	around := surroundings{service: service, port: port}
	asked.Routes = around.outerRoutes(asked.Routes)
	if len(asked.Routes) == 0 {
		has := strings.Join(around.has(), ", ")
		return nil, hint.Errorf(outsideHint, "Service %q has no address outside of the cluster: it has %s", name, has)
	}
	if NeedsNodes(asked.Routes) {
		if around.nodes, err = listNodes(ctx, client); err != nil {
			return nil, err
		}
		for i := range around.nodes {
			preferExternal(&around.nodes[i])
		}
	}
	return around.ways(asked.Routes)
}

// outerRoutes returns the asked routes that are outer, or else the first outer route that has an address.
func (s *surroundings) outerRoutes(asked []AskedRoute) []AskedRoute {
	outers := slices.Clone(asked)
	outers = slices.DeleteFunc(outers, func(a AskedRoute) bool { return !slices.Contains(outer, a.Name) })
	if len(outers) > 0 {
		return outers
	}
	for _, name := range outer {
		pending := name == "loadbalancer" && len(s.service.Status.LoadBalancer.Ingress) == 0
		if routeNamed(name).lacks(s) == "" && !pending {
			return []AskedRoute{{Name: name}}
		}
	}
	return nil
}

// fromOutside returns the ways that are measured from outside the cluster, with what notCovered needs of them.
func (s *surroundings) fromOutside(asked Asked) (ways []Way) {
	if !asked.Outside {
		return nil
	}
	for _, a := range s.outerRoutes(asked.Routes) {
		ways = append(ways, Way{Route: a.Name, Node: a.Node, Host: "outside", Outside: true})
	}
	return ways
}

// preferExternal puts a node's external addresses first, as internal ones, so that internalAddrs returns them.
func preferExternal(n *corev1.Node) {
	var external []corev1.NodeAddress
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeExternalIP {
			external = append(external, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a.Address})
		}
	}
	n.Status.Addresses = append(external, n.Status.Addresses...)
}

func (s *surroundings) defaultWays() ([]Way, error) {
	for _, r := range routes {
		if r.lacks(s) == "" {
			return r.ways(s)
		}
	}
	return nil, hint.Errorf("kubectl describe service "+s.service.Name, "Service %q has no address", s.service.Name)
}

func isExternalName(s *corev1.Service) bool { return s.Spec.Type == corev1.ServiceTypeExternalName }
func isHeadless(s *corev1.Service) bool {
	return s.Spec.ClusterIP == corev1.ClusterIPNone && !isExternalName(s)
}

func lacksExternalName(s *surroundings) string {
	if !isExternalName(s.service) {
		return "it is of type " + typeOf(s.service)
	}
	return ""
}

func typeOf(s *corev1.Service) string {
	return string(cmp.Or(s.Spec.Type, corev1.ServiceTypeClusterIP))
}

// externalNameWays returns a way to a fully qualified name, because a CNAME uses no search list.
func externalNameWays(s *surroundings) ([]Way, error) {
	return []Way{{Host: strings.TrimSuffix(s.service.Spec.ExternalName, ".") + ".", Port: s.port.Port}}, nil
}

func lacksHeadless(s *surroundings) string {
	if !isHeadless(s.service) {
		return "it has a cluster IP"
	}
	return ""
}

// headlessWays returns a way to the Pods' port, because nothing translates the port of a headless Service.
// https://kubernetes.io/docs/concepts/services-networking/service/#headless-services
func headlessWays(s *surroundings) ([]Way, error) {
	port, err := s.endpointPort()
	return []Way{{Port: port, Turns: true}}, err
}

// Why a headless Service with several port numbers cannot be measured.
const (
	severalPorts = "Service %q is headless, and its endpoints have different numbers for port %s: %s"
	onePortHint  = "give the port the same number in all Pods; else only clients that ask for SRV records can use it"
)

// endpointPort returns the number of the port, which must be the same for all endpoints.
func (s *surroundings) endpointPort() (int32, error) {
	var numbers []int32
	for i := range s.slices {
		if n, ok := portOf(&s.slices[i], s.port.Name); ok && len(s.slices[i].Endpoints) > 0 {
			numbers = append(numbers, int32(n))
		}
	}
	slices.Sort(numbers)
	numbers = slices.Compact(numbers)
	switch len(numbers) {
	case 0:
		return cmp.Or(s.port.TargetPort.IntVal, s.port.Port), nil
	case 1:
		return numbers[0], nil
	}
	port := cmp.Or(s.port.Name, strconv.Itoa(int(s.port.Port)))
	return 0, hint.Errorf(onePortHint, severalPorts, s.service.Name, port, joinInts(numbers))
}

func joinInts(numbers []int32) string {
	text := make([]string, len(numbers))
	for i, n := range numbers {
		text[i] = strconv.Itoa(int(n))
	}
	return strings.Join(text, ", ")
}

func lacksClusterIP(s *surroundings) string {
	switch {
	case isExternalName(s.service):
		return "it is of type ExternalName"
	case isHeadless(s.service):
		return "it is headless"
	case s.service.Spec.ClusterIP == "":
		return "none was assigned yet"
	}
	return ""
}

func clusterIPWays(s *surroundings) ([]Way, error) { return []Way{{Port: s.port.Port}}, nil }

func lacksNodePort(s *surroundings) string {
	switch {
	case s.port.NodePort != 0:
		return ""
	case s.service.Spec.Type == corev1.ServiceTypeLoadBalancer:
		return fmt.Sprintf("its port %d has no node port (allocateLoadBalancerNodePorts is false)", s.port.Port)
	}
	return "it is of type " + typeOf(s.service)
}

const noInternalIP = "route nodeport: node %s has no address of type InternalIP in the Service's address family (%s)"

// nodePortWays returns a way to each node, or to each that the user named: to its internal address of each of the
// Service's families.
func nodePortWays(s *surroundings) (ways []Way, err error) {
	byName := func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) }
	nodes := slices.SortedFunc(slices.Values(s.nodes), byName)
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	for _, name := range s.named {
		if !slices.Contains(names, name) {
			has := "the cluster has " + strings.Join(names, ", ")
			return nil, hint.Errorf(has, "route nodeport:%s: there is no such node", name)
		}
	}
	families := familiesOf(s.service)
	for i := range nodes {
		n := &nodes[i]
		if len(s.named) > 0 && !slices.Contains(s.named, n.Name) {
			continue
		}
		addrs := internalAddrs(n, families)
		if len(addrs) == 0 {
			advice := "name the others, as in ?route=nodeport:" + cmp.Or(another(names, n.Name), "NODE")
			return nil, hint.Errorf(advice, noInternalIP, n.Name, familyNames(families))
		}
		for j, addr := range addrs {
			w := Way{At: n.Name, Host: addr.String(), Port: s.port.NodePort, Node: n.Name}
			if j > 0 {
				w.At += " " + familyName(familyOf(addr))
			}
			ways = append(ways, w)
		}
	}
	if len(ways) == 0 {
		return nil, hint.Errorf("does `kubectl get nodes` list any?", "route nodeport: the cluster has no nodes")
	}
	return ways, nil
}

func another(names []string, than string) string {
	for _, name := range names {
		if name != than {
			return name
		}
	}
	return ""
}

// internalAddrs returns a node's first internal address of each of these families.
func internalAddrs(n *corev1.Node, families []int) (addrs []netip.Addr) {
	for _, family := range families {
		for _, a := range n.Status.Addresses {
			addr, err := netip.ParseAddr(a.Address)
			if err == nil && a.Type == corev1.NodeInternalIP && familyOf(addr) == family {
				addrs = append(addrs, addr)
				break
			}
		}
	}
	return addrs
}

// familiesOf returns the address families of a Service, the preferred one first.
func familiesOf(s *corev1.Service) (families []int) {
	for _, f := range s.Spec.IPFamilies {
		switch f {
		case corev1.IPv4Protocol:
			families = append(families, 4)
		case corev1.IPv6Protocol:
			families = append(families, 6)
		}
	}
	if len(families) > 0 {
		return families
	}
	for _, addr := range clusterIPs(s) {
		families = append(families, familyOf(addr))
	}
	if len(families) == 0 {
		return []int{4}
	}
	return families
}

// clusterIPs returns the cluster IPs of a Service, the preferred one first.
func clusterIPs(s *corev1.Service) (addrs []netip.Addr) {
	texts := s.Spec.ClusterIPs
	if len(texts) == 0 {
		texts = []string{s.Spec.ClusterIP}
	}
	for _, text := range texts {
		if addr, err := netip.ParseAddr(text); err == nil {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

func familyOf(addr netip.Addr) int {
	if addr.Unmap().Is4() {
		return 4
	}
	return 6
}

func familyName(family int) string { return "ipv" + strconv.Itoa(family) }

func familyNames(families []int) string {
	names := make([]string, len(families))
	for i, f := range families {
		names[i] = familyName(f)
	}
	return strings.Join(names, ", ")
}

func lacksLoadBalancer(s *surroundings) string {
	if s.service.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return "it is of type " + typeOf(s.service)
	}
	return ""
}

const noBalancer = "Service %q has no load balancer's address yet: status.loadBalancer is empty"

func loadBalancerWays(s *surroundings) ([]Way, error) {
	var hosts []string
	for _, in := range s.service.Status.LoadBalancer.Ingress {
		hosts = append(hosts, cmp.Or(in.IP, in.Hostname))
	}
	if len(hosts) == 0 {
		advice := "`kubectl describe service " + s.service.Name + "` says why; " +
			"without a provider of load balancers there never is one"
		return nil, hint.Errorf(advice, noBalancer, s.service.Name)
	}
	return hostWays(hosts, s.port.Port), nil
}

func lacksExternalIP(s *surroundings) string {
	if len(s.service.Spec.ExternalIPs) == 0 {
		return "spec.externalIPs is empty"
	}
	return ""
}

func externalIPWays(s *surroundings) ([]Way, error) {
	return hostWays(s.service.Spec.ExternalIPs, s.port.Port), nil
}

// hostWays returns a way to each host. At names the host if there are several.
func hostWays(hosts []string, port int32) (ways []Way) {
	for _, host := range hosts {
		w := Way{Host: host, Port: port}
		if len(hosts) > 1 {
			w.At = host
		}
		ways = append(ways, w)
	}
	return ways
}

func lacksFamily(family int) func(*surroundings) string {
	return func(s *surroundings) string {
		switch {
		case isExternalName(s.service):
			return "it is of type ExternalName"
		case !slices.Contains(familiesOf(s.service), family):
			return "its address family is " + familyNames(familiesOf(s.service))
		}
		return ""
	}
}

func familyWays(family int) func(*surroundings) ([]Way, error) {
	return func(s *surroundings) ([]Way, error) {
		if isHeadless(s.service) {
			port, err := s.endpointPort()
			return []Way{{Port: port, Family: family, Turns: true}}, err
		}
		for _, addr := range clusterIPs(s.service) {
			if familyOf(addr) == family {
				return []Way{{Host: addr.String(), Port: s.port.Port, Family: family}}, nil
			}
		}
		look := "kubectl get service " + s.service.Name + " -o yaml"
		return nil, hint.Errorf(look, "Service %q has no cluster IP of %s", s.service.Name, familyName(family))
	}
}
