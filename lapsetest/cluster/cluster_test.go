package cluster_test

import (
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"lapse"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/lapsetest"
	"lapse/lapsetest/cluster"
	"lapse/timeline"
)

// A node is a node of a fake cluster: this machine, on which a server listens at the node port of Service shop/web.
type node struct {
	*fake.Clientset
	addr   string
	server *http.Server
	slice  *discoveryv1.EndpointSlice
}

func newNode(t *testing.T) *node {
	n := &node{}
	n.serve(t, "127.0.0.1:0")
	port := int32(netPort(t, n.addr))
	meta := func(name string) metav1.ObjectMeta {
		labels := map[string]string{"app": "web", discoveryv1.LabelServiceName: "web"}
		return metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: labels}
	}
	pod := &corev1.Pod{ObjectMeta: meta("web-1"), Spec: corev1.PodSpec{NodeName: "node1"}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "10.0.0.1", Conditions: []corev1.PodCondition{
		{Type: corev1.PodReady, Status: corev1.ConditionTrue},
	}}
	service := &corev1.Service{ObjectMeta: meta("web"), Spec: corev1.ServiceSpec{
		Type: corev1.ServiceTypeNodePort, ClusterIP: "10.96.0.9", Selector: map[string]string{"app": "web"},
		Ports: []corev1.ServicePort{{Name: "http", Port: 80, NodePort: port, Protocol: corev1.ProtocolTCP}},
	}}
	machine := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}
	machine.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}
	n.slice = &discoveryv1.EndpointSlice{
		ObjectMeta: meta("web-a"), AddressType: discoveryv1.AddressTypeIPv4,
		Ports: []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{{
			Addresses: []string{"10.0.0.1"}, NodeName: new("node1"),
			TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: pod.UID},
		}},
	}
	n.Clientset = fake.NewSimpleClientset(pod, service, machine, n.slice)
	return n
}

func netPort(t *testing.T, addr string) int {
	t.Helper()
	a, err := net.ResolveTCPAddr("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return a.Port
}

func (n *node) serve(t *testing.T, addr string) {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	n.addr = ln.Addr().String()
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	n.server = server
	go func() { _ = server.Serve(ln) }() // http.ErrServerClosed
	t.Cleanup(func() { server.Close() })
}

// endpoints sets the endpoints of the Service.
func (n *node) endpoints(t *testing.T, endpoints ...discoveryv1.Endpoint) {
	t.Helper()
	changed := n.slice.DeepCopy()
	changed.Endpoints = endpoints
	_, err := n.DiscoveryV1().EndpointSlices("shop").Update(t.Context(), changed, metav1.UpdateOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

func soon(s *lapse.Spec) { s.Baseline, s.Settle = time.Second, time.Second }

// A Service whose only endpoint leaves is measured at its node port, and the failures have this cause.
func TestFailuresHaveTheirCauseInTheCluster(t *testing.T) {
	layer.Real(t)
	n := newNode(t)
	m := cluster.StartWith(t, kubetest.Client(n.Clientset), cluster.Service{Namespace: "shop", Name: "web"},
		lapsetest.With(soon), lapsetest.OrInconclusive())
	n.endpoints(t)
	n.server.Close()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for refused := 0; refused < 20; <-tick.C {
		if _, err := net.Dial("tcp", n.addr); err != nil {
			refused++
		}
	}
	n.serve(t, n.addr)
	n.endpoints(t, n.slice.Endpoints...)
	r := m.Stop()
	if len(r.Windows) == 0 || r.Windows[0].Causes[0].Rule != "no-ready-endpoint" {
		t.Errorf("windows %+v: want the cause no-ready-endpoint", r.Windows)
	}
	if name := r.Targets[0].Name; name != "web nodeport node1 new" {
		t.Errorf("the first target is %q", name)
	}
	if s := r.Run.Services; len(s) != 1 || !strings.Contains(fmt.Sprint(s[0].NotCovered), "cluster IP was not asked") {
		t.Errorf("services %+v: want it said what a pass does not cover", s)
	}
}

// A Service that is reached at a URL is watched all the same.
func TestAURLOfTheServiceIsMeasured(t *testing.T) {
	layer.Real(t)
	n := newNode(t)
	s := cluster.Service{Namespace: "shop", Name: "web", URL: "http://" + n.addr + "/"}
	m := cluster.StartWith(t, kubetest.Client(n.Clientset), s, lapsetest.With(soon), lapsetest.OrInconclusive())
	n.endpoints(t)
	r := m.Stop().NoFailures()
	left := 0
	for _, e := range r.Events {
		if e.Kind == timeline.EndpointChanged && e.To == timeline.EndpointAbsent {
			left++
		}
	}
	if r.Targets[0].Service != "shop/web" || r.Targets[0].Sent == 0 || left != 1 {
		t.Errorf("target %+v, %d endpoints left", r.Targets[0], left)
	}
}
