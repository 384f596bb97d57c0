package loadgen

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/timeline"
)

// overTLS serves TLS by crypto/tls, and then what serve does.
func overTLS(config *tls.Config, serve func(net.Conn)) func(*net.TCPConn) {
	return func(c *net.TCPConn) { serve(tls.Server(c, config)) }
}

// echoing sends back what comes, but closes the connection after it has read the whole of a line on one that has
// carried one before, as often as cuts says.
func echoing(cuts *atomic.Int64) func(net.Conn) {
	return func(c net.Conn) {
		lines := bufio.NewReader(c)
		for n := 0; ; n++ {
			line, err := lines.ReadString('\n')
			if err != nil || n > 0 && cuts.Add(-1) >= 0 {
				return
			}
			if _, err := io.WriteString(c, line); err != nil {
				return
			}
		}
	}
}

func TestEchoesOverTLS(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
			t.Run(tls.VersionName(version)+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				config, roots := testTLS(t)
				config.MaxVersion = version
				config.NextProtos = []string{"redis"} // no client of this protocol: refused if it offered HTTP
				s := serveTCP(t, overTLS(config, echoing(new(atomic.Int64))))
				p := probe(1, kind, "tls://"+s.listener.Addr().String(), 20)
				p.Addr = netip.MustParseAddrPort(s.listener.Addr().String())
				p.Host, p.RootCAs, p.Echo, p.Connections = "example.com", roots, "ping\n", 2
				f := runUntil(t, "20 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 20 }, p)
				if failed(f.of(1)) > 0 {
					t.Errorf("%v: %q", classes(f.of(1)), f.blames(p.Name))
				}
				for _, r := range f.of(1) {
					if kind == timeline.New && r.Class == timeline.OK && (r.TLS == 0 || r.FirstByte == 0) {
						t.Fatalf("%+v lacks a phase", r)
					}
				}
			})
		}
	}
}

// What speaks another protocol, or has another certificate, fails with a class and a text that say so.
func TestTLSOutcomesOfOtherServers(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	config, roots := testTLS(t)
	mutual := config.Clone()
	mutual.ClientAuth = tls.RequireAnyClientCert
	echo := overTLS(config, echoing(new(atomic.Int64)))
	plainEcho := func(c *net.TCPConn) { _, _ = io.Copy(c, c) }
	alert := "\x15\x03\x01\x00\x02\x02\x46" // what OpenSSL answers to other than TLS: protocol_version
	tests := []struct {
		name, scheme string
		serve        func(*net.TCPConn)
		host         string
		roots        *x509.CertPool
		want         timeline.Class
		says         string
	}{
		{"a certificate that is trusted", "tls", echo, "example.com", roots, timeline.OK, ""},
		{"one that is not", "tls", echo, "example.com", nil, timeline.TLS, "unknown authority"},
		{"one for another name", "tls", echo, "other.example.net", roots, timeline.TLS, "not other.example.net"},
		{"a client certificate is wanted", "tls", overTLS(mutual, echoing(new(atomic.Int64))), "example.com", roots, timeline.TLS, "certificate required"},
		{"an echo without TLS", "tls", plainEcho, "example.com", roots, timeline.TLS, ""},
		{"a greeting without TLS", "tls", greeting("220 mail\r\n"), "example.com", roots, timeline.TLS, "does not look like a TLS handshake"},
		{"silence", "tls", func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }, "example.com", roots, timeline.TimeoutResponse, ""},
		{"goodbye", "tls", once(""), "example.com", roots, timeline.EOF, ""},
		{"TLS, which closes", "tcp", echo, "", nil, timeline.EOF, ""},
		{"TLS, which sends an alert", "tcp", once(alert), "", nil, timeline.Body, "the server speaks TLS, as in tls://"},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				s := serveTCP(t, test.serve)
				p := probe(1, kind, test.scheme+"://"+s.listener.Addr().String(), 20)
				p.Host, p.RootCAs, p.Echo, p.Connections, p.MaxConnections = test.host, test.roots, "ping\n", 2, 1000
				if test.want.Timeout() {
					p.Timeout = 200 * time.Millisecond
				}
				f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && r.Class != test.want {
						t.Fatalf("%v, want %v: %q", r.Class, test.want, f.blames(p.Name))
					}
				}
				if told := strings.Join(f.blames(p.Name), "; "); !strings.Contains(told, test.says) {
					t.Errorf("the error is %q, want %q", told, test.says)
				}
			})
		}
	}
}

// Where nothing is awaited, the handshake is the success.
func TestHandshakeAloneIsATLSSuccess(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	config, roots := testTLS(t)
	s := serveTCP(t, overTLS(config, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }))
	p := probe(1, timeline.New, "tls://"+s.listener.Addr().String(), 20)
	p.Host, p.RootCAs = "example.com", roots
	f := runUntil(t, "5 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 5 }, p)
	for _, r := range f.of(1) {
		if r.Class.Failed() || r.Class == timeline.OK && r.TLS == 0 {
			t.Errorf("%+v", r)
		}
	}
}

func TestRequestsOnCutTLSConnectionsAllFail(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const cut = 120
	var cuts atomic.Int64
	cuts.Store(cut)
	config, roots := testTLS(t)
	s := serveTCP(t, overTLS(config, echoing(&cuts)))
	p := probe(1, timeline.Reused, "tls://"+s.listener.Addr().String(), 100)
	p.Host, p.RootCAs, p.Echo = "example.com", roots, "ping\n"
	cutsFail(t, &cuts, cut, p)
}
