package watcher

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/kube/kubetest"
)

// placed is the Service web under another name, with an EndpointSlice whose only endpoint is on a node.
func placed(namespace, name, node string, conditions discoveryv1.EndpointConditions, change func(*corev1.Service)) []runtime.Object {
	s := with(service(), func(s *corev1.Service) {
		s.Namespace, s.Name, s.Labels = namespace, name, map[string]string{"team": namespace}
		change(s)
	})
	endpoint := endpointOf(pod(1), conditions)
	endpoint.NodeName = &node
	own := with(slice(name+"-a", endpoint), func(s *discoveryv1.EndpointSlice) {
		s.Namespace, s.Labels = namespace, map[string]string{discoveryv1.LabelServiceName: name}
	})
	return []runtime.Object{s, own}
}

// What a query means is measured or set aside with the reason, and nothing else is named.
func TestFindSetsAsideWhatCannotBeMeasured(t *testing.T) {
	asIs := func(*corev1.Service) {}
	var objects []runtime.Object
	for _, more := range [][]runtime.Object{
		placed("shop", "web", "node1", ready, asIs),
		placed("bank", "web", "node2", ready, func(s *corev1.Service) {
			s.Spec.Ports = append([]corev1.ServicePort{{Name: "grpc", Port: 9000}}, s.Spec.Ports...)
			s.Spec.Ports[1].AppProtocol = new("http")
		}),
		placed("shop", "down", "node1", notReady, asIs),
		placed("shop", "headless", "node1", ready, func(s *corev1.Service) { s.Spec.ClusterIP = corev1.ClusterIPNone }),
		placed("shop", "outside", "node2", ready, func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.org"
		}),
		placed("shop", "byhand", "node2", ready, func(s *corev1.Service) { s.Spec.Selector = nil }),
		placed("shop", "dns", "node2", ready, func(s *corev1.Service) { s.Spec.Ports[0].Protocol = corev1.ProtocolUDP }),
		placed("shop", "portless", "node2", ready, func(s *corev1.Service) { s.Spec.Ports[0].Name = "other" }),
		placed("default", "kubernetes", "node1", ready, asIs),
		placed("kube-system", "kube-dns", "node1", ready, asIs),
	} {
		objects = append(objects, more...)
	}
	client := kubetest.Client(fake.NewSimpleClientset(objects...))
	const (
		own     = "it belongs to the cluster: measure it with -n kube-system"
		outside = "it only names example.org and has no endpoints: measure it with svc/outside:PORT"
	)
	for name, test := range map[string]struct {
		query Query
		found []string
		aside map[string]string
	}{
		"all": {Query{}, []string{"bank/web", "shop/byhand", "shop/headless", "shop/web"}, map[string]string{
			"default/kubernetes": "it belongs to the cluster: measure it with -n default", "kube-system/kube-dns": own, "shop/dns": "it has no TCP port",
			"shop/down": "it has no ready endpoint", "shop/outside": outside, "shop/portless": "its ready endpoints do not have its port",
		}},
		"a node": {Query{Node: "node1"}, []string{"shop/headless", "shop/web"}, map[string]string{
			"default/kubernetes": "it belongs to the cluster: measure it with -n default", "kube-system/kube-dns": own, "shop/down": "it has no ready endpoint on node1",
		}},
		"labels":     {Query{Selector: "team=bank"}, []string{"bank/web"}, nil},
		"asked for":  {Query{Namespace: metav1.NamespaceSystem}, []string{"kube-system/kube-dns"}, nil},
		"other node": {Query{Namespace: "shop", Node: "node3"}, nil, nil},
		"both":       {Query{Namespace: "bank", Node: "node2"}, []string{"bank/web"}, nil},
	} {
		found, aside, err := Find(t.Context(), client, test.query)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		var names []string
		for _, info := range found {
			names = append(names, info.Service.Namespace+"/"+info.Service.Name)
			if info.Port != 80 || info.PortName != "http" || info.Ready != 1 || (info.AppProtocol == "http") != (info.Service.Namespace == "bank") {
				t.Errorf("%s: %+v", name, info)
			}
		}
		var why map[string]string
		for _, s := range aside {
			if why == nil {
				why = map[string]string{}
			}
			why[s.Namespace+"/"+s.Name] = s.Why
		}
		if diff := cmp.Diff(test.found, names); diff != "" {
			t.Errorf("%s: found (-want +got):\n%s", name, diff)
		}
		if diff := cmp.Diff(test.aside, why); diff != "" {
			t.Errorf("%s: set aside (-want +got):\n%s", name, diff)
		}
	}
}
