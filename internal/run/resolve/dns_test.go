package resolve

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/internal/kube/kubetest"
	"lapse/internal/run/spec"
)

// dnsSlice returns a slice of the cluster's DNS Service. Ports are "name/protocol/number".
func dnsSlice(name string, ports []string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "kube-dns"}}, Endpoints: endpoints,
	}
	for _, port := range ports {
		var number int32
		words := strings.Split(port, "/")
		_, _ = fmt.Sscan(words[2], &number)
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &words[0], Protocol: new(corev1.Protocol(words[1])), Port: &number})
	}
	return slice
}

func coreDNS(pod, node, addr string) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{addr}, NodeName: &node, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "kube-system", Name: pod, UID: "x"},
	}
}

// findDNSIn returns the DNS servers that `lapse routes` finds in a cluster.
func findDNSIn(t *testing.T, clientset *fake.Clientset) *spec.DNS {
	t.Helper()
	return findDNS(t.Context(), kubetest.Client(clientset))
}

// The servers are the ready endpoints of kube-dns with their port for UDP, each address once. A server that is no Pod
// has no name.
func TestDNSServersAreFound(t *testing.T) {
	unready := coreDNS("coredns-3", "node3", "10.244.3.2")
	unready.Conditions.Ready = new(false)
	found := findDNSIn(t, fake.NewClientset(
		dnsSlice("a", []string{"metrics/TCP/9153", "dns-tcp/TCP/53", "other/UDP/99", "dns/UDP/5353"}, coreDNS("coredns-2", "node2", "10.244.2.2"), coreDNS("coredns-1", "node1", "10.244.1.2"), unready),
		dnsSlice("b", []string{"/UDP/53"}, discoveryv1.Endpoint{Addresses: []string{"fd00::2"}}),
		dnsSlice("c", []string{"dns/UDP/5353"}, coreDNS("coredns-1", "node1", "10.244.1.2")),
		dnsSlice("d", []string{"dns-tcp/TCP/53"}, coreDNS("coredns-4", "node4", "10.244.4.2")),
	))
	var got []string
	for _, s := range found.Servers {
		got = append(got, s.Addr.String()+" "+s.Pod.Name+" "+s.Pod.Node)
	}
	if want := "[fd00::2]:53  , 10.244.1.2:5353 coredns-1 node1, 10.244.2.2:5353 coredns-2 node2"; strings.Join(got, ", ") != want || found.NotAsked != "" {
		t.Errorf("%q, not asked: %q, want %q", got, found.NotAsked, want)
	}
}

// Without the right to see DNS servers, or without any, that alone is not measured, and the run learns why. More than
// may be asked are named.
func TestDNSThatCannotBeAskedIsSaid(t *testing.T) {
	failing := func(err error) *fake.Clientset {
		clientset := fake.NewClientset()
		clientset.PrependReactor("list", "endpointslices", func(ktesting.Action) (bool, runtime.Object, error) { return true, nil, err })
		return clientset
	}
	many := make([]discoveryv1.Endpoint, mostDNSServers+2)
	for i := range many {
		many[i] = coreDNS(fmt.Sprintf("coredns-%02d", i), "node1", fmt.Sprintf("10.244.0.%d", i+1))
	}
	for name, test := range map[string]struct {
		clientset *fake.Clientset
		servers   int
		why       string
	}{
		"no right": {failing(apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "", errors.New("no"))), 0, "no right to list the EndpointSlices of namespace kube-system"},
		"an error": {failing(errors.New("broken")), 0, "the EndpointSlices of namespace kube-system could not be listed: broken"},
		"none":     {fake.NewClientset(), 0, "Service kube-system/kube-dns has no ready endpoint for DNS over UDP"},
		"many":     {fake.NewClientset(dnsSlice("a", []string{"dns/UDP/53"}, many...)), mostDNSServers, "at most 20 addresses are asked, and these are not: 10.244.0.21, 10.244.0.22"},
	} {
		t.Run(name, func(t *testing.T) {
			if found := findDNSIn(t, test.clientset); len(found.Servers) != test.servers || found.NotAsked != test.why {
				t.Errorf("%d servers, not asked: %q", len(found.Servers), found.NotAsked)
			}
		})
	}
}
