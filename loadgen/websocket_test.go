package loadgen

import (
	"bytes"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// upgrader serves WebSockets by gorilla: after the upgrade it does what serve does.
func upgrader(serve func(*websocket.Conn)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, http.Header{"X-Pod": {"pod-a"}})
		if err != nil {
			return // which is what it has answered
		}
		defer c.Close()
		serve(c)
	})
}

// atPing reads until a ping arrives, the n-th of its connection, on which answer returns an error.
func atPing(answer func(c *websocket.Conn, n int, payload string) error) func(*websocket.Conn) {
	return func(c *websocket.Conn) {
		pong, n := c.PingHandler(), 0
		c.SetPingHandler(func(payload string) error {
			n++
			if err := answer(c, n, payload); err != nil {
				return err
			}
			return pong(payload)
		})
		loadtest.AnswerPings(c)
	}
}

var errGone = errors.New("gone")

func webSocketProbe(kind timeline.TargetKind, server *httptest.Server, rate float64) Probe {
	p := probe(1, kind, "ws"+strings.TrimPrefix(server.URL, "http"), rate)
	p.Addr = netip.MustParseAddrPort(server.Listener.Addr().String())
	if server.TLS != nil {
		p.RootCAs, p.Host = x509.NewCertPool(), "example.com"
		p.RootCAs.AddCert(server.Certificate())
	}
	return p
}

func serveHTTP(t *testing.T, handler http.Handler) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server
}

func TestWebSocketPingsAreAnswered(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, start := range map[string]func(http.Handler) *httptest.Server{"ws": httptest.NewServer, "wss": httptest.NewTLSServer} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
			var farewells atomic.Int64
			server := start(upgrader(func(c *websocket.Conn) {
				c.SetCloseHandler(func(code int, _ string) error {
					if code == websocket.CloseNormalClosure {
						farewells.Add(1)
					}
					return nil
				})
				loadtest.AnswerPings(c)
			}))
			t.Cleanup(server.Close)
			p := webSocketProbe(kind, server, 50)
			p.Connections = 2
			t.Run(string(kind)+" "+p.URL, func(t *testing.T) {
				t.Parallel()
				f := runUntil(t, "30 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 30 }, p)
				again := 0
				for _, r := range f.of(1) {
					if r.Class == timeline.OK && (f.backends[r.Backend] != "pod-a" || r.Code != 0 ||
						r.FirstByte == 0) {
						t.Fatalf("%+v", r)
					}
					if r.Reused {
						again++
					}
				}
				if failed(f.of(1)) > 0 || (again > 0) != (kind == timeline.Reused) {
					t.Errorf("%v, %d reused: %q", classes(f.of(1)), again, f.blames(p.Name))
				}
				loadtest.WaitFor(t, "farewell", func() bool { return farewells.Load() > 0 })
			})
		}
	}
}

func TestWebSocketOutcomes(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	answering := func(status int) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) })
	}
	switching := func(after string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+after)
			c.Close()
		})
	}
	wantsOrigin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Origin") == "" {
			http.Error(w, "origin", http.StatusForbidden)
			return
		}
		r.Header.Del("Origin") // of which gorilla wants that it is its own
		upgrader(loadtest.AnswerPings).ServeHTTP(w, r)
	})
	tests := []struct {
		name   string
		serve  http.Handler
		header http.Header
		want   timeline.Class
		code   uint16
		says   string
	}{
		{"an Origin is wanted", wantsOrigin, nil, timeline.HTTP4xx, 403, "status 403 Forbidden: the upgrade was refused: a server may want credentials or an Origin, as in --header"},
		{"an Origin is given", wantsOrigin, http.Header{"Origin": {"https://shop.example"}}, timeline.OK, 0, ""},
		{"another site's Origin", upgrader(loadtest.AnswerPings), http.Header{"Origin": {"https://shop.example"}}, timeline.HTTP4xx, 403, "status 403"},
		{"plain HTTP", answering(200), nil, timeline.Body, 200, "status 200 OK: no upgrade: the path serves plain HTTP"},
		{"a redirect", answering(307), nil, timeline.Body, 307, "redirects are not followed"},
		{"an overload", answering(503), nil, timeline.HTTP5xx, 503, "status 503 Service Unavailable: the upgrade was refused"},
		{"an upgrade for somebody else", switching("Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n"), nil, timeline.Body, 0, "does not upgrade to WebSocket as asked"},
		{"an upgrade cut short", switching(""), nil, timeline.EOF, 0, ""},
		{"the server goes away", upgrader(atPing(func(c *websocket.Conn, _ int, _ string) error {
			_ = c.WriteControl(websocket.CloseMessage,
				websocket.FormatCloseMessage(websocket.CloseGoingAway, "deploy"), time.Now().Add(time.Minute))
			return errGone
		})), nil, timeline.EOF, 0, "eof: closed by the server: 1001 (going away): deploy"},
		{"another pong", upgrader(atPing(func(c *websocket.Conn, _ int, _ string) error {
			_ = c.WriteControl(websocket.PongMessage, []byte("12345678"), time.Now().Add(time.Minute))
			return errGone
		})), nil, timeline.EOF, 0, ""},
		{"silence", upgrader(func(c *websocket.Conn) { _, _ = io.Copy(io.Discard, c.NetConn()) }), nil, timeline.TimeoutResponse, 0, ""},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := webSocketProbe(kind, serveHTTP(t, test.serve), 20)
				p.Header, p.MaxConnections = test.header, 1000
				if test.want.Timeout() {
					p.Timeout = 200 * time.Millisecond
				}
				f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
				for _, r := range f.of(1) {
					if r.Class.Observed() && (r.Class != test.want || r.Code != test.code) {
						t.Fatalf("%v %d, want %v %d: %q", r.Class, r.Code, test.want, test.code, f.blames(p.Name))
					}
				}
				if told := strings.Join(f.blames(p.Name), "; "); !strings.Contains(told, test.says) {
					t.Errorf("the error is %q, want %q", told, test.says)
				}
			})
		}
	}
}

// What speaks another protocol is named for what it is.
func TestWebSocketToOtherServers(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	tests := []struct {
		name  string
		serve func(*net.TCPConn)
		says  string
	}{
		{"TLS, which sends an alert", once("\x15\x03\x01\x00\x02\x02\x46"), "body: malformed reply: a TLS alert: the server speaks TLS, as in wss://"},
		{"SSH", greeting("SSH-2.0-OpenSSH_9.2\r\n"), `body: malformed reply: malformed HTTP response "SSH-2.0-OpenSSH_9.2"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := probe(1, timeline.New, "ws://"+serveTCP(t, test.serve).listener.Addr().String(), 20)
			f := runUntil(t, "5 wrong replies", func(f *facts) bool { return f.ended(1, timeline.Body) >= 5 }, p)
			if told := strings.Join(f.blames(p.Name), "; "); !strings.Contains(told, test.says) {
				t.Errorf("the error is %q, want %q", told, test.says)
			}
		})
	}
}

// A server may say what it likes between requests: nothing of it is a reply, its pings are answered, and no request
// fails for it.
func TestWebSocketServersSpeakUnasked(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var pongs atomic.Int64
	server := serveHTTP(t, upgrader(func(c *websocket.Conn) {
		c.SetPongHandler(func(string) error { pongs.Add(1); return nil })
		ended := make(chan struct{})
		go func() { defer close(ended); loadtest.AnswerPings(c) }()
		for ticks := time.NewTicker(10 * time.Millisecond); ; {
			select {
			case <-ended:
				ticks.Stop()
				return
			case <-ticks.C:
			}
			_ = c.WriteMessage(websocket.TextMessage, bytes.Repeat([]byte("news "), 20_000))
			_ = c.WriteControl(websocket.PingMessage, []byte("there?"), time.Now().Add(time.Minute))
			_ = c.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Minute))
		}
	}))
	p := webSocketProbe(timeline.Reused, server, 50)
	f := runUntil(t, "100 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 100 && pongs.Load() >= 100 }, p)
	if failed(f.of(1)) > 0 {
		t.Errorf("%v: %q", classes(f.of(1)), f.blames(p.Name))
	}
}

// A close frame on an idle connection is no failure: the next request connects anew.
func TestWebSocketClosedWhileIdle(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var upgrades atomic.Int64
	server := serveHTTP(t, upgrader(func(c *websocket.Conn) {
		upgrades.Add(1)
		c.SetPingHandler(func(payload string) error {
			until := time.Now().Add(time.Minute)
			_ = c.WriteControl(websocket.PongMessage, []byte(payload), until)
			return c.WriteControl(websocket.CloseMessage,
				websocket.FormatCloseMessage(websocket.CloseServiceRestart, ""), until)
		})
		loadtest.AnswerPings(c)
	}))
	p := webSocketProbe(timeline.Reused, server, 20)
	p.Connections = 2
	f := runUntil(t, "20 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 20 }, p)
	if n := classes(f.of(1)); failed(f.of(1)) > 0 || int(upgrades.Load()) < n[timeline.OK] {
		t.Errorf("%v on %d connections: %q", n, upgrades.Load(), f.blames(p.Name))
	}
}

func TestRequestsOnCutWebSocketsAllFail(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const cut = 120
	var cuts atomic.Int64
	cuts.Store(cut)
	server := serveHTTP(t, upgrader(atPing(func(_ *websocket.Conn, n int, _ string) error {
		if n > 1 && cuts.Add(-1) >= 0 {
			return errGone
		}
		return nil
	})))
	p := webSocketProbe(timeline.Reused, server, 100)
	cutsFail(t, &cuts, cut, p)
}
