package loadgen

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"lapse/internal/layer"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// What a server answers to a call, and what becomes of it.
func TestGRPCOutcomes(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	status := func(fields ...string) func(*loadtest.HTTP2Script, uint32) {
		return func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, nil, fields...) }
	}
	tests := []struct {
		name   string
		answer func(c *loadtest.HTTP2Script, stream uint32)
		change func(*Probe)
		want   timeline.Class
		code   uint16
		says   string
	}{
		{"SERVING", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, loadtest.ServingMessage, "grpc-status: 0") }, nil, timeline.OK, 0, ""},
		{"SERVING, with fields of another version", func(c *loadtest.HTTP2Script, s uint32) {
			c.GRPCReply(s, append([]byte("\x12\x03new\x18\x05"), loadtest.ServingMessage...), "grpc-status: 0")
		}, nil, timeline.OK, 0, ""},
		{"NOT_SERVING", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte{8, 2}, "grpc-status: 0") }, nil, timeline.HTTP5xx, 0, "http_5xx: the health check says NOT_SERVING"},
		{"an empty answer", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte{}, "grpc-status: 0") }, nil, timeline.HTTP5xx, 0, "the health check says UNKNOWN"},
		{"UNAVAILABLE", status("grpc-status: 14", "grpc-message: going%20away: 100%"), nil, timeline.HTTP5xx, 14, "http_5xx: grpc-status 14 UNAVAILABLE: going%20away: 100%"},
		{"UNAVAILABLE, escaped", status("grpc-status: 14", "grpc-message: going%20away"), nil, timeline.HTTP5xx, 14, "grpc-status 14 UNAVAILABLE: going away"},
		{"UNIMPLEMENTED, trailers only", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, true, "status: 200", "content-type: application/grpc", "grpc-status: 12", "grpc-message: unknown service")
		}, nil, timeline.HTTP5xx, 12, "grpc-status 12 UNIMPLEMENTED: unknown service: the server has no health check: name a method that it has, as in --grpc-method"},
		{"NOT_FOUND", status("grpc-status: 5"), func(p *Probe) { p.URL += "/cart" }, timeline.HTTP4xx, 5, `grpc-status 5 NOT_FOUND: its health check does not know the service "cart"`},
		{"NOT_FOUND of a method", status("grpc-status: 5", "grpc-message: no such cart"), func(p *Probe) { p.GRPCMethod = "shop.Cart/Get" }, timeline.HTTP4xx, 5, "http_4xx: grpc-status 5 NOT_FOUND: no such cart"},
		{"a code of no name", status("grpc-status: 42"), nil, timeline.HTTP5xx, 42, "grpc-status 42 of no known name"},
		{"no code", status("grpc-status: OK"), nil, timeline.Body, 0, `grpc-status "OK"`},
		{"no grpc-status", status("x-sum: 1"), nil, timeline.Body, 0, "body: malformed reply: no grpc-status"},
		{"the data end the stream", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc", "grpc-status: 0")
			_ = c.WriteData(s, true, loadtest.Framed(loadtest.ServingMessage))
		}, nil, timeline.Body, 0, "no grpc-status"},
		{"no message", status("grpc-status: 0"), nil, timeline.Body, 0, "no message, but grpc-status 0"},
		{"half a message", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, loadtest.Framed(loadtest.ServingMessage)[:6])
			c.Header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "reply ended within its body: 1 bytes of a message of 2"},
		{"half a message's length", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, loadtest.Framed(loadtest.ServingMessage)[:3])
			c.Header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "reply ended within its body"},
		{"a message in pieces", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc+proto")
			for _, b := range loadtest.Framed(loadtest.ServingMessage) {
				_ = c.WriteData(s, false, []byte{b})
			}
			c.Header(s, true, "grpc-status: 0")
		}, nil, timeline.OK, 0, ""},
		{"two messages", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, append(loadtest.Framed(loadtest.ServingMessage), loadtest.Framed(loadtest.ServingMessage)...))
			c.Header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "more than one message: the method streams"},
		{"a compressed message", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: application/grpc")
			_ = c.WriteData(s, false, append([]byte{1}, loadtest.Framed(loadtest.ServingMessage)[1:]...))
			c.Header(s, true, "grpc-status: 0")
		}, nil, timeline.Body, 0, "a compressed message, which was not asked for"},
		{"no health check's answer", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte{8}, "grpc-status: 0") }, nil, timeline.Body, 0, "a health check's answer that cannot be read"},
		{"a method's answer", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte("\x0a\x05hello"), "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod, p.ExpectBody = "shop.Cart/Get", "hello" }, timeline.OK, 0, ""},
		{"a method's empty answer", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte{}, "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod = "shop.Cart/Get" }, timeline.OK, 0, ""},
		{"a method's other answer", func(c *loadtest.HTTP2Script, s uint32) { c.GRPCReply(s, []byte("\x0a\x05hullo"), "grpc-status: 0") },
			func(p *Probe) { p.GRPCMethod, p.ExpectBody = "shop.Cart/Get", "hello" }, timeline.Body, 0, `the message lacks "hello"`},
		{"a proxy's 502", func(c *loadtest.HTTP2Script, s uint32) { c.Header(s, true, "status: 502", "content-type: text/html") }, nil, timeline.HTTP5xx, 502, "status 502 Bad Gateway, in HTTP and not in gRPC"},
		{"a page", func(c *loadtest.HTTP2Script, s uint32) {
			c.Header(s, false, "status: 200", "content-type: text/html")
			_ = c.WriteData(s, true, []byte("<html>"))
		}, nil, timeline.Body, 0, `no gRPC: its content-type is "text/html"`},
		{"a reset stream", func(c *loadtest.HTTP2Script, s uint32) { _ = c.WriteRSTStream(s, http2.ErrCodeRefusedStream) }, nil, timeline.Reset, 0, "reset: RST_STREAM REFUSED_STREAM"},
		{"a GOAWAY that leaves it out", func(c *loadtest.HTTP2Script, s uint32) { _ = c.WriteGoAway(0, http2.ErrCodeNo, nil) }, nil, timeline.EOF, 0, "eof: GOAWAY NO_ERROR: the request was not processed"},
		{"silence", func(*loadtest.HTTP2Script, uint32) {}, func(p *Probe) { p.Timeout = 200 * time.Millisecond }, timeline.TimeoutResponse, 0, ""},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				p := probe(1, kind, "grpc://"+scriptHTTP2(t, func(c *loadtest.HTTP2Script, stream uint32, _ int) bool {
					test.answer(c, stream)
					return true
				}), 20)
				p.MaxConnections = 1000
				if test.change != nil {
					test.change(&p)
				}
				outcomesAre(t, p, test.want, test.code, test.says)
			})
		}
	}
}

// What is sent is what gRPC clients send, and net/http takes it.
func TestGRPCRequestIsAsSpecified(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for path, want := range map[string]string{
		"/":          "POST /grpc.health.v1.Health/Check HTTP/2.0 [application/grpc] [trailers] \"\\x00\\x00\\x00\\x00\\x00\"",
		"/shop.Cart": "POST /grpc.health.v1.Health/Check HTTP/2.0 [application/grpc] [trailers] \"\\x00\\x00\\x00\\x00\\v\\n\\tshop.Cart\"",
	} {
		for _, scheme := range []string{"grpc", "grpcs"} {
			t.Run(scheme+path, func(t *testing.T) {
				t.Parallel()
				server := startHTTP2(t, map[string]string{"grpc": "h2c", "grpcs": "h2"}[scheme], http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					w.Header().Set("Content-Type", "application/grpc")
					w.Header().Set("Trailer", "Grpc-Status, Grpc-Message")
					_, _ = w.Write(loadtest.Framed(loadtest.ServingMessage))
					w.Header().Set("Grpc-Status", "0")
					if got := fmt.Sprintf("%s %s %s %s %s %q", r.Method, r.URL, r.Proto, r.Header["Content-Type"],
						r.Header["Te"], body); got != want {
						w.Header().Set("Grpc-Status", "3")
						w.Header().Set("Grpc-Message", url.PathEscape(got))
					}
				}))
				outcomesAre(t, http2Probe(timeline.Reused, scheme, server, path, 20), timeline.OK, 0, "")
			})
		}
	}
}

// A message of the longest kind goes on one connection again and again: the server's WINDOW_UPDATEs are heeded, and
// where they stay away the connection is left before its window is exceeded.
func TestLongGRPCMessagesStayWithinTheWindow(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for name, updates := range map[string]bool{"with updates": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			addr := scriptHTTP2(t, func(c *loadtest.HTTP2Script, stream uint32, n int) bool {
				if updates {
					_ = c.WriteWindowUpdate(0, longestGRPCMessage+grpcPrefix)
				} else if n > 1 { // 2 messages of 32 KiB and their prefixes exceed 64 KiB
					c.GRPCReply(stream, nil, "grpc-status: 13")
					return true
				}
				c.GRPCReply(stream, []byte{}, "grpc-status: 0")
				return true
			})
			p := probe(1, timeline.Reused, "grpc://"+addr, 20)
			p.Connections, p.GRPCMethod, p.GRPCMessage = 1, "shop.Cart/Put", make([]byte, longestGRPCMessage)
			f := runUntil(t, "10 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 10 }, p)
			again := 0
			for _, r := range f.of(1) {
				if r.Reused {
					again++
				}
			}
			if failed(f.of(1)) > 0 || (again > 0) != updates {
				t.Errorf("%v, %d reused: %q", classes(f.of(1)), again, f.blames(p.Name))
			}
		})
	}
}
