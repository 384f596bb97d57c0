package resolve

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/internal/hint"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// choosing returns the options of a run that chooses Services, and for which these flags were given.
func choosing(given ...string) *spec.Options {
	o := &spec.Options{Given: map[string]bool{}}
	for _, flag := range given {
		o.Given[flag] = true
	}
	o.Rate, o.Kinds, o.Scheme, o.Connections, o.Timeout = 200, []string{"new", "reused"}, "http", 10, loadgen.DefaultTimeout
	return o
}

// shops returns a cluster with node1 and n Services, each in its own namespace, with an endpoint on node1.
func shops(n int) *access.Cluster {
	objects := []runtime.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1"}}}
	for i := range n {
		namespace := fmt.Sprintf("shop-%03d", i)
		objects = append(objects, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
			Spec:       corev1.ServiceSpec{ClusterIP: "10.96.0.1", Selector: map[string]string{"app": "web"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
		}, &discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-1", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.1"}, NodeName: new("node1")}},
			Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		})
	}
	return &access.Cluster{Client: kubetest.Client(fake.NewSimpleClientset(objects...)), Namespace: "tools"}
}

// The workstation says what it knows of the cluster, for the Job may read no ConfigMap. Where it says nothing, as of a Job
// that is applied by hand, the Job looks itself.
func TestTheJobIsToldOfTheCluster(t *testing.T) {
	proxy := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "kube-proxy"}, Data: map[string]string{"config.conf": "{mode: nftables, nftables: {minSyncPeriod: 10s}}"}}
	reads := &access.Cluster{Client: kubetest.Client(fake.NewSimpleClientset(proxy)), Namespace: "tools"}
	o := choosing()
	if err := (&resolver{o, reads, terminal.NewLogger(io.Discard)}).choose(t.Context()); err != nil {
		t.Fatal(err)
	}
	var told spec.Options
	if err := json.Unmarshal(JobConfig(o, "tools").Spec, &told.Spec); err != nil {
		t.Fatal(err)
	}
	if told.Cluster.ProxyMode != "nftables" || told.Cluster.MinSyncPeriod != 10*time.Second || told.Cluster.Version == "" {
		t.Errorf("the Job is told %+v", told.Cluster)
	}
	job := NewFound(&told, terminal.NewLogger(io.Discard))
	job.Client = kubetest.Client(fake.NewSimpleClientset())
	if job.describeCluster(t.Context()); told.Cluster.ProxyMode != "nftables" {
		t.Errorf("the Job looked itself, and knows %+v", told.Cluster)
	}
	told.Cluster = timeline.Cluster{}
	if job.describeCluster(t.Context()); told.Cluster.Version == "" || told.Cluster.ProxyMode != "" {
		t.Errorf("told nothing, the Job knows %+v", told.Cluster)
	}
}

// 100 Services share the default rate, and say in which namespaces the Job must read.
func TestChosenServicesShareTheRate(t *testing.T) {
	o := choosing()
	o.OnNode = "node/node1"
	if err := o.CheckTargets(); err != nil || !o.InCluster() {
		t.Fatal(err)
	}
	o.Baseline = 100 * time.Millisecond
	if err := (&resolver{o, shops(100), terminal.NewLogger(io.Discard)}).chooseServices(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(o.Chosen) != 100 || o.Rate != 5 || o.DirectRate != 5 || o.Baseline != 400*time.Millisecond || !o.NoPreflight {
		t.Errorf("%d Services at %v/s, directly at %v/s, baseline %v, without preflight %v", len(o.Chosen), o.Rate, o.DirectRate, o.Baseline, o.NoPreflight)
	}
	config := JobConfig(o, "shop-007")
	if len(config.Namespaces) != 99 || config.AllNamespaces || slices.Contains(config.Namespaces, "shop-007") || !slices.Equal(config.AvoidNodes, []string{"node1"}) {
		t.Errorf("the Job reads %d other namespaces (all: %v), and avoids %q", len(config.Namespaces), config.AllNamespaces, config.AvoidNodes)
	}
	if first := o.Parsed[0]; o.Label(first) != "shop-000/web" || o.SchemeOf(first) != "http" {
		t.Errorf("%+v", first)
	}
}

func TestChosenServicesHaveNoMoreThanTheDefaultRateEach(t *testing.T) {
	o := choosing()
	o.AllNamespaces = true
	if err := (&resolver{o, shops(1), terminal.NewLogger(io.Discard)}).chooseServices(t.Context()); err != nil {
		t.Fatal(err)
	}
	config := JobConfig(o, "tools")
	if o.Rate != 200 || o.Label(o.Parsed[0]) != "web" || !config.AllNamespaces || len(config.Namespaces) > 0 {
		t.Errorf("%v/s, %q, %+v", o.Rate, o.Label(o.Parsed[0]), config.Namespaces)
	}
}

// What cannot be chosen says what was looked for, and what to give.
func TestAChoiceThatCannotBeSaysWhy(t *testing.T) {
	for name, test := range map[string]struct {
		change     func(*spec.Options)
		what, help string
	}{
		"node":      {func(o *spec.Options) { o.OnNode = "node9" }, "--on-node node9: there is no such node", "the cluster has node1"},
		"none":      {func(o *spec.Options) { o.AllNamespaces, o.Selector = true, "team=red" }, "-A --selector team=red: no Service is meant", "kubectl get services -A"},
		"too slow":  {func(o *spec.Options) { o.AllNamespaces, o.TotalRate = true, 5 }, "6 targets would get 0.83 requests per second each, and need 1", "--total-rate 6"},
		"elsewhere": {func(o *spec.Options) { o.Selector = "app=web" }, "--selector app=web: no Service is meant", ""},
	} {
		o := choosing()
		test.change(o)
		err := (&resolver{o, shops(3), terminal.NewLogger(io.Discard)}).chooseServices(t.Context())
		if err == nil || !strings.Contains(err.Error(), test.what) || !strings.Contains(hint.Of(err), test.help) || exit.CodeOf(err) != exit.Usage {
			t.Errorf("%s: %v, hint %q; want %q, hint %q", name, err, hint.Of(err), test.what, test.help)
		}
	}
}

// A Service that never answers is set aside before the run, and the others are measured.
func TestAChosenServiceThatDoesNotAnswerIsSetAside(t *testing.T) {
	layer.Real(t)
	server := httptest.NewServer(http.NotFoundHandler()) // any answer but an error of the server is good
	defer server.Close()
	broken := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }))
	defer broken.Close()
	o := choosing()
	o.AllNamespaces = true
	o.Chosen = []spec.ChosenService{{Namespace: "shop", Name: "web", Scheme: "http"}, {Namespace: "shop", Name: "broken", Scheme: "http"}}
	o.Parsed = o.ChosenTargets()
	var err error
	if o.Statuses, err = loadgen.ParseStatuses(spec.AnyAnswer); err != nil {
		t.Fatal(err)
	}
	o.Method = http.MethodGet
	m := NewFound(o, terminal.NewLogger(io.Discard))
	for i, s := range []*httptest.Server{server, broken} {
		at := netip.MustParseAddrPort(s.Listener.Addr().String())
		info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: o.Chosen[i].Name, ClusterIP: at.Addr().String()}, Port: int32(at.Port())}
		m.Services = append(m.Services, spec.Service{Target: o.Parsed[i], Info: info, Measured: true})
	}
	if err := m.tryChosen(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(m.Services) != 1 || len(o.Parsed) != 1 || o.Parsed[0].Service != "web" {
		t.Errorf("measured: %+v", o.Parsed)
	}
	if len(o.SetAside) != 1 || o.SetAside[0].Name != "broken" || !strings.Contains(o.SetAside[0].Why, "http_5xx") {
		t.Errorf("set aside: %+v", o.SetAside)
	}
}
