package watcher

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
	"lapse/timeline"
)

func TestDescribeTellsWhatAMeasurementNeeds(t *testing.T) {
	client := kubetest.Client(fake.NewSimpleClientset(service(), slice("web-a", endpointOf(pod(1), ready), endpointOf(pod(2), notReady)), slice("web-b", endpointOf(pod(1), ready))))
	got, err := Describe(t.Context(), client, "shop", "web", Asked{})
	if err != nil {
		t.Fatal(err)
	}
	want := Info{
		Service: timeline.Service{Namespace: "shop", Name: "web", UID: "web", ClusterIP: "10.96.0.9", Ports: []string{"80/TCP"}, Type: "ClusterIP"},
		Port:    80, PortName: "http", Selector: map[string]string{"app": "web"}, Family: 4, Ready: 1, Ways: []Way{{Port: 80}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The mode that is set has a minSyncPeriod of its own. Without the right to read it, or where there is none, nothing is
// said of it.
func TestDescribeClusterReadsTheProxysConfiguration(t *testing.T) {
	const ms = time.Millisecond
	for config, want := range map[string]timeline.Cluster{
		"mode: nftables":                {ProxyMode: "nftables", MinSyncPeriod: time.Second},
		"iptables: {minSyncPeriod: 0s}": {ProxyMode: "iptables", MinSyncPeriod: time.Second},
		"{mode: nftables, iptables: {minSyncPeriod: 2s}, nftables: {minSyncPeriod: 500ms}}": {ProxyMode: "nftables", MinSyncPeriod: 500 * ms},
		"mode: ipvs": {ProxyMode: "ipvs"},
		"mode: [":    {},
		"":           {},
	} {
		proxy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}, Data: map[string]string{"config.conf": config}}
		got := DescribeCluster(t.Context(), kubetest.Client(fake.NewSimpleClientset(proxy)))
		if want.Version = got.Version; got != want || got.Version == "" {
			t.Errorf("%q: %+v, want %+v", config, got, want)
		}
	}
	if got := DescribeCluster(t.Context(), kubetest.Client(fake.NewSimpleClientset())); got.ProxyMode != "" || got.MinSyncPeriod != 0 || got.SyncPeriod() != time.Second {
		t.Errorf("without a ConfigMap: %+v", got)
	}
}

// On EKS the ConfigMap kube-proxy is a kubeconfig, and the configuration is in another one. One that is not there, or may
// not be read, is the first one's trouble or its own.
func TestDescribeProxyReadsTheConfigurationOfEKS(t *testing.T) {
	configMap := func(name, key, text string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: name}, Data: map[string]string{key: text}}
	}
	kubeconfig := configMap("kube-proxy", "kubeconfig", "kind: Config")
	for name, c := range map[string]struct {
		objects []runtime.Object
		denied  bool
		want    timeline.Cluster
		err     string
	}{
		"ipvs":     {objects: []runtime.Object{kubeconfig, configMap("kube-proxy-config", "config", "mode: ipvs")}, want: timeline.Cluster{ProxyMode: "ipvs"}},
		"10 s":     {objects: []runtime.Object{kubeconfig, configMap("kube-proxy-config", "config", "{mode: iptables, iptables: {minSyncPeriod: 10s}}")}, want: timeline.Cluster{ProxyMode: "iptables", MinSyncPeriod: 10 * time.Second}},
		"alone":    {objects: []runtime.Object{configMap("kube-proxy-config", "config", "mode: ipvs")}, want: timeline.Cluster{ProxyMode: "ipvs"}},
		"not both": {objects: []runtime.Object{kubeconfig}, err: "ConfigMap kube-proxy has no configuration of kube-proxy"},
		"neither":  {err: `configmaps "kube-proxy" not found`},
		"denied":   {objects: []runtime.Object{kubeconfig}, denied: true, err: `configmaps "kube-proxy-config" is forbidden`},
	} {
		client := fake.NewSimpleClientset(c.objects...)
		client.PrependReactor("get", "configmaps", func(a clienttesting.Action) (bool, runtime.Object, error) {
			get, _ := a.(clienttesting.GetAction)
			return c.denied && get.GetName() == "kube-proxy-config", nil, apierrors.NewForbidden(a.GetResource().GroupResource(), get.GetName(), nil)
		})
		got, err := DescribeProxy(t.Context(), kubetest.Client(client))
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) || apierrors.IsForbidden(err) != c.denied {
			t.Errorf("%s: %+v, %v; want %+v, %q", name, got, err, c.want, c.err)
		}
	}
}

// Of a dual stack both addresses are of one Pod.
func TestDescribeCountsAPodOnce(t *testing.T) {
	v6 := endpointOf(pod(1), ready)
	v6.Addresses = []string{"fd00::1"}
	client := kubetest.Client(fake.NewSimpleClientset(service(), slice("web-a", endpointOf(pod(1), ready)), slice("web-b", v6)))
	if info, err := Describe(t.Context(), client, "shop", "web", Asked{}); err != nil || info.Ready != 1 {
		t.Errorf("%d ready endpoints, %v; want 1", info.Ready, err)
	}
}

func TestDescribeFindsAPortByNumberOrName(t *testing.T) {
	client := kubetest.Client(fake.NewSimpleClientset(twoPorts(), slice("web-a", endpointOf(pod(1), ready))))
	for _, port := range []string{"80", "http"} {
		if info, err := Describe(t.Context(), client, "shop", "web", Asked{Port: port}); err != nil || info.PortName != "http" {
			t.Errorf("port %s: %+v, %v", port, info, err)
		}
	}
}

// A number may be that of a TCP port and of a UDP port, as 53 is.
func TestDescribeFindsAUDPPort(t *testing.T) {
	service := with(twoPorts(), func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "dns-tcp", Port: 53, Protocol: corev1.ProtocolTCP})
	})
	dns := with(slice("a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("dns") })
	client := kubetest.Client(fake.NewSimpleClientset(service, dns))
	for _, port := range []string{"", "53", "dns"} {
		if info, err := Describe(t.Context(), client, "shop", "web", Asked{Port: port, Transport: corev1.ProtocolUDP}); err != nil || info.PortName != "dns" || info.Ready != 1 {
			t.Errorf("port %q: %+v, %v", port, info, err)
		}
	}
}

func twoPorts() *corev1.Service {
	return with(service(), func(s *corev1.Service) {
		s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{Name: "metrics", Port: 9090}, corev1.ServicePort{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP})
	})
}

func TestDescribeSaysWhyAServiceCannotBeMeasured(t *testing.T) {
	change := func(f func(*corev1.ServiceSpec)) *corev1.Service {
		return with(service(), func(s *corev1.Service) { f(&s.Spec) })
	}
	elsewhere := with(service(), func(s *corev1.Service) { s.Namespace = "blog" })
	other := with(service(), func(s *corev1.Service) { s.Name = "www" })
	for name, c := range map[string]struct {
		objects   []runtime.Object
		port      string
		transport corev1.Protocol
		forbidden string
		what      string
		hint      string
	}{
		"unknown":                  {objects: []runtime.Object{other}, what: `no Service "web" in namespace "shop"`, hint: "it has www"},
		"elsewhere":                {objects: []runtime.Object{elsewhere, other}, what: `no Service "web"`, hint: "-n blog"},
		"none at all":              {what: `no Service "web"`, hint: "-n"},
		"no selector and no slice": {objects: []runtime.Object{change(func(s *corev1.ServiceSpec) { s.Selector = nil })}, what: "no ready endpoint", hint: "somebody must make its EndpointSlices: kubectl -n shop get endpointslices -l kubernetes.io/service-name=web"},
		"no selector and a slice without ports": {objects: []runtime.Object{
			change(func(s *corev1.ServiceSpec) { s.Selector = nil }),
			with(slice("a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports = nil }),
		}, what: `no EndpointSlice has a port "http"`, hint: "kubectl -n shop get endpointslices"},
		"only UDP": {objects: []runtime.Object{change(func(s *corev1.ServiceSpec) {
			s.Ports = []corev1.ServicePort{{Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}}
		})}, what: "no TCP port: it has 53/UDP", hint: "--scheme udp"},
		"no such targetPort": {objects: []runtime.Object{
			change(func(s *corev1.ServiceSpec) { s.Ports[0].TargetPort = intstr.FromString("web") }),
			with(slice("a", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports = nil }),
		}, what: `ready Pods, but none with its port 80: they have no port "web"`, hint: "targetPort"},
		"no endpoint":              {objects: []runtime.Object{service()}, what: "no ready endpoint", hint: "kubectl -n shop get pods -l app=web"},
		"no ready endpoint":        {objects: []runtime.Object{service(), slice("a", endpointOf(pod(1), notReady))}, what: "no ready endpoint", hint: "app=web"},
		"headless and no endpoint": {objects: []runtime.Object{change(func(s *corev1.ServiceSpec) { s.ClusterIP = "None" })}, what: "no ready endpoint", hint: "app=web"},
		"ExternalName": {objects: []runtime.Object{change(func(s *corev1.ServiceSpec) {
			*s = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "example.org"}
		})}, what: `only names example.org: name the port to measure`, hint: "svc/web:443"},
		"wrong port":            {objects: []runtime.Object{twoPorts()}, port: "81", what: "no TCP port 81", hint: "http (80), metrics (9090)"},
		"a UDP port":            {objects: []runtime.Object{twoPorts()}, port: "dns", what: "no TCP port dns", hint: "http (80)"},
		"a TCP port over UDP":   {objects: []runtime.Object{twoPorts()}, port: "http", transport: corev1.ProtocolUDP, what: "no UDP port http", hint: "dns (53)"},
		"no UDP port":           {objects: []runtime.Object{service()}, transport: corev1.ProtocolUDP, what: "no UDP port: it has 80/TCP", hint: "--scheme, such as tcp"},
		"which port":            {objects: []runtime.Object{twoPorts()}, what: "2 TCP ports", hint: "svc/web:http"},
		"no right to Services":  {objects: []runtime.Object{service()}, forbidden: "services", what: "no right to get services", hint: "kubectl auth can-i get services -n shop"},
		"no right to Pods":      {objects: []runtime.Object{service()}, forbidden: "pods", what: "no right to list pods", hint: "kubectl auth can-i list pods -n shop"},
		"no right to endpoints": {objects: []runtime.Object{service()}, forbidden: "endpointslices", what: "no right to list endpointslices", hint: "endpointslices.discovery.k8s.io -n shop"},
	} {
		t.Run(name, func(t *testing.T) {
			if c.transport == "" {
				c.transport = corev1.ProtocolTCP
			}
			client := fake.NewSimpleClientset(c.objects...)
			client.PrependReactor("*", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				if a.GetResource().Resource == c.forbidden {
					return true, nil, forbidden(c.forbidden)
				}
				return false, nil, nil
			})
			_, err := Describe(t.Context(), kubetest.Client(client), "shop", "web", Asked{Port: c.port, Transport: c.transport})
			checkHint(t, err, c.what, c.hint)
		})
	}
}

func TestDescribeOfAnUnreachableServerSaysSo(t *testing.T) {
	refusing := func(context.Context, string, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	client, err := kube.New(&rest.Config{Host: "http://192.0.2.1", Dial: refusing})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Describe(t.Context(), client, "shop", "web", Asked{})
	checkHint(t, err, "connection refused", "API server")
}

func checkHint(t *testing.T, err error, what, advice string) {
	t.Helper()
	if got := hint.Of(err); !strings.Contains(err.Error(), what) || !strings.Contains(got, advice) {
		t.Errorf("error %q, hint %q; want %q, %q", err, got, what, advice)
	}
}
