package loadgen

import (
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/timeline"
)

// streaming serves an event stream: it writes each piece at once, and then leaves the stream open or ends it.
func streaming(end bool, pieces ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Accept") != "text/event-stream" {
			w.WriteHeader(http.StatusNotAcceptable)
			return
		}
		w.Header().Set("X-Pod", "pod-a")
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		for _, piece := range pieces {
			_, _ = io.WriteString(w, piece)
			_ = http.NewResponseController(w).Flush()
		}
		if !end {
			<-r.Context().Done()
		}
	})
}

func TestEventStreamOutcomes(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	answering := func(status int, kind string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind)
			w.WriteHeader(status)
		})
	}
	raw := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			c, _, _ := http.NewResponseController(w).Hijack()
			_, _ = io.WriteString(c, text)
			c.Close()
		})
	}
	tests := []struct {
		name   string
		serve  http.Handler
		change func(*Probe)
		want   timeline.Class
		code   uint16
		says   string
	}{
		{"an event", streaming(false, "data: hello\n\n"), nil, timeline.OK, 200, ""},
		{"an event in pieces, after others that are none", streaming(false, ": keepalive\n\nretry: 5\n\ndata\n", "id: 1\nda", "ta:hello\r\n", "\r\n"), nil, timeline.OK, 200, ""},
		{"the second event is meant", streaming(false, "data: hello\n\n", "data: tea\rdata: time\r\r"), func(p *Probe) { p.ExpectBody = "tea\ntime" }, timeline.OK, 200, ""},
		{"a stream of a length", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9\r\n\r\ndata: a\n\n"), nil, timeline.OK, 200, ""},
		{"a stream of an old server", raw("HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: a\n\n"), nil, timeline.OK, 200, ""},
		{"comments alone", streaming(false, ": keepalive\n\n"), func(p *Probe) { p.Timeout = 200 * time.Millisecond }, timeline.TimeoutResponse, 200, ""},
		{"other events alone", streaming(false, "data: hello\n\n"), func(p *Probe) { p.ExpectBody, p.Timeout = "tea", 200*time.Millisecond }, timeline.TimeoutResponse, 200, ""},
		{"the stream ends", streaming(true, ": keepalive\n\ndata: hel"), nil, timeline.Body, 200, "body: reply ended within its body: the stream ended before the event"},
		{"the connection ends", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n5\r\ndata"), nil, timeline.Body, 200, "the stream ended before the event"},
		{"no chunk", raw("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n"), nil, timeline.Body, 200, "body: malformed reply: "},
		{"the connection ends before", raw(""), nil, timeline.EOF, 0, ""},
		{"a page", answering(200, "text/html"), nil, timeline.Body, 200, `no event stream: its content-type is "text/html"`},
		{"no content", answering(204, ""), nil, timeline.Body, 204, "status 204 No Content"},
		{"an overload", answering(503, "text/event-stream"), nil, timeline.HTTP5xx, 503, "status 503 Service Unavailable"},
		{"too much", streaming(true, strings.Repeat(": no event\n\n", searchedBytes/10)), nil, timeline.Body, 200, "no such event in the first MiB of the stream"},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Direct} {
			t.Run(test.name+" "+string(kind), func(t *testing.T) {
				t.Parallel()
				server := serveHTTP(t, test.serve)
				p := probe(1, kind, "sse"+strings.TrimPrefix(server.URL, "http")+"/news", 20)
				p.Addr = netip.MustParseAddrPort(server.Listener.Addr().String())
				p.MaxConnections = 1000
				if test.change != nil {
					test.change(&p)
				}
				outcomesAre(t, p, test.want, test.code, test.says)
			})
		}
	}
}

func TestEventStreamsOverTLSNameTheirPod(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := httptest.NewTLSServer(streaming(false, "data: hello\n\n"))
	t.Cleanup(server.Close)
	p := probe(1, timeline.New, "sses"+strings.TrimPrefix(server.URL, "https"), 20)
	p.RootCAs, p.Host = x509.NewCertPool(), "example.com"
	p.RootCAs.AddCert(server.Certificate())
	f := runUntil(t, "10 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 10 }, p)
	for _, r := range f.of(1) {
		if r.Class == timeline.OK && f.backends[r.Backend] != "pod-a" || r.Class.Failed() {
			t.Fatalf("%+v: %q", r, f.blames(p.Name))
		}
	}
}
