package coordinator

import (
	"context"
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/run/spec"
	"lapse/loadgen/nodecheck"
	"lapse/timeline"
)

// kubeProxyHealth is kube-proxy's health check, by its default address.
// https://kubernetes.io/docs/reference/command-line-tools-reference/kube-proxy/
const kubeProxyHealth = 10256

// mostChecks is how many ports of nodes are asked at most, each once per second.
const mostChecks = 100

// checkNodes asks the nodes what load balancers ask them, until ctx ends, where a Service of the run can have one
// before it. What stands in the way costs only that.
func (m *measurement) checkNodes(ctx context.Context) {
	checks, notAsked := m.nodeChecks(ctx)
	if ctx.Err() != nil {
		return
	}
	if notAsked != "" {
		m.Queue.Put(timeline.Event{Seen: m.Clock.Now(), Kind: timeline.NodeChecked, To: timeline.CheckNotAsked, Detail: notAsked})
	}
	nodecheck.Run(ctx, nodecheck.Config{Checks: checks, Clock: m.Clock, Sink: m.Queue.Put})
}

// nodeChecks are the ports of nodes to ask; notAsked says in words why there are none, or which are not among them.
// Where no Service can be reached by the nodes' own addresses, there is nothing to ask and nothing to say.
func (m *measurement) nodeChecks(ctx context.Context) (checks []nodecheck.Check, notAsked string) {
	var services []corev1.Service
	for _, s := range m.Distinct() {
		service, err := m.Client.Services(s.Namespace).Get(ctx, s.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err): // it may come later
		case err != nil:
			return nil, fmt.Sprintf("Service %s could not be read: %v", spec.ServiceKey(s), err)
		case service.Spec.Type == corev1.ServiceTypeNodePort, service.Spec.Type == corev1.ServiceTypeLoadBalancer:
			services = append(services, *service)
		}
	}
	if len(services) == 0 {
		return nil, ""
	}
	nodes, err := m.Client.Nodes().List(ctx, metav1.ListOptions{})
	switch {
	case apierrors.IsForbidden(err):
		return nil, "no right to list nodes"
	case err != nil:
		return nil, fmt.Sprintf("the nodes could not be listed: %v", err)
	}
	return checksOf(nodes.Items, services)
}

// checksOf are kube-proxy's health check of each node, and the health-check node ports of the Services that have one.
func checksOf(nodes []corev1.Node, services []corev1.Service) (checks []nodecheck.Check, notAsked string) {
	leftOut := 0
	for _, node := range nodes {
		addr, ok := internalIP(node)
		if !ok {
			continue
		}
		own := []nodecheck.Check{{Node: node.Name, Addr: netip.AddrPortFrom(addr, kubeProxyHealth), Path: "/healthz"}}
		for _, s := range services {
			if port := s.Spec.HealthCheckNodePort; port > 0 {
				own = append(own, nodecheck.Check{Node: node.Name, Addr: netip.AddrPortFrom(addr, uint16(port)), Path: "/healthz", Service: s.Namespace + "/" + s.Name})
			}
		}
		if len(checks)+len(own) > mostChecks {
			leftOut++
			continue
		}
		checks = append(checks, own...)
	}
	if leftOut > 0 {
		notAsked = fmt.Sprintf("at most %d ports of nodes are asked: those of %d nodes are not", mostChecks, leftOut)
	}
	return checks, notAsked
}

// internalIP is a node's first InternalIP.
func internalIP(node corev1.Node) (addr netip.Addr, ok bool) {
	i := slices.IndexFunc(node.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP })
	if i < 0 {
		return addr, false
	}
	addr, err := netip.ParseAddr(node.Status.Addresses[i].Address)
	return addr, err == nil
}
