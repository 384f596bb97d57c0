package coordinator

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/kube/kubetest"
	"lapse/internal/run/resolve"
	"lapse/internal/run/spec"
	"lapse/loadgen/nodecheck"
	"lapse/timeline"
	"lapse/watcher"
)

func nodeAt(name, addr string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
		{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: addr},
	}}}
}

func serviceOf(kind corev1.ServiceType, healthPort int32) *corev1.Service {
	return &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: corev1.ServiceSpec{Type: kind, HealthCheckNodePort: healthPort}}
}

// What a load balancer can ask is asked of each node: kube-proxy, and the Service's own port where it has one. A
// Service that is only within the cluster has no load balancer before it.
func TestNodesAreAskedWhatLoadBalancersAsk(t *testing.T) {
	for name, tt := range map[string]struct {
		service  *corev1.Service
		want     string
		notAsked string
	}{
		"cluster IP":   {serviceOf(corev1.ServiceTypeClusterIP, 0), "[]", ""},
		"node port":    {serviceOf(corev1.ServiceTypeNodePort, 0), "[{node1 10.0.0.1:10256 /healthz } {node2 10.0.0.2:10256 /healthz }]", ""},
		"local policy": {serviceOf(corev1.ServiceTypeLoadBalancer, 30123), "[{node1 10.0.0.1:10256 /healthz } {node1 10.0.0.1:30123 /healthz shop/web} {node2 10.0.0.2:10256 /healthz } {node2 10.0.0.2:30123 /healthz shop/web}]", ""},
	} {
		client := fake.NewClientset([]runtime.Object{tt.service, nodeAt("node1", "10.0.0.1"), nodeAt("node2", "10.0.0.2"), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "without"}}}...)
		m := &measurement{Found: resolve.Found{Client: kubetest.Client(client), Services: []spec.Service{{Info: watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web"}}}}}}
		checks, notAsked := m.nodeChecks(t.Context())
		if got := fmt.Sprint(checks); got != tt.want || notAsked != tt.notAsked {
			t.Errorf("%s: %s %q, want %s %q", name, got, notAsked, tt.want, tt.notAsked)
		}
	}
}

// A guard goes on for weeks. Nodes come and go, and the API server cannot always be asked.
func TestNodesThatComeAreAskedAndThoseThatGoAreNot(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := fake.NewClientset(serviceOf(corev1.ServiceTypeNodePort, 0), nodeAt("node1", "10.0.0.1"))
		m := &measurement{nodesChanged: make(chan struct{}, 1), Found: resolve.Found{Client: kubetest.Client(client), Services: []spec.Service{{Info: watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web"}}}}}}
		ctx, stop := context.WithCancel(t.Context())
		checks := make(chan []nodecheck.Check)
		var finding sync.WaitGroup
		finding.Go(func() { m.findChecks(ctx, checks) })
		want := func(nodes ...string) {
			t.Helper()
			var asked []string
			for _, c := range <-checks {
				asked = append(asked, c.Node)
			}
			if !slices.Equal(asked, nodes) {
				t.Errorf("asks %v, want %v", asked, nodes)
			}
		}
		want("node1")
		nodes := client.CoreV1().Nodes()
		if _, err := nodes.Create(ctx, nodeAt("node2", "10.0.0.2"), metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		m.noteNodes(timeline.NodeReady)
		want("node1", "node2")
		if err := nodes.Delete(ctx, "node1", metav1.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		m.noteNodes(timeline.NodeGone)
		want("node2")
		time.Sleep(time.Hour)
		synctest.Wait()
		select {
		case <-checks:
			t.Error("looked again though nothing changed")
		default:
		}
		stop()
		finding.Wait()
	})
}

func TestNotMoreNodesAreAskedThanSaid(t *testing.T) {
	var nodes []corev1.Node
	for i := range 130 {
		nodes = append(nodes, *nodeAt(fmt.Sprintf("node%d", i), fmt.Sprintf("10.0.1.%d", i)))
	}
	checks, notAsked := checksOf(nodes, nil)
	if len(checks) != 100 || checks[0] != (nodecheck.Check{Node: "node0", Addr: checks[0].Addr, Path: "/healthz"}) || notAsked != "at most 100 ports of nodes are asked: those of 30 nodes are not" {
		t.Errorf("%d checks, %q", len(checks), notAsked)
	}
}
