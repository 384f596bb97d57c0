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
	"sigs.k8s.io/yaml"

	"lapse/hint"
	"lapse/kube"
	"lapse/timeline"
)

// Info is what there is to know of a Service before it is measured.
type Info struct {
	Service  timeline.Service
	Cluster  timeline.Cluster
	Port     int32  // the port to measure
	PortName string // its name; empty if it has none

	AppProtocol string // of the port, as its Service says; empty if it does not
	Selector    map[string]string
	Ready       int // endpoints that are ready now
}

// Describe looks a Service up. port is one of its ports over transport, by number or name, or empty if it has only one. The error
// says why the Service cannot be measured; where that can be put right, it has a hint.
func Describe(ctx context.Context, client kube.Client, namespace, name, port string, transport corev1.Protocol) (Info, error) {
	service, err := client.Services(namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return Info{}, NoService(ctx, client, namespace, name, err)
	}
	if err := measurable(service); err != nil {
		return Info{}, err
	}
	p, err := choosePort(service, port, transport)
	if err != nil {
		return Info{}, err
	}
	if err := mayListPods(ctx, client, service); err != nil {
		return Info{}, err
	}
	ready, err := readyEndpoints(ctx, client, service, p)
	if err != nil {
		return Info{}, err
	}
	info := Info{
		Service: timeline.Service{Namespace: namespace, Name: name, ClusterIP: service.Spec.ClusterIP, Ports: ports(service)},
		Port:    p.Port, PortName: p.Name, Selector: service.Spec.Selector, Ready: ready,
	}
	info.Cluster = DescribeCluster(ctx, client)
	return info, nil
}

// DescribeCluster says what the rights to see of the cluster allow.
func DescribeCluster(ctx context.Context, client kube.Client) (c timeline.Cluster) {
	if v, err := client.Version(ctx); err == nil {
		c.Version = v.GitVersion
	}
	c.ProxyMode = proxyMode(ctx, client)
	return c
}

// mayListPods fails only if the right to is missing: without it there is nothing to watch later.
func mayListPods(ctx context.Context, client kube.Client, s *corev1.Service) error {
	_, err := client.Pods(s.Namespace).List(ctx, metav1.ListOptions{Limit: 1, LabelSelector: selectorOf(s)})
	if apierrors.IsForbidden(err) {
		return missingRight("list", "pods", s.Namespace, err)
	}
	return nil
}

// proxyMode reads kube-proxy's mode where kubeadm and its kind keep it. Few may read that; then it is empty.
// https://kubernetes.io/docs/reference/config-api/kube-proxy-config.v1alpha1/
func proxyMode(ctx context.Context, client kube.Client) string {
	cm, err := client.ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	if err != nil || cm.Data["config.conf"] == "" {
		return ""
	}
	var config struct {
		Mode string `json:"mode"`
	}
	if err := yaml.Unmarshal([]byte(cm.Data["config.conf"]), &config); err != nil {
		return ""
	}
	return cmp.Or(config.Mode, "iptables")
}

// NoService explains why a Service could not be read, with err as the API server gave it.
func NoService(ctx context.Context, client kube.Client, namespace, name string, err error) error {
	switch {
	case apierrors.IsForbidden(err), apierrors.IsUnauthorized(err):
		return missingRight("get", "services", namespace, err)
	case !apierrors.IsNotFound(err):
		return hint.Errorf("check that the API server can be reached: kubectl get services", "look up Service %s/%s: %w", namespace, name, err)
	}
	return hint.Errorf(elsewhere(ctx, client, namespace, name), "there is no Service %q in namespace %q", name, namespace)
}

// elsewhere hints at the Service of that name in other namespaces, or at the other Services of this one.
func elsewhere(ctx context.Context, client kube.Client, namespace, name string) string {
	list, err := client.Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 20, FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err == nil {
		for _, s := range list.Items {
			if s.Name == name {
				return fmt.Sprintf("there is one in namespace %s: -n %s", s.Namespace, s.Namespace)
			}
		}
	}
	return similar(ctx, client, namespace)
}

// similar hints at the Services there are.
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

// measurable refuses Services without an address of their own, or without Pods.
func measurable(s *corev1.Service) error {
	switch {
	case s.Spec.Type == corev1.ServiceTypeExternalName:
		return hint.Errorf(fmt.Sprintf("measure where it leads instead: http://%s/", s.Spec.ExternalName), "Service %q is of type ExternalName: it only names %s", s.Name, s.Spec.ExternalName)
	case s.Spec.ClusterIP == corev1.ClusterIPNone:
		return hint.Errorf("give the workload a Service with a cluster IP beside it, and measure that", "Service %q is headless: its clients resolve and choose Pods themselves, so there is no one address to measure", s.Name)
	case len(s.Spec.Selector) == 0:
		return hint.Errorf(fmt.Sprintf("give it a selector; from a machine that reaches %s, that can be measured as a URL", s.Spec.ClusterIP),
			"Service %q has no selector: its endpoints are made by hand, and only Services that select their Pods can be measured", s.Name)
	}
	return nil
}

// choosePort finds the port over a transport that is meant.
func choosePort(s *corev1.Service, port string, transport corev1.Protocol) (corev1.ServicePort, error) {
	candidates := portsOver(s, transport)
	if len(candidates) == 0 {
		return corev1.ServicePort{}, hint.Errorf(otherTransport(s), "Service %q has no %s port: it has %s", s.Name, transport, strings.Join(ports(s), ", "))
	}
	has := "it has " + strings.Join(portNames(candidates), ", ")
	if port == "" && len(candidates) == 1 {
		return candidates[0], nil
	}
	if port == "" {
		return corev1.ServicePort{}, hint.Errorf(fmt.Sprintf("%s: name one, as in svc/%s:%s", has, s.Name, first(portNames(candidates))), "Service %q has %d %s ports", s.Name, len(candidates), transport)
	}
	for _, p := range candidates {
		if p.Name == port || strconv.Itoa(int(p.Port)) == port {
			return p, nil
		}
	}
	return corev1.ServicePort{}, hint.Errorf(has, "Service %q has no %s port %s", s.Name, transport, port)
}

// otherTransport hints at how a Service without a port over the transport that was asked for can be measured.
func otherTransport(s *corev1.Service) string {
	switch {
	case len(portsOver(s, corev1.ProtocolUDP)) > 0:
		return "a UDP port is measured with --scheme udp and --echo TEXT, a text that the server answers"
	case len(portsOver(s, corev1.ProtocolTCP)) > 0:
		return "its TCP ports are measured with another --scheme, such as tcp"
	}
	return "only what is sent over TCP or UDP can be measured"
}

// portsOver are the ports of a Service over a transport. TCP is what a port has that says nothing.
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

// readyEndpoints counts the Pods, or addresses without one, that take requests now, and refuses to measure a Service without any.
func readyEndpoints(ctx context.Context, client kube.Client, s *corev1.Service, port corev1.ServicePort) (int, error) {
	list, err := client.EndpointSlices(s.Namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Name})
	if apierrors.IsForbidden(err) {
		return 0, missingRight("list", "endpointslices.discovery.k8s.io", s.Namespace, err)
	}
	if err != nil {
		return 0, fmt.Errorf("look up the endpoints of Service %s/%s: %w", s.Namespace, s.Name, err)
	}
	ready, portless := readyAt(list.Items, port.Name, "")
	pods := fmt.Sprintf("kubectl -n %s get pods -l %s", s.Namespace, metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: s.Spec.Selector}))
	switch {
	case ready > 0:
		return ready, nil
	case portless:
		return 0, hint.Errorf(fmt.Sprintf("give a container port that name, or the Service another targetPort: %s -o yaml", pods),
			"Service %q has ready Pods, but none with its port %d: they have no port %q", s.Name, port.Port, port.TargetPort.String())
	}
	return 0, hint.Errorf("look at its Pods: "+pods, "Service %q has no ready endpoint: there is nothing to measure yet", s.Name)
}

// readyAt counts the endpoints of one Service that are ready on a node, or on any if it is empty, for a port, and says whether there are ready ones without the port.
func readyAt(list []discoveryv1.EndpointSlice, port, node string) (ready int, portless bool) {
	all := map[types.UID]*discoveryv1.EndpointSlice{}
	for i := range list {
		slice := &list[i]
		all[slice.UID] = slice
		if _, has := portOf(slice, port); !has {
			portless = portless || slices.ContainsFunc(slice.Endpoints, func(e discoveryv1.Endpoint) bool { return stateOf(e.Conditions) == timeline.EndpointReady })
		}
	}
	var endpoints timeline.Endpoints
	for at, e := range merge(all, port) {
		if node == "" || e.pod.Node == node {
			endpoints.Set(e.pod, at.addr, e.port, e.state)
		}
	}
	return endpoints.Ready(), portless
}
