// Package cluster tests that a Service of a Kubernetes cluster drops no requests while something happens to it: a
// rollout, a drain, an upgrade. It is package lapsetest for a Service: failures name their causes in the cluster.
//
//	func TestRolloutDropsNothing(t *testing.T) {
//		m := cluster.Start(t, cluster.Service{Namespace: "shop", Name: "web"})
//		rollout(t)
//		m.Stop().NoFailures()
//	}
//
// The test's own process sends the requests, and watches the Service, its Pods, EndpointSlices and nodes through a
// kubeconfig. It creates nothing in the cluster and needs no image there, only the rights to get, list and watch. It
// sees less than a Job in the cluster (lapse run svc/NAME):
//
//   - The test must reach the Service: at its load balancer or external IPs, at the nodes' ports (as of kind on Linux),
//     or at [Service].URL. Clients in the cluster use the cluster IP and its name, which are not asked.
//   - Pods are not asked at their own addresses. Causes that rest on these answers are less certain, or not found.
//   - Nothing is predicted, and DNS and the nodes' health checks are not asked.
//
// Each address is a target and gets the whole rate, of each kind of connection: with three nodes and the default of 100
// requests per second, the Service gets 600.
package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"lapse"
	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/run/signs"
	"lapse/lapsetest"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// A Service says which Service is measured. Only Name is required.
type Service struct {
	Namespace string // default: the kubeconfig's; with Config: default
	Name      string
	Port      string // by name or number; default: the only one

	Config     *rest.Config // of the cluster; default: what Kubeconfig and Context say
	Kubeconfig string       // a file; default: as kubectl, $KUBECONFIG or ~/.kube/config
	Context    string       // of the kubeconfig; default: the current one

	Scheme string // what is spoken, as in the URLs of package lapsetest; default: http
	Path   string // of HTTP requests, with a query if there is one; default: /
	URL    string // where the test reaches the Service, instead of Scheme and Path; default: see the package
}

// Start sends requests to a Service until Stop, or the end of the test. It returns when the Service is known to answer,
// after two seconds, and ends the test if it does not. After Stop it measures on for five seconds, or for
// [lapsetest.Settle].
func Start(t testing.TB, s Service, options ...lapsetest.Option) *lapsetest.Measurement {
	t.Helper()
	client, err := s.connect()
	if err != nil {
		t.Fatal(err)
	}
	return start(t, client, s, options...)
}

// During measures a Service while f runs, on the test's goroutine.
func During(t testing.TB, s Service, f func(), options ...lapsetest.Option) *lapsetest.Result {
	t.Helper()
	m := Start(t, s, options...)
	f()
	return m.Stop()
}

// connect returns a client of the cluster, and sets the namespace.
func (s *Service) connect() (kube.Client, error) {
	config := s.Config
	if config == nil {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = s.Kubeconfig
		overrides := &clientcmd.ConfigOverrides{CurrentContext: s.Context}
		loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
		var err error
		if config, err = loader.ClientConfig(); err != nil {
			return nil, fmt.Errorf("no cluster: %w", err)
		}
		if s.Namespace == "" {
			if s.Namespace, _, err = loader.Namespace(); err != nil {
				return nil, fmt.Errorf("no namespace: %w", err)
			}
		}
	}
	config = rest.CopyConfig(config)
	config.QPS, config.Burst = cmp.Or(config.QPS, 50), cmp.Or(config.Burst, 100)
	return kube.New(config)
}

func start(t testing.TB, client kube.Client, s Service, options ...lapsetest.Option) *lapsetest.Measurement {
	t.Helper()
	m, err := s.find(t.Context(), client)
	if advice := hint.Of(err); advice != "" {
		err = fmt.Errorf("%w\n%s", err, advice)
	}
	if err != nil {
		t.Fatal(err)
	}
	measured := lapsetest.With(func(to *lapse.Spec) {
		to.Targets, to.Watch = m.urls, m.watch()
		to.Baseline, to.Settle = 2*time.Second, 5*time.Second
	})
	return lapsetest.Start(t, m.urls[0], slices.Concat([]lapsetest.Option{measured}, options)...)
}

// A measured is a Service that was found.
type measured struct {
	client kube.Client
	info   watcher.Info
	about  timeline.Cluster
	urls   []string
	ways   map[string]watcher.Way // by URL; none if the test names the URL
}

// find looks a Service up, and where it is reached.
func (s Service) find(ctx context.Context, client kube.Client) (*measured, error) {
	if s.Name == "" {
		return nil, errors.New("cluster.Service has no Name")
	}
	s.Namespace, s.Scheme = cmp.Or(s.Namespace, corev1.NamespaceDefault), cmp.Or(s.Scheme, "http")
	asked := watcher.Asked{Port: s.Port, Outside: s.URL == ""}
	if p, known := loadgen.ProtocolOf(s.Scheme); known {
		asked.Transport = corev1.Protocol(strings.ToUpper(p.Transport()))
	}
	info, err := watcher.Describe(ctx, client, s.Namespace, s.Name, asked)
	if err != nil {
		return nil, err
	}
	info.Service.Measured = []string{cmp.Or(info.PortName, strconv.Itoa(int(info.Port)))}
	m := &measured{client: client, info: info, about: watcher.DescribeCluster(ctx, client),
		ways: map[string]watcher.Way{}}
	if s.URL != "" {
		m.urls = []string{s.URL}
		m.info.Service.NotCovered = []string{"only the URL that the test names was asked"}
		return m, nil
	}
	ways, err := watcher.OutsideWays(ctx, client, s.Namespace, s.Name, asked)
	if err != nil {
		return nil, err
	}
	for _, w := range ways {
		at := s.url(w)
		m.urls, m.ways[at] = append(m.urls, at), w
	}
	const within = "the cluster IP was not asked, by which clients in the cluster reach the Service"
	m.info.Service.NotCovered = append(m.info.Service.NotCovered, within)
	return m, nil
}

// url returns the URL that is asked by a way.
func (s Service) url(w watcher.Way) string {
	host := net.JoinHostPort(w.Host, strconv.Itoa(int(w.Port)))
	at := (&url.URL{Scheme: s.Scheme, Host: host}).String()
	if p, known := loadgen.ProtocolOf(s.Scheme); known && p.Paths {
		at += cmp.Or(s.Path, "/")
	}
	return at
}

// watch returns what is recorded of the cluster.
func (m *measured) watch() *lapse.Watch {
	return &lapse.Watch{
		Services: []timeline.Service{m.info.Service}, Cluster: m.about, Complete: m.complete, Run: m.run,
	}
}

// complete says of a target which Service it leads to, and by which way.
func (m *measured) complete(p *loadgen.Probe) {
	s, way := m.info.Service, m.ways[p.URL]
	p.Service, p.PortName = s.Namespace+"/"+s.Name, m.info.PortName
	p.Route, p.RouteNode, p.Family = way.Route, way.Node, way.Family
	p.Name = strings.Join(strings.Fields(s.Name+" "+way.Name()+" "+string(p.Kind)), " ")
	if p.Host == "" && way.Host != "" {
		p.Host = s.Name + "." + s.Namespace
	}
}

// run watches the Service until ctx ends. What cannot be watched is recorded as such.
func (m *measured) run(ctx context.Context, clock timeline.Clock, put func(timeline.Fact)) {
	s := m.info.Service
	of := watcher.Service{Namespace: s.Namespace, Name: s.Name, Ports: []string{m.info.PortName}}
	config := watcher.Config{Client: m.client, Services: []watcher.Service{of}, Clock: clock, Sink: put}
	config.NodeMarks = signs.Marks(nil)
	_ = watcher.Run(ctx, config) // its last event says so
}
