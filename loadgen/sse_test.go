package loadgen

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"testing/iotest"
	"time"

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
	t.Parallel()
	server := httptest.NewTLSServer(streaming(false, "data: hello\n\n"))
	t.Cleanup(server.Close)
	p := probe(1, timeline.New, "sses"+strings.TrimPrefix(server.URL, "https"), 20)
	p.RootCAs, p.Host = x509.NewCertPool(), "example.com"
	p.RootCAs.AddCert(server.Certificate())
	f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
		waitFor(t, "10 good answers", func() bool { return f.ended(1, timeline.OK) >= 10 })
	}, p)
	for _, r := range f.of(1) {
		if r.Class == timeline.OK && f.backends[r.Backend] != "pod-a" || r.Class.Failed() {
			t.Fatalf("%+v: %q", r, f.blames(p.Name))
		}
	}
}

func TestEventStreamsAreForNewConnections(t *testing.T) {
	p := probe(1, timeline.Reused, "sse://web/news", 10)
	if err := p.Check(); err == nil || !strings.Contains(err.Error(), streamsGoOn) {
		t.Error(err)
	}
}

// Whatever comes, it is read alike however it arrives, and an event is one to a parser that reads line by line.
func FuzzEventsAreReadAsByLines(f *testing.F) {
	for _, seed := range []string{"data: a\n\n", ": a\r\n\r\nid\rdata\rdata:b\r\r", "\ufeffdata:tea\n\n", "data: a\ndata: tea\n\nmore", "data\n\n", "data: \n\n", "DATA: tea\n\n"} {
		f.Add(seed, "tea")
	}
	f.Fuzz(func(t *testing.T, stream, part string) {
		if strings.ContainsAny(part, "\r\x00") || len(stream) >= searchedBytes {
			return
		}
		text := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n" + stream
		p := probe(1, timeline.New, "sse://web/", 10)
		p.ExpectBody = part
		codec, err := newEvents(p, &url.URL{Scheme: "sse", Host: "web"})
		if err != nil {
			t.Fatal(err)
		}
		var whole, slow reply
		ours := codec.read(bufio.NewReaderSize(strings.NewReader(text), readBuffer), &whole)
		late := codec.read(bufio.NewReaderSize(iotest.OneByteReader(strings.NewReader(text)), readBuffer), &slow)
		if fmt.Sprint(ours) != fmt.Sprint(late) || (ours == nil) != hasEvent(stream, part) {
			t.Errorf("%q with %q: %v, byte by byte %v, by lines %v", stream, part, ours, late, hasEvent(stream, part))
		}
		if ours != nil && !errors.Is(ours, errTruncated) {
			t.Error(ours)
		}
	})
}

// hasEvent reports whether a stream has an event with part in its data.
func hasEvent(stream, part string) bool {
	stream = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(stream, "\ufeff"), "\r\n", "\n"), "\r", "\n")
	var data bytes.Buffer
	for line := range strings.Lines(stream) {
		text, whole := strings.CutSuffix(line, "\n")
		name, value, _ := strings.Cut(text, ":")
		switch {
		case !whole:
			return false
		case text == "" && data.Len() > 0:
			if strings.Contains(strings.TrimSuffix(data.String(), "\n"), part) {
				return true
			}
			data.Reset()
		case text != "" && name == "data":
			data.WriteString(strings.TrimPrefix(value, " ") + "\n")
		}
	}
	return false
}
