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

// A Route is a kind of way to a Service, as in svc/web?route=nodeport. Each has a line in [Routes].
type Route struct {
	Name  string
	Doc   string // where requests go, for the reference
	Nodes bool   // it leads through nodes, and some can be named: nodeport:node1

	lacks func(*surroundings) string         // why the Service does not have it; "" if it has
	ways  func(*surroundings) ([]Way, error) // of a Service that has it
}

// Routes are those there are. The default of a Service is the first that it has.
// https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types
var Routes = []Route{
	{Name: "externalname", Doc: "the name that a Service of type ExternalName leads to", lacks: lacksExternalName, ways: externalNameWays},
	{Name: "headless", Doc: "each address of a headless Service's name in turn, looked up for each connection", lacks: lacksHeadless, ways: headlessWays},
	{Name: "clusterip", Doc: "the cluster IP, by the Service's name", lacks: lacksClusterIP, ways: clusterIPWays},
	{Name: "nodeport", Doc: "the node port of every node, or of the nodes that are named", Nodes: true, lacks: lacksNodePort, ways: nodePortWays},
	{Name: "loadbalancer", Doc: "each address or name in status.loadBalancer", lacks: lacksLoadBalancer, ways: loadBalancerWays},
	{Name: "externalip", Doc: "each of spec.externalIPs", lacks: lacksExternalIP, ways: externalIPWays},
	{Name: "ipv4", Doc: "the cluster IP that is an IPv4 address, or the IPv4 addresses of a headless Service's name", lacks: lacksFamily(4), ways: familyWays(4)},
	{Name: "ipv6", Doc: "the same of IPv6", lacks: lacksFamily(6), ways: familyWays(6)},
}

// A Way is where requests to a Service go by one of its routes.
type Way struct {
	Route  string // the name of the route; "" where none was asked for
	At     string // tells the ways of one route apart: a node, an address; "" where there is one
	Host   string // an address or a name; "" is the Service's own name, or its cluster IP where that does not resolve
	Port   int32
	Node   string // the node whose port is asked; "" where it is the client's own node that leads requests on
	Family int    // 4 or 6: only the addresses of this family that the name has; 0: any
	Turns  bool   // connections go to each of the name's addresses in turn

	Outside bool // it is asked from outside of the cluster, and where it leads was not looked up
}

// Name is what a way is called beside its Service: "nodeport node2"; "" where no route was asked for.
func (w Way) Name() string {
	if w.Route == "" {
		return ""
	}
	return strings.TrimSpace(w.Route + " " + w.At)
}

// mostWays is how many ways one target may have. Each is asked at its full rate.
const mostWays = 50

// An AskedRoute is a route that the user named, and the node if they named one.
type AskedRoute struct{ Name, Node string }

func (a AskedRoute) String() string {
	if a.Node == "" {
		return a.Name
	}
	return a.Name + ":" + a.Node
}

// ParseRoutes reads what stands behind "?route=": names of routes with commas between them, as in
// clusterip,nodeport:node2.
func ParseRoutes(text string) (asked []AskedRoute, err error) {
	for _, each := range strings.Split(text, ",") {
		name, node, named := strings.Cut(strings.TrimSpace(each), ":")
		i := slices.IndexFunc(Routes, func(r Route) bool { return r.Name == name })
		switch {
		case i < 0:
			return nil, hint.Errorf("the routes are "+strings.Join(RouteNames(), ", "), "there is no route %q", name)
		case named && !Routes[i].Nodes:
			return nil, hint.Errorf("as in ?route="+name+", or ?route=nodeport:node2", "route %q leads through no node that could be named", each)
		case named && node == "":
			return nil, hint.Errorf("as in ?route=nodeport:node2", "route %q: no node after the colon", each)
		}
		a := AskedRoute{name, node}
		if slices.Contains(asked, a) {
			return nil, hint.Errorf("name it once", "route %s is named twice", a)
		}
		if slices.ContainsFunc(asked, func(o AskedRoute) bool { return o.Name == a.Name && (o.Node == "") != (a.Node == "") }) {
			return nil, hint.Errorf("drop one of them", "route %s is of every node, and also of one", a.Name)
		}
		asked = append(asked, a)
	}
	return asked, nil
}

// RouteNames are the names of all routes.
func RouteNames() (names []string) {
	for _, r := range Routes {
		names = append(names, r.Name)
	}
	return names
}

// NeedsNodes reports whether nodes must be listed to find the ways of these routes.
func NeedsNodes(asked []AskedRoute) bool {
	return slices.ContainsFunc(asked, func(a AskedRoute) bool { return routeNamed(a.Name).Nodes })
}

func routeNamed(name string) *Route {
	i := slices.IndexFunc(Routes, func(r Route) bool { return r.Name == name })
	if i < 0 {
		return &Route{}
	}
	return &Routes[i]
}

// surroundings are what the ways to a Service follow from.
type surroundings struct {
	service *corev1.Service
	port    corev1.ServicePort
	slices  []discoveryv1.EndpointSlice
	nodes   []corev1.Node // where a route needs them
	named   []string      // the nodes that are meant; empty: all
}

// has are the names of the routes that the Service has.
func (s *surroundings) has() (names []string) {
	for _, r := range Routes {
		if r.lacks(s) == "" {
			names = append(names, r.Name)
		}
	}
	return names
}

// ways finds the ways of the routes that were asked for, or those of the Service's default route.
func (s *surroundings) ways(asked []AskedRoute) (ways []Way, err error) {
	if len(asked) == 0 {
		return s.defaultWays()
	}
	for i, a := range asked {
		route := routeNamed(a.Name)
		if why := route.lacks(s); why != "" {
			return nil, hint.Errorf("it has "+strings.Join(s.has(), ", "), "Service %q has no route %s: %s", s.service.Name, a.Name, why)
		}
		if slices.ContainsFunc(asked[:i], func(before AskedRoute) bool { return before.Name == a.Name }) {
			continue // with all its nodes
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
		return nil, hint.Errorf("name some, as in ?route=nodeport:node1,nodeport:node2", "Service %q has %d addresses by these routes, and each is asked at the full rate: at most %d",
			s.service.Name, len(ways), mostWays)
	}
	return ways, nil
}

// outer are the routes by which clients outside of the cluster reach a Service, the best first.
var outer = []string{"loadbalancer", "externalip", "nodeport"}

// OutsideWays are the ways by which a client outside of the cluster reaches a Service: those outer routes that were
// asked for, or else the best that it has.
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
		return nil, hint.Errorf("give it type NodePort or LoadBalancer; what stands before it, as an Ingress, can be measured as a URL",
			"Service %q has no address outside of the cluster: it has %s", name, strings.Join(around.has(), ", "))
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

// outerRoutes are those of the asked routes that are outer ones, or else the first of the outer routes that leads
// anywhere.
func (s *surroundings) outerRoutes(asked []AskedRoute) (routes []AskedRoute) {
	for _, a := range asked {
		if slices.Contains(outer, a.Name) {
			routes = append(routes, a)
		}
	}
	for _, name := range outer {
		if len(routes) == 0 && routeNamed(name).lacks(s) == "" && (name != "loadbalancer" || len(s.service.Status.LoadBalancer.Ingress) > 0) {
			routes = append(routes, AskedRoute{Name: name})
		}
	}
	return routes
}

// fromOutside are the ways that are asked from outside of the cluster, as far as they matter to what a pass covers.
func (s *surroundings) fromOutside(asked Asked) (ways []Way) {
	if !asked.Outside {
		return nil
	}
	for _, a := range s.outerRoutes(asked.Routes) {
		ways = append(ways, Way{Route: a.Name, Node: a.Node, Host: "outside", Outside: true})
	}
	return ways
}

// preferExternal makes the addresses that a node has outside of the cluster the ones that are asked, if it has any.
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
	for _, r := range Routes {
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

// externalNameWays lead to a whole name, as a CNAME does: no search list is tried.
func externalNameWays(s *surroundings) ([]Way, error) {
	return []Way{{Host: strings.TrimSuffix(s.service.Spec.ExternalName, ".") + ".", Port: s.port.Port}}, nil
}

func lacksHeadless(s *surroundings) string {
	if !isHeadless(s.service) {
		return "it has a cluster IP"
	}
	return ""
}

// headlessWays leads to the port of the Pods: of a headless Service nothing translates the Service's own.
// https://kubernetes.io/docs/concepts/services-networking/service/#headless-services
func headlessWays(s *surroundings) ([]Way, error) {
	port, err := s.endpointPort()
	return []Way{{Port: port, Turns: true}}, err
}

// endpointPort is the number that all endpoints have for the port.
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
	return 0, hint.Errorf("give the port the same number in all Pods; only clients that ask for SRV records can use such a Service",
		"Service %q is headless, and its endpoints have different numbers for port %s: %s", s.service.Name, cmp.Or(s.port.Name, strconv.Itoa(int(s.port.Port))), joinInts(numbers))
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

// nodePortWays are the addresses that nodes have within the cluster, of each family of the Service.
func nodePortWays(s *surroundings) (ways []Way, err error) {
	nodes := slices.SortedFunc(slices.Values(s.nodes), func(a, b corev1.Node) int { return cmp.Compare(a.Name, b.Name) })
	names := make([]string, len(nodes))
	for i := range nodes {
		names[i] = nodes[i].Name
	}
	for _, name := range s.named {
		if !slices.Contains(names, name) {
			return nil, hint.Errorf("the cluster has "+strings.Join(names, ", "), "route nodeport:%s: there is no such node", name)
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
			return nil, hint.Errorf("name the others, as in ?route=nodeport:"+cmp.Or(another(names, n.Name), "NODE"),
				"route nodeport: node %s has no address of type InternalIP in the Service's address family (%s)", n.Name, familyNames(families))
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

// internalAddrs are a node's addresses within the cluster, the first of each of these families.
func internalAddrs(n *corev1.Node, families []int) (addrs []netip.Addr) {
	for _, family := range families {
		for _, a := range n.Status.Addresses {
			if addr, err := netip.ParseAddr(a.Address); err == nil && a.Type == corev1.NodeInternalIP && familyOf(addr) == family {
				addrs = append(addrs, addr)
				break
			}
		}
	}
	return addrs
}

// familiesOf are the address families of a Service, the preferred one first.
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

// clusterIPs are the cluster IPs of a Service, the preferred one first.
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

func loadBalancerWays(s *surroundings) ([]Way, error) {
	var hosts []string
	for _, in := range s.service.Status.LoadBalancer.Ingress {
		hosts = append(hosts, cmp.Or(in.IP, in.Hostname))
	}
	if len(hosts) == 0 {
		return nil, hint.Errorf("`kubectl describe service "+s.service.Name+"` says why; without a provider of load balancers there never is one",
			"Service %q has no load balancer's address yet: status.loadBalancer is empty", s.service.Name)
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

// hostWays are one way to each host, which is named where there are several.
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
		return nil, hint.Errorf("kubectl get service "+s.service.Name+" -o yaml", "Service %q has no cluster IP of %s", s.service.Name, familyName(family))
	}
}
