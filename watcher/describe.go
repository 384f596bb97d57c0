package watcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/timeline"
)

// Info describes a Service before it is measured.
type Info struct {
	Service  timeline.Service
	Port     int32  // the port to measure
	PortName string // empty if the port has no name

	AppProtocol string // the port's appProtocol; empty if it has none
	Selector    map[string]string
	Family      int   // the preferred address family: 4 or 6
	Ready       int   // endpoints that are ready now
	Ways        []Way // where requests go; at least one
}

// Asked says what of a Service to measure.
type Asked struct {
	Port      string          // a port over Transport, by number or name; empty if there is only one
	Transport corev1.Protocol // empty: TCP
	Routes    []AskedRoute    // empty: the default route

	Outside bool // its outer routes are also measured from outside the cluster
}

// Describe looks a Service up. The error says why the Service cannot be measured, with a hint if the user can change
// that.
func Describe(ctx context.Context, client kube.Client, namespace, name string, asked Asked) (Info, error) {
	service, err := client.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Info{}, NoService(ctx, client, namespace, name, err)
	}
	port, err := choosePort(service, asked)
	if err != nil {
		return Info{}, err
	}
	if err := mayListPods(ctx, client, service); err != nil {
		return Info{}, err
	}
	around := surroundings{service: service, port: port}
	if around.slices, err = slicesOf(ctx, client, service); err != nil {
		return Info{}, err
	}
	ready, err := around.ready()
	if err != nil {
		return Info{}, err
	}
	if NeedsNodes(asked.Routes) {
		if around.nodes, err = listNodes(ctx, client); err != nil {
			return Info{}, err
		}
	}
	ways, err := around.ways(asked.Routes)
	if err != nil {
		return Info{}, err
	}
	info := around.info(ways, asked)
	info.Ready = ready
	return info, nil
}

// info returns what the Service itself says.
func (s *surroundings) info(ways []Way, asked Asked) Info {
	return Info{
		Service: timeline.Service{
			Namespace:    s.service.Namespace,
			Name:         s.service.Name,
			UID:          string(s.service.UID),
			ClusterIP:    s.service.Spec.ClusterIP,
			Ports:        ports(s.service),
			Type:         typeOf(s.service),
			ExternalName: s.service.Spec.ExternalName,
			NotCovered:   s.notCovered(slices.Concat(ways, s.fromOutside(asked))),
		},
		Port:        s.port.Port,
		PortName:    s.port.Name,
		AppProtocol: orEmpty(s.port.AppProtocol),
		Selector:    s.service.Spec.Selector,
		Family:      familiesOf(s.service)[0],
		Ways:        ways,
	}
}

// slicesOf lists the EndpointSlices of a Service. A Service of type ExternalName has none.
func slicesOf(ctx context.Context, client kube.Client, s *corev1.Service) ([]discoveryv1.EndpointSlice, error) {
	byService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name}
	list, err := client.EndpointSlices(s.Namespace).List(ctx, byService)
	if apierrors.IsForbidden(err) {
		return nil, missingRight("list", "endpointslices.discovery.k8s.io", s.Namespace, err)
	}
	if err != nil {
		return nil, fmt.Errorf("look up the endpoints of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	return list.Items, nil
}

func listNodes(ctx context.Context, client kube.Client) ([]corev1.Node, error) {
	list, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return nil, missingRight("list", "nodes", "", err)
	}
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	return list.Items, nil
}

// mayListPods returns an error if the user may not list Pods, because then nothing could be watched. It ignores other
// errors.
func mayListPods(ctx context.Context, client kube.Client, s *corev1.Service) error {
	_, err := client.Pods(s.Namespace).List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: selectorOf(s)})
	if apierrors.IsForbidden(err) {
		return missingRight("list", "pods", s.Namespace, err)
	}
	return nil
}

// NoService returns an error that explains err, the API server's answer to a request for a Service.
func NoService(ctx context.Context, client kube.Client, namespace, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return missingRight("get", "services", namespace, err)
	case !apierrors.IsNotFound(err):
		advice := "check that the API server can be reached: kubectl get services"
		return hint.Errorf(advice, "look up Service %s/%s: %w", namespace, name, err)
	}
	advice := elsewhere(ctx, client, namespace, name)
	return hint.Errorf(advice, "there is no Service %q in namespace %q", name, namespace)
}

// elsewhere returns a hint: a namespace that has a Service of that name, or else the Services of this namespace.
func elsewhere(ctx context.Context, client kube.Client, namespace, name string) string {
	named := metav1.ListOptions{Limit: 20, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()}
	list, err := client.Services(metav1.NamespaceAll).List(ctx, named)
	if err == nil {
		var namespaces []string
		for _, s := range list.Items {
			if s.Name == name {
				namespaces = append(namespaces, s.Namespace)
			}
		}
		switch len(namespaces) {
		case 0:
		case 1:
			return fmt.Sprintf("there is one in namespace %[1]s: -n %[1]s", namespaces[0])
		default:
			slices.Sort(namespaces)
			return "there is one in each of the namespaces " + strings.Join(namespaces, ", ") + ": choose with -n"
		}
	}
	return similar(ctx, client, namespace)
}

// similar returns a hint: the Services of the namespace.
func similar(ctx context.Context, client kube.Client, namespace string) string {
	list, err := client.Services(namespace).List(ctx, metav1.ListOptions{Limit: 20})
	if err != nil || len(list.Items) == 0 {
		return "name its namespace with -n; kubectl get services -A lists them all"
	}
	var names []string
	for _, s := range list.Items {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	return fmt.Sprintf("it has %s; name another namespace with -n", strings.Join(names, ", "))
}

// choosePort returns the port that the user asked for.
func choosePort(s *corev1.Service, asked Asked) (corev1.ServicePort, error) {
	port, transport := asked.Port, cmp.Or(asked.Transport, corev1.ProtocolTCP)
	if isExternalName(s) {
		return externalPort(s, port, transport)
	}
	none := corev1.ServicePort{}
	candidates := portsOver(s, transport)
	if len(candidates) == 0 {
		has := strings.Join(ports(s), ", ")
		return none, hint.Errorf(otherTransport(s), "Service %q has no %s port: it has %s", s.Name, transport, has)
	}
	has := "it has " + strings.Join(portNames(candidates), ", ")
	if port == "" && len(candidates) == 1 {
		return candidates[0], nil
	}
	if port == "" {
		advice := fmt.Sprintf("%s: name one, as in svc/%s:%s, or for a guard with the annotation lapse/port",
			has, s.Name, first(portNames(candidates)))
		return none, hint.Errorf(advice, "Service %q has %d %s ports", s.Name, len(candidates), transport)
	}
	for _, p := range candidates {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port {
			return p, nil
		}
	}
	return none, hint.Errorf(has, "Service %q has no %s port %s", s.Name, transport, port)
}

// otherTransport returns a hint how to measure a Service that has no port over the transport asked for.
func otherTransport(s *corev1.Service) string {
	switch {
	case len(portsOver(s, corev1.ProtocolUDP)) > 0:
		return "a UDP port is measured with --scheme udp and --echo TEXT, a text that the server answers; " +
			"a guard measures none"
	case len(portsOver(s, corev1.ProtocolTCP)) > 0:
		return "its TCP ports are measured with another --scheme, such as tcp"
	}
	return "only what is sent over TCP or UDP can be measured"
}

// externalPort returns the port of the external name to measure. The Service need not list it, because nothing
// translates it.
func externalPort(s *corev1.Service, port string, transport corev1.Protocol) (corev1.ServicePort, error) {
	candidates := portsOver(s, transport)
	for _, p := range candidates {
		if p.Name == port && port != "" || strconv.Itoa(int(p.Port)) == port || port == "" && len(candidates) == 1 {
			return p, nil
		}
	}
	if number, err := strconv.ParseUint(port, 10, 16); err == nil {
		return corev1.ServicePort{Port: int32(number), Protocol: transport}, nil
	}
	advice := fmt.Sprintf("as in svc/%s:443, or for a guard with the annotation lapse/port", s.Name)
	return corev1.ServicePort{}, hint.Errorf(advice,
		"Service %q only names %s: name the port to measure", s.Name, s.Spec.ExternalName)
}

// portsOver returns the ports of a Service over a transport. The default of a port is TCP.
func portsOver(s *corev1.Service, transport corev1.Protocol) []corev1.ServicePort {
	return slices.DeleteFunc(slices.Clone(s.Spec.Ports), func(p corev1.ServicePort) bool {
		return cmp.Or(p.Protocol, corev1.ProtocolTCP) != transport
	})
}

func portNames(ports []corev1.ServicePort) []string {
	var names []string
	for _, p := range ports {
		name := strconv.Itoa(int(p.Port))
		if p.Name != "" {
			name = p.Name + " (" + name + ")"
		}
		names = append(names, name)
	}
	return names
}

func first(names []string) string {
	if len(names) == 0 {
		return "PORT"
	}
	name, _, _ := strings.Cut(names[0], " ")
	return name
}

// What is wrong with a Service that has no ready endpoint.
const (
	noPortInPods   = "Service %q has ready Pods, but none with its port %d: they have no port %q"
	noPortInSlices = "Service %q has ready endpoints, but none with its port %d: no EndpointSlice has a port %q"
	noneReady      = "Service %q has no ready endpoint: there is nothing to measure yet"
)

// ready returns the number of ready endpoints; a Pod counts once. It returns an error if there is none, except for a
// Service of type ExternalName.
func (s *surroundings) ready() (int, error) {
	if isExternalName(s.service) {
		return 0, nil
	}
	ready, portless := readyAt(s.slices, s.port.Name, "")
	if ready > 0 {
		return ready, nil
	}
	name, port := s.service.Name, s.port
	kubectl := "kubectl -n " + s.service.Namespace
	if len(s.service.Spec.Selector) == 0 {
		look := fmt.Sprintf("%s get endpointslices -l %s=%s", kubectl, discoveryv1.LabelServiceName, name)
		if portless {
			advice := fmt.Sprintf("give a port of the EndpointSlice the name of the Service's port: %s -o yaml", look)
			return 0, hint.Errorf(advice, noPortInSlices, name, port.Port, port.Name)
		}
		return 0, hint.Errorf("it has no selector, so somebody must make its EndpointSlices: "+look, noneReady, name)
	}
	look := fmt.Sprintf("%s get pods -l %s", kubectl, selectorOf(s.service))
	if portless {
		advice := fmt.Sprintf("give a container port that name, or the Service another targetPort: %s -o yaml", look)
		return 0, hint.Errorf(advice, noPortInPods, name, port.Port, port.TargetPort.String())
	}
	return 0, hint.Errorf("look at its Pods: "+look, noneReady, name)
}

// readyAt returns the number of a Service's endpoints that are ready for a port on a node (empty: on any). portless
// reports whether others are ready without that port.
func readyAt(list []discoveryv1.EndpointSlice, port, node string) (ready int, portless bool) {
	isReady := func(e discoveryv1.Endpoint) bool { return stateOf(e.Conditions) == timeline.EndpointReady }
	for i := range list {
		if _, has := portOf(&list[i], port); !has {
			portless = portless || slices.ContainsFunc(list[i].Endpoints, isReady)
		}
	}
	for on, n := range readyByNode(list, port) {
		if node == "" || on == node {
			ready += n
		}
	}
	return ready, portless
}

// readyByNode returns the number of a Service's endpoints that are ready for a port on each node; "" is an unknown
// node.
func readyByNode(list []discoveryv1.EndpointSlice, port string) map[string]int {
	all := map[types.UID]*discoveryv1.EndpointSlice{}
	for i := range list {
		all[list[i].UID] = &list[i]
	}
	on := map[string]*timeline.Endpoints{}
	for at, e := range merge(all, port) {
		if on[e.pod.Node] == nil {
			on[e.pod.Node] = &timeline.Endpoints{}
		}
		on[e.pod.Node].Set(e.pod, at.addr, e.port, e.state)
	}
	counts := map[string]int{}
	for node, endpoints := range on {
		if n := endpoints.Ready(); n > 0 {
			counts[node] = n
		}
	}
	return counts
}
