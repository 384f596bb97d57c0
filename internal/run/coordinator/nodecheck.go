package coordinator

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"time"

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

const (
	// mostChecks is how many ports of nodes are asked at most.
	mostChecks = 100
	// idleChecks is the time between two checks of a port while nothing happens: a guard may have many Services, and a
	// cluster many nodes.
	idleChecks = 15 * time.Second
)

// nodesAgain is the least time between two lists of the nodes to ask.
const nodesAgain = time.Minute

// checkNodes asks the nodes what load balancers ask them, until ctx ends, if a Service of the run can have a load
// balancer. Without it the rest is measured.
func (m *measurement) checkNodes(ctx context.Context) {
	checks := make(chan []nodecheck.Check)
	var finding sync.WaitGroup
	finding.Go(func() { m.findChecks(ctx, checks) })
	nodecheck.Run(ctx, nodecheck.Config{Checks: checks, Interval: m.checkInterval, Clock: m.Clock, Sink: m.Queue.Put})
	finding.Wait()
}

// checkInterval returns the time between two checks of one port of a node.
func (m *measurement) checkInterval() time.Duration {
	if m.raised != nil && !m.raised() {
		return idleChecks
	}
	return nodecheck.Interval
}

// findChecks sends the ports of nodes to ask, and again when nodes or Services have changed, until ctx ends. If they
// cannot be found, the same ports as before are asked, and it tries again.
func (m *measurement) findChecks(ctx context.Context, to chan<- []nodecheck.Check) {
	for said := ""; ; {
		checks, notAsked := m.nodeChecks(ctx)
		if ctx.Err() != nil {
			return
		}
		if notAsked != "" && notAsked != said {
			m.Queue.Put(timeline.Event{
				Seen: m.Clock.Now(), Kind: timeline.NodeChecked, To: timeline.CheckNotAsked, Detail: notAsked,
			})
		}
		said = notAsked
		failed := checks == nil && notAsked != ""
		if !failed {
			select {
			case to <- checks:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(nodesAgain):
		case <-ctx.Done():
			return
		}
		if failed {
			continue
		}
		select {
		case <-m.nodesChanged:
		case <-ctx.Done():
			return
		}
	}
}

// noteNodes makes [measurement.findChecks] look again if what is to be asked may change by an event.
func (m *measurement) noteNodes(e timeline.EventKind) {
	switch e {
	case timeline.NodeReady, timeline.NodeGone, timeline.ServiceChanged:
		select {
		case m.nodesChanged <- struct{}{}:
		default: // it will look
		}
	}
}

// nodeChecks returns the ports of nodes to ask. notAsked says why there are none, or which are left out. Where no
// Service can be reached at the nodes' addresses, there is nothing to ask, and notAsked is empty.
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

// checksOf returns kube-proxy's health check of each node, and the health-check node ports of the Services that have
// one.
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
				at := netip.AddrPortFrom(addr, uint16(port))
				service := s.Namespace + "/" + s.Name
				own = append(own, nodecheck.Check{Node: node.Name, Addr: at, Path: "/healthz", Service: service})
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

// internalIP returns a node's first InternalIP.
func internalIP(node corev1.Node) (addr netip.Addr, ok bool) {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			addr, err := netip.ParseAddr(a.Address)
			return addr, err == nil
		}
	}
	return addr, false
}
