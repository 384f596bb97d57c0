package loadgen

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// startHTTP2 serves handler by net/http, in HTTP/2 only.
func startHTTP2(t *testing.T, scheme string, handler http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(handler)
	startInHTTP2(t, scheme, s)
	return s
}

// startInHTTP2 has s speak HTTP/2 only: over TLS for h2, else by prior knowledge.
func startInHTTP2(t *testing.T, scheme string, s *httptest.Server) {
	t.Helper()
	if scheme == "h2" {
		s.EnableHTTP2 = true
		s.StartTLS()
	} else {
		s.Config.Protocols = new(http.Protocols)
		s.Config.Protocols.SetUnencryptedHTTP2(true)
		s.Start()
	}
	t.Cleanup(s.Close)
}

// http2Probe returns a probe of a path of s.
func http2Probe(kind timeline.TargetKind, scheme string, s *httptest.Server, path string, rate float64) Probe {
	p := webSocketProbe(kind, s, rate)
	p.URL = scheme + "://" + s.Listener.Addr().String() + path
	return p
}

// scriptHTTP2 serves HTTP/2: answer is called when the n-th request of its connection, counted from 1, is whole. The
// connection ends when it returns false.
func scriptHTTP2(t *testing.T, answer func(c *loadtest.HTTP2Script, stream uint32, n int) bool) (addr string) {
	return serveTCP(t, func(tcp *net.TCPConn) { loadtest.RunHTTP2(tcp, answer) }).listener.Addr().String()
}

func TestHTTP2RequestsAreAnswered(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, scheme := range []string{"h2c", "h2"} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
			t.Run(scheme+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				var wrong atomic.Value
				server := startHTTP2(t, scheme, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if got := fmt.Sprint(r.Proto, " ", r.Method, " ", r.URL, " ", r.Header["Cookie"], " ",
						r.UserAgent()); got != "HTTP/2.0 PUT /a?b=c [d=e; f=g] lapse" {
						wrong.Store(got)
					}
					if !strings.HasPrefix(r.Host, "example.com") && r.TLS != nil {
						wrong.Store(r.Host)
					}
					w.WriteHeader(http.StatusEarlyHints)
					w.Header().Set("X-Pod", "pod-a")
					w.Header().Set("Trailer", "X-Sum")
					fmt.Fprint(w, "the whole answer")
					w.Header().Set("X-Sum", "1")
				}))
				p := http2Probe(kind, scheme, server, "/a?b=c", 50)
				p.Method, p.Connections, p.ExpectBody = "PUT", 2, "whole"
				p.Header = http.Header{"Cookie": {"d=e", "f=g"}}
				f := runUntil(t, "30 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 30 }, p)
				again := 0
				for _, r := range f.of(1) {
					if r.Class == timeline.OK && (f.backends[r.Backend] != "pod-a" || r.Code != 200 ||
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
				if got := wrong.Load(); got != nil {
					t.Errorf("the server got %v", got)
				}
			})
		}
	}
}

// What a server does to a request on a connection of HTTP/2, and what becomes of the request.
func TestHTTP2Outcomes(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	tests := []struct {
		name   string
		answer func(c *loadtest.HTTP2Script, stream uint32, n int) bool
		change func(*Probe)
		want   timeline.Class
		code   uint16
		says   string
	}{
		{"503", func(c *loadtest.HTTP2Script, s uint32, _ int) bool { c.Header(s, true, "status: 503"); return true }, nil, timeline.HTTP5xx, 503, "status 503 Service Unavailable"},
		{"404 that is expected", func(c *loadtest.HTTP2Script, s uint32, _ int) bool { c.Header(s, true, "status: 404"); return true },
			func(p *Probe) { p.ExpectStatus, _ = ParseStatuses("404") }, timeline.OK, 404, ""},
		{"another body", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200")
			_ = c.WriteData(s, true, []byte("hell"))
			return true
		}, func(p *Probe) { p.ExpectBody = "hello" }, timeline.Body, 200, `the body lacks "hello"`},
		{"the body in pieces, and padded", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200", "content-length: 5")
			_ = c.WriteDataPadded(s, false, []byte("hel"), make([]byte, 9))
			_ = c.WritePing(false, [8]byte{1})
			_ = c.WriteData(s, false, []byte("lo"))
			c.Header(s, true, "x-sum: 1")
			return true
		}, func(p *Probe) { p.ExpectBody = "hello" }, timeline.OK, 200, ""},
		{"a HEAD", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, true, "status: 200", "content-length: 5")
			return true
		}, func(p *Probe) { p.Method = "HEAD" }, timeline.OK, 200, ""},
		{"a body too short", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200", "content-length: 5")
			_ = c.WriteData(s, true, []byte("hell"))
			return true
		}, nil, timeline.Body, 200, "reply ended within its body: 4 bytes of 5"},
		{"a body cut short", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200", "content-length: 5")
			_ = c.WriteData(s, false, []byte("hell"))
			return false
		}, nil, timeline.Body, 200, "reply ended within its body"},
		{"the connection's end", func(*loadtest.HTTP2Script, uint32, int) bool { return false }, nil, timeline.EOF, 0, ""},
		{"a reset stream", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WriteRSTStream(s, http2.ErrCodeInternal)
			return true
		}, nil, timeline.Reset, 0, "reset: RST_STREAM INTERNAL_ERROR"},
		{"a stream reset within its body", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200")
			_ = c.WriteRSTStream(s, http2.ErrCodeCancel)
			return true
		}, nil, timeline.Reset, 200, "reset: RST_STREAM CANCEL"},
		{"a GOAWAY that leaves it out", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WriteGoAway(s-1, http2.ErrCodeNo, []byte("deploy"))
			return false
		}, nil, timeline.EOF, 0, `eof: GOAWAY NO_ERROR "deploy": the request was not processed`},
		{"a GOAWAY that lets it finish", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WriteGoAway(1<<31-1, http2.ErrCodeNo, nil)
			_ = c.WritePing(false, [8]byte{1})
			_ = c.WriteGoAway(s, http2.ErrCodeNo, nil)
			c.OK(s)
			return true
		}, nil, timeline.OK, 200, ""},
		{"a GOAWAY that would let it finish", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WriteGoAway(s, http2.ErrCodeEnhanceYourCalm, []byte("too_many_pings"))
			return false
		}, nil, timeline.EOF, 0, `eof: GOAWAY ENHANCE_YOUR_CALM "too_many_pings", and the connection ended before the reply`},
		{"no status", func(c *loadtest.HTTP2Script, s uint32, _ int) bool { c.Header(s, true, "x-pod: a"); return true }, nil, timeline.Body, 0, "no status code of HTTP/2"},
		{"data before a header", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WriteData(s, true, []byte("x"))
			return true
		}, nil, timeline.Body, 0, "data before a header"},
		{"another stream", func(c *loadtest.HTTP2Script, s uint32, _ int) bool { c.OK(s + 2); return true }, nil, timeline.Body, 0, "a stream that was never opened"},
		{"a push", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			_ = c.WritePushPromise(http2.PushPromiseParam{StreamID: s, PromiseID: 2, EndHeaders: true})
			return true
		}, nil, timeline.Body, 0, "a push, which was switched off"},
		{"a frame too long", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, false, "status: 200")
			_ = c.WriteData(s, true, make([]byte, http2FrameSize+1))
			return true
		}, nil, timeline.Body, 200, "a frame longer than agreed on"},
		{"a name in capitals", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Header(s, true, "status: 200", "X-Pod: a")
			return true
		}, nil, timeline.Body, 0, "malformed reply: HTTP/2: invalid header field name"},
		{"a header in pieces", func(c *loadtest.HTTP2Script, s uint32, _ int) bool {
			c.Block.Reset()
			_ = c.Fields.WriteField(hpack.HeaderField{Name: ":status", Value: "200"})
			_ = c.Fields.WriteField(hpack.HeaderField{Name: "x-long", Value: strings.Repeat("~", 3000)})
			_ = c.WriteHeaders(http2.HeadersFrameParam{StreamID: s, BlockFragment: c.Block.Bytes()[:100],
				EndStream: true})
			_ = c.WriteContinuation(s, false, c.Block.Bytes()[100:200])
			_ = c.WriteContinuation(s, true, c.Block.Bytes()[200:])
			return true
		}, nil, timeline.OK, 200, ""},
		{"silence", func(*loadtest.HTTP2Script, uint32, int) bool { return true }, func(p *Probe) { p.Timeout = 200 * time.Millisecond }, timeline.TimeoutResponse, 0, ""},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(1, kind, "h2c://"+scriptHTTP2(t, test.answer), 20)
				p.MaxConnections = 1000
				if test.change != nil {
					test.change(&p)
				}
				outcomesAre(t, p, test.want, test.code, test.says)
			})
		}
	}
}

// outcomesAre measures p until 5 requests show something, and complains unless all are as said.
func outcomesAre(t *testing.T, p Probe, want timeline.Class, code uint16, says string) {
	t.Helper()
	f := runUntil(t, "5 observed requests", func(f *facts) bool { return f.observed(1) >= 5 }, p)
	for _, r := range f.of(1) {
		if r.Class.Observed() && (r.Class != want || r.Code != code) {
			t.Fatalf("%v %d, want %v %d: %q", r.Class, r.Code, want, code, f.blames(p.Name))
		}
	}
	if told := strings.Join(f.blames(p.Name), "; "); !strings.Contains(told, says) || says == "" && told != "" {
		t.Errorf("the error is %q, want %q", told, says)
	}
}

// What speaks another protocol, or only another version, is named for what it is, and nothing hangs.
func TestHTTP2ToOtherServers(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	one := serveHTTP(t, http.NotFoundHandler())
	secure := httptest.NewUnstartedServer(http.NotFoundHandler()) // which offers http/1.1 by ALPN
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	config, roots := testTLS(t)
	without := serveTCP(t, func(c *net.TCPConn) { // TLS without ALPN
		_, _ = io.Copy(io.Discard, tls.Server(c, config))
	}).listener.Addr().String()
	tests := []struct {
		name, url string
		want      timeline.Class
		says      string
	}{
		{"HTTP/1.1", "h2c://" + one.Listener.Addr().String(), timeline.Body, "body: malformed reply: the server answers in HTTP/1.1: it does not speak HTTP/2 at once, as in http://"},
		{"TLS, and Go's server", "h2c://" + secure.Listener.Addr().String(), timeline.EOF, "a server that speaks TLS"},
		{"a TLS alert", "h2c://" + serveTCP(t, once("\x15\x03\x01\x00\x02\x02\x46")).listener.Addr().String(), timeline.Body, "body: malformed reply: a TLS alert: the server speaks TLS, as in h2://"},
		{"SSH", "h2c://" + serveTCP(t, greeting("SSH-2.0-OpenSSH_9.2\r\n")).listener.Addr().String(), timeline.Body, `body: malformed reply: no HTTP/2: "SSH-2.0-O"`},
		{"a server that closes", "h2c://" + serveTCP(t, once("")).listener.Addr().String(), timeline.EOF, "eof: the connection was closed in answer to the preface of HTTP/2"},
		{"a server that is silent", "h2c://" + serveTCP(t, func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) }).listener.Addr().String(), timeline.TimeoutResponse, ""},
		{"HTTPS of HTTP/1.1", "h2://" + secure.Listener.Addr().String(), timeline.TLS, "tls: "},
		{"TLS without ALPN", "h2://" + without, timeline.TLS, "tls: the server does not choose h2 by ALPN: it speaks no HTTP/2 over TLS, or only HTTP/1.1 as in https://"},
		{"no TLS", "h2://" + one.Listener.Addr().String(), timeline.TLS, "tls: first record does not look like a TLS handshake"},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(1, kind, test.url, 20)
				p.RootCAs, p.Host = roots, "example.com"
				if test.want.Timeout() {
					p.Timeout = 200 * time.Millisecond
				}
				outcomesAre(t, p, test.want, 0, test.says)
			})
		}
	}
}

// HTTP/1.1 to a port that speaks HTTP/2 alone is a wrong reply, and named for what it is if the server sends anything.
func TestHTTP1ToAnHTTP2Server(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		for name, after := range map[string]func(*net.TCPConn){
			"that leaves": func(*net.TCPConn) {}, "that resets": func(c *net.TCPConn) { _ = c.SetLinger(0) },
			"that waits": func(c *net.TCPConn) { _, _ = io.Copy(io.Discard, c) },
		} {
			t.Run(string(kind)+" "+name, func(t *testing.T) {
				t.Parallel()
				p := probe(1, kind, "http://"+serveTCP(t, func(c *net.TCPConn) {
					_, _ = bufio.NewReader(c).ReadString('\n')
					_ = http2.NewFramer(c, nil).WriteSettings(http2.Setting{ID: http2.SettingMaxFrameSize,
						Val: 1 << 14})
					after(c)
				}).listener.Addr().String(), 20)
				if name == "that waits" {
					p.Timeout = 200 * time.Millisecond
				}
				if name == "that resets" { // which may overtake what was sent before
					f := runUntil(t, "5 failures", func(f *facts) bool { return f.ended(1, timeline.Body)+f.ended(1, timeline.Reset) >= 5 }, p)
					if failed(f.of(1)) != f.observed(1) {
						t.Error(classes(f.of(1)))
					}
					return
				}
				outcomesAre(t, p, timeline.Body, 0, "body: malformed reply: it begins with SETTINGS: the server speaks HTTP/2 alone, as in h2c:// and grpc://")
			})
		}
	}
}

// A server may speak between requests: its PINGs and SETTINGS are answered, and no request fails for it.
func TestHTTP2ServersSpeakUnasked(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var pongs atomic.Int64
	addr := serveTCP(t, func(tcp *net.TCPConn) {
		var once sync.Once
		ended := make(chan struct{})
		var speaking sync.WaitGroup
		defer speaking.Wait()
		defer close(ended)
		c := &countPongs{TCPConn: tcp, pongs: &pongs}
		loadtest.RunHTTP2(c, func(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
			c.OK(stream)
			once.Do(func() {
				own := http2.NewFramer(tcp, nil)
				speaking.Go(func() {
					for ticks := time.NewTicker(10 * time.Millisecond); ; {
						select {
						case <-ended:
							ticks.Stop()
							return
						case <-ticks.C:
						}
						_ = own.WritePing(false, [8]byte{7})
						_ = own.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 100})
						_ = own.WriteWindowUpdate(0, 1)
						_ = own.WriteRawFrame(0xee, 0, 0, []byte("of an extension"))
					}
				})
			})
			return true
		})
	}).listener.Addr().String()
	p := probe(1, timeline.Reused, "h2c://"+addr, 50)
	f := runUntil(t, "100 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 100 && pongs.Load() >= 100 }, p)
	if failed(f.of(1)) > 0 {
		t.Errorf("%v: %q", classes(f.of(1)), f.blames(p.Name))
	}
}

// A server that keeps a smaller dynamic table than a connection begins with closes the connection unless the next header
// block says that the table is smaller (RFC 9113, section 4.3.1).
func TestHTTP2ServersWithASmallHeaderTableAreAsked(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, size := range []uint32{0, 100, 4096} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(fmt.Sprint(size, " ", kind), func(t *testing.T) {
				t.Parallel()
				addr := serveTCP(t, func(tcp *net.TCPConn) { serveHeaderTable(tcp, size) }).listener.Addr().String()
				p := probe(1, kind, "h2c://"+addr, 50)
				f := runUntil(t, "10 observed requests", func(f *facts) bool { return f.observed(1) >= 10 }, p)
				if failed(f.of(1)) > 0 {
					t.Errorf("%v: %q", classes(f.of(1)), f.blames(p.Name))
				}
			})
		}
	}
}

// serveHeaderTable serves HTTP/2 with a dynamic table of a size for the headers of requests. Its SETTINGS are
// acknowledged before a request comes.
func serveHeaderTable(tcp *net.TCPConn, size uint32) {
	table := hpack.NewDecoder(4096, nil)
	said := size == 4096
	_, _ = io.ReadFull(tcp, make([]byte, len(http2.ClientPreface)))
	c := loadtest.NewHTTP2Script(tcp, tcp)
	_ = c.WriteSettings(http2.Setting{ID: http2.SettingHeaderTableSize, Val: size})
	for {
		f, err := c.ReadFrame()
		if err != nil {
			return
		}
		switch f := f.(type) {
		case *http2.SettingsFrame:
			if f.IsAck() {
				table.SetAllowedMaxDynamicTableSize(size)
			} else {
				_ = c.WriteSettingsAck()
			}
		case *http2.HeadersFrame:
			block := f.HeaderBlockFragment()
			said = said || block[0]>>5 == 1 // RFC 7541, section 6.3
			if _, err := table.DecodeFull(block); err != nil || !said {
				_ = c.WriteGoAway(0, http2.ErrCodeCompression, nil)
				return
			}
			c.OK(f.StreamID)
		}
	}
}

// countPongs counts the frames that are PINGs with ACK, of those that come alone.
type countPongs struct {
	*net.TCPConn
	pongs *atomic.Int64
}

func (c *countPongs) Read(p []byte) (int, error) {
	n, err := c.TCPConn.Read(p)
	if n == http2FrameHeader && p[3] == byte(http2.FramePing) && p[4] == byte(http2.FlagPingAck) {
		c.pongs.Add(1)
	}
	return n, err
}

// A GOAWAY on an idle connection is no failure, and neither is one during a request that it lets finish: the next
// request connects anew.
func TestGoAwayRetiresTheConnection(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for name, before := range map[string]bool{"before the reply": true, "after it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var conns atomic.Int64
			addr := scriptHTTP2(t, func(c *loadtest.HTTP2Script, stream uint32, n int) bool {
				if n == 1 {
					conns.Add(1)
				}
				if before {
					_ = c.WriteGoAway(stream, http2.ErrCodeNo, nil)
				}
				c.OK(stream)
				if !before {
					_ = c.WriteGoAway(stream, http2.ErrCodeNo, nil)
				}
				return n < 2 // a second request on the connection is left alone
			})
			p := probe(1, timeline.Reused, "h2c://"+addr, 20)
			p.Connections = 2
			f := runUntil(t, "20 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 20 }, p)
			if n := classes(f.of(1)); failed(f.of(1)) > 0 || int(conns.Load()) < n[timeline.OK] {
				t.Errorf("%v on %d connections: %q", n, conns.Load(), f.blames(p.Name))
			}
		})
	}
}

func TestRequestsOnCutHTTP2ConnectionsAllFail(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const cut = 120
	var cuts atomic.Int64
	cuts.Store(cut)
	addr := scriptHTTP2(t, func(c *loadtest.HTTP2Script, stream uint32, n int) bool {
		if n == 1 { // so that a cut fails one request
			_ = c.WriteSettings(http2.Setting{ID: http2.SettingMaxConcurrentStreams, Val: 1})
		}
		if n > 1 && cuts.Add(-1) >= 0 {
			return false
		}
		c.OK(stream)
		return true
	})
	p := probe(1, timeline.Reused, "h2c://"+addr, 100)
	cutsFail(t, &cuts, cut, p)
}

// A request that is given up leaves its connection as it is: what is behind a connection that hangs shows for as long
// as it hangs, and what comes late for the old request is no reply to the next.
func TestGivenUpRequestsKeepTheirConnection(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, scheme := range []string{"h2c", "h2"} {
		t.Run(scheme, func(t *testing.T) {
			t.Parallel()
			config, roots := testTLS(t)
			config.NextProtos = []string{"h2"}
			var conns, good atomic.Int64
			answer := func(c *loadtest.HTTP2Script, stream uint32, n int) bool {
				if n == 1 {
					conns.Add(1)
				}
				if n < 4 {
					return true // no answer, yet
				}
				if n == 4 {
					for _, late := range c.GivenUp { // a slow machine may still wait for another
						c.Header(late, false, "status: 503")
						_ = c.WriteData(late, true, []byte("late"))
					}
				}
				c.OK(stream)
				good.Add(1)
				return true
			}
			addr := serveTCP(t, func(tcp *net.TCPConn) {
				if scheme == "h2" {
					loadtest.RunHTTP2(tls.Server(tcp, config), answer)
				} else {
					loadtest.RunHTTP2(tcp, answer)
				}
			}).listener.Addr().String()
			p := probe(1, timeline.Reused, scheme+"://"+addr, 4)
			p.Connections, p.Timeout, p.RootCAs, p.Host = 1, 200*time.Millisecond, roots, "example.com"
			f := runUntil(t, "5 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 5 }, p)
			n := classes(f.of(1))
			// a busy machine may open a spare one
			if n[timeline.TimeoutResponse]+n[timeline.Local] < 3 || n[timeline.HTTP5xx] > 0 || conns.Load() > 2 {
				t.Errorf("%v on %d connections: %q", n, conns.Load(), f.blames(p.Name))
			}
		})
	}
}

// A large body is read to its end: the server is told that it may go on. So are many small ones on one connection.
func TestHTTP2BodiesBeyondTheWindowAreRead(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	const size = 5 * http2Window
	server := startHTTP2(t, "h2c", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, size))
	}))
	p := http2Probe(timeline.Reused, "h2c", server, "/", 10)
	p.Connections = 1
	f := runUntil(t, "10 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 10 }, p)
	if failed(f.of(1)) > 0 {
		t.Errorf("%v: %q", classes(f.of(1)), f.blames(p.Name))
	}
}

// A request's header that fits into no frame goes in several.
func TestHTTP2RequestsMayBeLong(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	long := strings.Repeat("~", 3*http2FrameSize)
	server := startHTTP2(t, "h2c", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Long") != long {
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		p := http2Probe(kind, "h2c", server, "/", 20)
		p.Header = http.Header{"X-Long": {long}}
		outcomesAre(t, p, timeline.OK, 200, "")
	}
}
