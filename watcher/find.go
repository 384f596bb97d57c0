package watcher

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube"
	"lapse/timeline"
)

// A Query selects Services.
type Query struct {
	Namespace string // empty: all
	Selector  string // of the Services' labels; empty: all Services
	Node      string // only Services with endpoints on it; empty: all
}

// Find returns the Services that a query selects, in the order of namespace and name, and those that cannot be
// measured. It sends two requests in all. Of several TCP ports it chooses the one named http, else the first. It does
// not fill in Info.Cluster.
func Find(ctx context.Context, client kube.Client, q Query) (found []Info, aside []timeline.SetAside, err error) {
	services, err := client.Services(q.Namespace).List(ctx, metav1.ListOptions{LabelSelector: q.Selector})
	if err != nil {
		return nil, nil, notListed("services", q.Namespace, err)
	}
	list, err := client.EndpointSlices(q.Namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, notListed("endpointslices.discovery.k8s.io", q.Namespace, err)
	}
	of := map[string][]discoveryv1.EndpointSlice{}
	for _, slice := range list.Items {
		service := slice.Namespace + "/" + slice.Labels[discoveryv1.LabelServiceName]
		of[service] = append(of[service], slice)
	}
	slices.SortFunc(services.Items, func(a, b corev1.Service) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	onNode := func(slice discoveryv1.EndpointSlice) bool { return isOn(slice, q.Node) }
	for i := range services.Items {
		s := &services.Items[i]
		endpoints := of[s.Namespace+"/"+s.Name]
		if q.Node != "" && !slices.ContainsFunc(endpoints, onNode) {
			continue
		}
		info, why := q.look(s, endpoints)
		if why != "" {
			aside = append(aside, timeline.SetAside{Namespace: s.Namespace, Name: s.Name, Why: why})
			continue
		}
		found = append(found, info)
	}
	return found, aside, nil
}

func notListed(resource, namespace string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) {
		return missingRight("list", resource, namespace, err)
	}
	return fmt.Errorf("list %s: %w", resource, err)
}

// isOn reports whether one of the slice's endpoints is on the node.
func isOn(slice discoveryv1.EndpointSlice, node string) bool {
	onNode := func(e discoveryv1.Endpoint) bool { return orEmpty(e.NodeName) == node }
	return slices.ContainsFunc(slice.Endpoints, onNode)
}

// look describes a Service that the query selects, or says why it cannot be measured.
func (q Query) look(s *corev1.Service, endpoints []discoveryv1.EndpointSlice) (info Info, why string) {
	if q.Namespace == "" && isSystem(s) {
		return Info{}, "it belongs to the cluster: measure it with -n " + s.Namespace
	}
	if isExternalName(s) {
		const why = "it only names %s and has no endpoints: measure it with svc/%s:PORT"
		return Info{}, fmt.Sprintf(why, s.Spec.ExternalName, s.Name)
	}
	port, ok := mainPort(s)
	if !ok {
		return Info{}, "it has no TCP port"
	}
	ready, portless := readyAt(endpoints, port.Name, q.Node)
	switch {
	case ready > 0:
	case portless:
		return Info{}, "its ready endpoints do not have its port"
	case q.Node != "":
		return Info{}, "it has no ready endpoint on " + q.Node
	default:
		return Info{}, "it has no ready endpoint"
	}
	around := surroundings{service: s, port: port, slices: endpoints}
	ways, err := around.defaultWays()
	if err != nil {
		return Info{}, strings.TrimPrefix(err.Error(), fmt.Sprintf("Service %q ", s.Name))
	}
	info = around.info(ways, Asked{})
	info.Ready = ready
	return info, ""
}

// isSystem reports whether a Service is one of the cluster's own.
func isSystem(s *corev1.Service) bool {
	return s.Namespace == metav1.NamespaceSystem || s.Namespace == metav1.NamespaceDefault && s.Name == "kubernetes"
}

// mainPort returns the TCP port to measure if the user names none.
func mainPort(s *corev1.Service) (port corev1.ServicePort, ok bool) {
	tcp := portsOver(s, corev1.ProtocolTCP)
	if i := slices.IndexFunc(tcp, func(p corev1.ServicePort) bool { return p.Name == "http" }); i >= 0 {
		return tcp[i], true
	}
	if len(tcp) == 0 {
		return port, false
	}
	return tcp[0], true
}
