package hey

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rakyll/hey/requester"

	"lapse/loadgen"
)

// This file drives hey's requester, and guards against what it does:
//
//   - Each worker makes N ÷ C requests, rounded down. Callers ask for a multiple of the workers.
//   - Stop sends one message per worker, into a channel with room for just as many: it is called once. A worker
//     that waits for its tick or for a reply does not notice: so -q has a lower bound, what is due after the end is
//     cancelled before it is sent, and what was sent is cut off a second after the end.
//   - It takes the Host header, port and all, for the server name in TLS: it gets the name in the request it looks
//     at, and the header in those it sends.
//   - Its transport is out of reach, and keeps idle connections, with two goroutines each, for ever: the connections
//     it gets are noted and closed. (One dialled for a request that then got another connection is missed.)
//   - With -disable-redirects each worker writes to the client they share, a data race: it is not used.

const (
	grace     = time.Second        // for requests under way to end by themselves
	cancelled = "context canceled" // in the errors of requests that were cut off
)

// A load is a request to be made over and over.
type load struct {
	flags   Flags
	request *http.Request
	server  string       // its name in TLS (SNI)
	unsent  atomic.Int64 // requests that fell due after the end; hey counts them as cancelled
	conns   connSet
}

// newLoad asks for what the probe p asks for. Headers in the flags replace those of p.
func newLoad(flags Flags, p loadgen.Probe) (*load, error) {
	u, err := loadgen.ParseURL(p.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL %s: hey speaks http and https only", u.Redacted())
	}
	host := cmp.Or(flags.Header.Get("Host"), p.Header.Get("Host"), p.Host, loadgen.HostHeader(u))
	server := (&url.URL{Host: cmp.Or(flags.Header.Get("Host"), p.Host, u.Host)}).Hostname()
	if p.Addr.IsValid() {
		u.Host = p.Addr.String()
	}
	request, err := http.NewRequest(flags.Method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Host, request.ContentLength = host, int64(len(flags.Body))
	for _, header := range []http.Header{p.Header, flags.Header} {
		for name, values := range header {
			request.Header[http.CanonicalHeaderKey(name)] = values
		}
	}
	return &load{flags: flags, request: request, server: server}, nil
}

// run makes n requests, a multiple of the workers, or fewer if ctx ends. It returns what hey makes of its results by
// template.
func (l *load) run(ctx context.Context, n int, template string) []byte {
	var output bytes.Buffer
	requests, cutOff := context.WithCancel(l.traced(context.Background()))
	defer cutOff()
	work := requester.Work{
		Request:           &http.Request{Host: l.server}, // hey takes only the server name from it
		RequestFunc:       func() *http.Request { return l.next(ctx, requests) },
		N:                 n,
		C:                 min(l.flags.Workers, n),
		QPS:               l.flags.PerWorker,
		Timeout:           l.flags.Timeout,
		DisableKeepAlives: l.flags.PerRequest,
		Output:            template,
		Writer:            &output,
	}
	work.Init()
	ended := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() { stop(ctx, &work, ended, cutOff) })
	work.Run()
	close(ended)
	stopping.Wait()
	l.conns.closeAll()
	return output.Bytes()
}

// stop stops work when ctx ends, and cuts its requests off if they do not end soon.
func stop(ctx context.Context, work *requester.Work, ended <-chan struct{}, cutOff func()) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	work.Stop()
	select {
	case <-ended:
	case <-time.After(grace):
		cutOff()
	}
}

// next returns the next request, to be made in the context requests. When ctx has ended it is one that is not sent.
func (l *load) next(ctx, requests context.Context) *http.Request {
	if ctx.Err() != nil {
		l.unsent.Add(1)
		never, cancel := context.WithCancel(requests)
		cancel()
		return l.request.WithContext(never)
	}
	request := l.request.Clone(requests)
	if l.flags.Body != "" {
		request.Body = io.NopCloser(strings.NewReader(l.flags.Body))
	}
	return request
}

// traced notes the connections that requests are sent on.
func (l *load) traced(ctx context.Context) context.Context {
	if l.flags.PerRequest {
		return ctx // each is closed after its request
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if !info.Reused {
				l.conns.add(info.Conn)
			}
		},
	})
}

// unanswered returns how many requests of a run were cut off, by the errors that hey counted.
func (l *load) unanswered(errors map[string]int64) int64 {
	n := -l.unsent.Swap(0)
	for text, count := range errors {
		if strings.Contains(text, cancelled) {
			n += count
		}
	}
	return n
}

// A connSet is connections to be closed together.
type connSet struct {
	mu    sync.Mutex
	conns []net.Conn
}

func (s *connSet) add(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, c)
}

// closeAll closes them. Most are idle, some were closed before.
func (s *connSet) closeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range s.conns {
		if secure, ok := c.(*tls.Conn); ok {
			c = secure.NetConn() // no close_notify is written
		}
		_ = c.Close()
	}
	s.conns = nil
}
