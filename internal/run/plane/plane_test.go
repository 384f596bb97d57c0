package plane

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	clienttesting "k8s.io/client-go/testing"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/loadgen"
	"lapse/timeline"
)

// An apiServer is an API server over TLS, whose certificate is for example.com and 127.0.0.1.
type apiServer struct {
	*httptest.Server
	mu    sync.Mutex
	asked []*http.Request
	hello []string // server names
}

func serveAPI(t *testing.T, answer http.HandlerFunc) *apiServer {
	s := &apiServer{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.asked = append(s.asked, r)
		s.mu.Unlock()
		answer(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequestClientCert, GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.hello = append(s.hello, h.ServerName)
		return nil, nil
	}}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

// config is what a kubeconfig says of the server.
func (s *apiServer) config() *rest.Config {
	pemText := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	return &rest.Config{Host: s.URL, BearerToken: "sesame", TLSClientConfig: rest.TLSClientConfig{CAData: pemText}}
}

func (s *apiServer) addr() netip.AddrPort { return s.Listener.Addr().(*net.TCPAddr).AddrPort() }

// measure asks by these probes, 50 times per second each, until enough was seen, and returns what is said of them.
func measure(t *testing.T, probes []loadgen.Probe, timeout time.Duration, enough func(map[timeline.Class]int) bool) *model.ControlPlane {
	t.Helper()
	var mu sync.Mutex
	tracker, seen := correlate.NewTracker(correlate.Options{}), map[timeline.Class]int{}
	clock, done := timeline.StartClock(), make(chan struct{})
	closeDone := sync.OnceFunc(func() { close(done) })
	ctx, stop := context.WithCancel(t.Context())
	prober := loadgen.New(loadgen.Config{Clock: clock, Source: 1, Sink: func(f timeline.Fact) {
		mu.Lock()
		defer mu.Unlock()
		tracker.Add(f)
		if b, ok := f.(timeline.Batch); ok {
			for _, r := range b.Requests {
				seen[r.Class]++
			}
		}
		if enough(seen) {
			closeDone()
		}
	}})
	tracker.Add(timeline.Meta{ID: "plane", T0: clock.T0()})
	tracker.Add(timeline.Source{ID: 1, Name: "here", Role: timeline.Workstation})
	for i, p := range probes {
		p.ID, p.Source, p.Rate, p.Timeout = timeline.TargetID(i+1), 1, 50, timeout
		mu.Lock()
		tracker.Add(p.Target)
		mu.Unlock()
		if err := prober.Start(p); err != nil {
			t.Fatal(err)
		}
	}
	over := make(chan error, 1)
	go func() { over <- prober.Run(ctx) }()
	select {
	case <-done:
	case <-time.After(2 * time.Minute):
		t.Errorf("only %v", seen)
	}
	stop()
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	return tracker.Timeline().ControlPlane
}

// atLeast waits for so many requests of each class.
func atLeast(n int, classes ...timeline.Class) func(map[timeline.Class]int) bool {
	return func(seen map[timeline.Class]int) bool {
		return !slices.ContainsFunc(classes, func(c timeline.Class) bool { return seen[c] < n })
	}
}

const patient = 20 * time.Second

func probesFor(t *testing.T, config *rest.Config, servers ...netip.AddrPort) []loadgen.Probe {
	t.Helper()
	probes, err := Probes(config, servers, "shop")
	if err != nil {
		t.Fatal(err)
	}
	return probes
}

// A workstation asks the server of its kubeconfig, with its credentials, by the name that the kubeconfig has.
func TestTheServerIsAskedWithTheCredentialsOfTheKubeconfig(t *testing.T) {
	layer.Real(t)
	s := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {})
	plane := measure(t, probesFor(t, s.config()), patient, atLeast(30, timeline.OK))
	if len(plane.Servers) != 3 {
		t.Fatalf("servers %+v", plane.Servers)
	}
	paths := map[string]bool{}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range s.asked {
		paths[r.URL.RequestURI()] = true
		if r.Header.Get("Authorization") != "Bearer sesame" {
			t.Fatalf("%s has no credentials: %v", r.URL, r.Header)
		}
	}
	want := []string{"/api/v1/namespaces/shop/services?limit=1", "/livez", "/readyz"}
	for i, server := range plane.Servers {
		if server.Path != want[i] || !paths[want[i]] || server.NotMeasured != "" || len(server.Outages) > 0 {
			t.Errorf("%+v, want %s answered", server, want[i])
		}
	}
	if n := len(s.asked); len(s.hello) > n/2 {
		t.Errorf("%d handshakes for %d requests: connections are to be kept", len(s.hello), n)
	}
}

// In the cluster each API server's own address is asked, by the name that all certificates have.
func TestAnAPIServersOwnAddressIsAskedByTheServicesName(t *testing.T) {
	layer.Real(t)
	s := serveAPI(t, func(w http.ResponseWriter, _ *http.Request) {})
	plane := measure(t, probesFor(t, s.config(), s.addr()), patient, atLeast(3, timeline.TLS))
	for _, server := range plane.Servers {
		if !strings.Contains(server.NotMeasured, "tls") || !strings.Contains(server.NotMeasured, serverName) || len(server.Outages) > 0 {
			t.Errorf("a certificate of another name: %+v", server)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.hello, func(name string) bool { return name != serverName }) {
		t.Errorf("server names %v", s.hello)
	}
	if len(s.asked) > 0 {
		t.Error("credentials were sent to a server that nobody knows")
	}
}

// A refusal is an answer; an error, a server that hangs, and one that is gone are none.
func TestWhatIsNoAnswer(t *testing.T) {
	layer.Real(t)
	refuse := func(status int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }
	}
	for _, status := range []int{401, 403} {
		s := serveAPI(t, refuse(status))
		for _, server := range measure(t, probesFor(t, s.config()), patient, atLeast(20, timeline.OK)).Servers {
			if server.Refused[uint16(status)] == 0 || server.NotMeasured != "" {
				t.Errorf("status %d: %+v", status, server)
			}
		}
	}
	var ill sync.Map
	s := serveAPI(t, func(w http.ResponseWriter, r *http.Request) {
		if _, is := ill.Load("ill"); is && r.URL.Path == "/readyz" {
			w.WriteHeader(500)
		}
	})
	n := 0
	plane := measure(t, probesFor(t, s.config()), patient, func(seen map[timeline.Class]int) bool {
		if seen[timeline.OK] > 30 {
			ill.Store("ill", true)
		}
		if seen[timeline.HTTP5xx] >= 20 {
			n = seen[timeline.HTTP5xx]
			ill.Delete("ill")
		}
		return n > 0 && seen[timeline.OK] > 200
	})
	for _, server := range plane.Servers {
		if out := len(server.Outages); out != 0 && server.Path != "/readyz" || out != 1 && server.Path == "/readyz" {
			t.Errorf("only /readyz had errors: %+v", server)
		} else if out == 1 && !server.Outages[0].Answered() {
			t.Errorf("%+v was answered, with errors", server.Outages[0])
		}
	}

	hold := make(chan struct{})
	hangs := serveAPI(t, func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-hold:
		case <-r.Context().Done():
		}
	})
	for _, server := range measure(t, probesFor(t, hangs.config()), 100*time.Millisecond, atLeast(5, timeline.TimeoutResponse)).Servers {
		if !strings.HasPrefix(server.NotMeasured, "no request was answered (timeout_") {
			t.Errorf("a server that hangs: %+v", server)
		}
	}
	close(hold)

	gone := serveAPI(t, func(http.ResponseWriter, *http.Request) {})
	probes := probesFor(t, gone.config())
	gone.Close()
	for _, server := range measure(t, probes, patient, atLeast(5, timeline.Refused)).Servers {
		if server.NotMeasured != "no request was answered (refused)" {
			t.Errorf("a server that is gone: %+v", server)
		}
	}
}

// One of two API servers is restarted: that is a gap of its address only.
func TestTheRestartOfOneServerIsAGapOfThatAddress(t *testing.T) {
	layer.Real(t)
	stays, goes := serveAPI(t, func(http.ResponseWriter, *http.Request) {}), serveAPI(t, func(http.ResponseWriter, *http.Request) {})
	probes := append(probesFor(t, stays.config()), probesFor(t, goes.config())...)
	var down, up sync.Once
	plane := measure(t, probes, patient, func(seen map[timeline.Class]int) bool {
		if seen[timeline.OK] > 60 {
			down.Do(func() { go goes.Close() })
		}
		if seen[timeline.Refused] < 30 {
			return false
		}
		up.Do(func() { t.Log(seen) })
		return true
	})
	for _, of := range plane.ByAddress() {
		out := model.LongestOut(of)
		if lost := of[0].Addr == mustParse(t, goes.URL).Host; lost != (out != nil) {
			t.Errorf("%s: out %+v", of[0].Addr, out)
		}
		for _, s := range of {
			if s.NotMeasured != "" {
				t.Errorf("%+v was measured", s)
			}
		}
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// What cannot be verified, or is reached by another way, is not asked.
func TestWhatIsNotAskedIsSaid(t *testing.T) {
	unverified := &rest.Config{Host: "https://10.0.0.1:6443", TLSClientConfig: rest.TLSClientConfig{Insecure: true}}
	through := &rest.Config{Host: "https://10.0.0.1:6443", Proxy: func(*http.Request) (*url.URL, error) { return url.Parse("http://proxy:3128") }}
	for want, config := range map[string]*rest.Config{"insecure-skip-tls-verify": unverified, "through a proxy": through} {
		if probes, err := Probes(config, nil, "shop"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, %v: want %s", probes, err, want)
		}
	}
}

func TestTheAddressesAreThoseOfTheEndpointSlice(t *testing.T) {
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Namespace: "default"},
		Ports:      []discoveryv1.EndpointPort{{Port: new(int32(6443)), Protocol: new(corev1.ProtocolTCP)}},
		Endpoints:  []discoveryv1.Endpoint{{Addresses: []string{"10.0.0.2"}}, {Addresses: []string{"10.0.0.1"}}},
	}
	client := fake.NewClientset(slice)
	found := Find(t.Context(), kubetest.Client(client))
	if len(found.Addrs) != 2 || found.Addrs[0].String() != "10.0.0.1:6443" || found.NotAsked != "" {
		t.Errorf("found %+v", found)
	}
	many := slice.DeepCopy()
	for range 20 {
		many.Endpoints = append(many.Endpoints, many.Endpoints[0])
	}
	found = Find(t.Context(), kubetest.Client(fake.NewClientset(many)))
	if len(found.Addrs) != mostServers || found.NotAsked != "at most 9 addresses are asked, and there are 22" {
		t.Errorf("found %+v", found)
	}
	client.PrependReactor("get", "endpointslices", func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "endpointslices"}, "kubernetes", nil)
	})
	found = Find(t.Context(), kubetest.Client(client))
	if len(found.Addrs) > 0 || !strings.HasPrefix(found.NotAsked, "no right to get EndpointSlice default/kubernetes; its Service was asked instead") {
		t.Errorf("found %+v", found)
	}
}

// A Pod asks by its own way to the API, and nobody else does.
func TestAPodIsWithin(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
	t.Setenv("KUBERNETES_SERVICE_PORT", "443")
	if !Within(&rest.Config{Host: "https://10.96.0.1:443"}) || Within(&rest.Config{Host: "https://example.com"}) {
		t.Error("which of the two is a Pod's own way is not known")
	}
}
