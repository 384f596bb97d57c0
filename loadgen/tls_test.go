package loadgen

import (
	"crypto/tls"
	"crypto/x509"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// testTLS returns a certificate for example.com and 127.0.0.1, and the pool that trusts it.
func testTLS(t *testing.T) (*tls.Config, *x509.CertPool) {
	t.Helper()
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.StartTLS()
	defer s.Close()
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	return &tls.Config{Certificates: s.TLS.Certificates}, roots
}

func TestHTTPSIsMeasuredWithTheServicesName(t *testing.T) {
	layer.Real(t)
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
			t.Run(tls.VersionName(version)+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				config, roots := testTLS(t)
				var mu sync.Mutex
				asked := map[string]int{}
				config.MaxVersion = version
				config.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
					mu.Lock()
					defer mu.Unlock()
					asked[hello.ServerName]++
					return nil, nil
				}
				clock := timeline.StartClock()
				s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), TLS: config, Faults: []faultserver.Fault{
					{Kind: faultserver.Goodbye, To: 1 << 60, Every: 7},
				}})
				p := probe(1, kind, s.URL(), 20) // no more handshakes than the slowest machine can make
				p.Addr, p.Host, p.RootCAs = s.Addr(), "example.com", roots
				f := runOn(t, clock, "20 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 20 }, p)
				loadtest.Close(t, s)
				requests := f.of(1)
				n := classes(requests)
				if failed(requests) > 0 || !accounted(n[timeline.OK], s.Answered(), n) {
					t.Errorf("%v, but the server answered %d", n, s.Answered())
				}
				if asked["example.com"] == 0 || len(asked) != 1 {
					t.Errorf("server names %v", asked)
				}
				for _, r := range requests {
					if r.Class == timeline.OK && kind == timeline.New && r.TLS == 0 {
						t.Fatalf("%+v has no TLS phase", r)
					}
				}
			})
		}
	}
}

func TestUntrustedCertificateIsTLS(t *testing.T) {
	layer.Real(t)
	config, roots := testTLS(t)
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), TLS: config})
	untrusted := probe(1, timeline.New, s.URL(), 20)
	misnamed := probe(2, timeline.New, s.URL(), 20)
	misnamed.Host, misnamed.RootCAs = "other.example.net", roots
	plain := probe(3, timeline.New, "http://"+s.Addr().String()+"/", 20) // plain HTTP to an HTTPS port
	f := runOn(t, clock, "3 observed requests of each", func(f *facts) bool { return min(f.observed(1), f.observed(2), f.observed(3)) >= 3 }, untrusted, misnamed, plain)
	loadtest.Close(t, s)
	for p, want := range map[*Probe]string{&untrusted: "signed by unknown authority",
		&misnamed: "not other.example.net"} {
		if got := strings.Join(f.blames(p.Name), "; "); !strings.Contains(got, want) {
			t.Errorf("%s failed by %q, want %q", p.Name, got, want)
		}
	}
	for id, want := range map[timeline.TargetID]timeline.Class{1: timeline.TLS, 2: timeline.TLS} {
		for _, r := range f.of(id) {
			if r.Class.Observed() && r.Class != want {
				t.Errorf("target %d: %v, want %v", id, r.Class, want)
			}
		}
	}
	for _, r := range f.of(3) {
		if r.Class.Observed() && !r.Class.Failed() {
			t.Errorf("plain HTTP to an HTTPS port: %v", r.Class)
		}
	}
}
