package hey

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen"
	"lapse/timeline"
)

// grace is how long requests under way at the end of a load may take to end by themselves.
const grace = time.Second

// A load is a request to be made over and over.
type load struct {
	flags   Flags
	request *http.Request
	server  string // its name in TLS (SNI)
}

// A result is what came of one request.
type result struct {
	begin  time.Duration // since the load began
	took   time.Duration // until all of the reply had been read
	status int
	size   int64 // of the body, in bytes, if the header announced it
	err    error // nil: it was answered
}

// cutOff reports whether the request had no answer within a second after the load's end.
func (r result) cutOff() bool { return errors.Is(r.err, context.Canceled) }

// newLoad asks for what the probe p asks for. Headers in the flags replace those of p.
func newLoad(flags Flags, p loadgen.Probe) (*load, error) {
	u, err := loadgen.ParseURL(p.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL %s: background load and calibrate speak http and https only", u.Redacted())
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

// transport speaks HTTP/1.1, checks no certificate, and uses no proxy.
func (l *load) transport() *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	return &http.Transport{
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true, ServerName: l.server},
		Protocols:           protocols,
		MaxIdleConnsPerHost: l.flags.Workers,
		DisableKeepAlives:   l.flags.PerRequest,
	}
}

// run makes n requests, or fewer if ctx ends. Each worker sends its next one when the last has ended, or at its next
// tick. What is under way when ctx ends is cut off a second later. sink takes the results, one at a time.
func (l *load) run(ctx context.Context, n int, sink func(result)) {
	transport := l.transport()
	defer transport.CloseIdleConnections()
	client := &http.Client{Transport: transport, Timeout: time.Duration(l.flags.Timeout) * time.Second}
	requests, cutOff := context.WithCancel(context.WithoutCancel(ctx))
	defer cutOff()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(grace, cutOff) })()

	var left atomic.Int64
	left.Store(int64(n))
	clock := timeline.StartClock()
	var one sync.Mutex // held by whoever calls sink
	var workers sync.WaitGroup
	for range min(l.flags.Workers, n) {
		workers.Go(func() {
			due, stop := l.ticks()
			defer stop()
			for left.Add(-1) >= 0 && await(ctx, due) {
				r := l.ask(client, requests, clock)
				one.Lock()
				sink(r)
				one.Unlock()
			}
		})
	}
	workers.Wait()
}

// ticks returns when a worker's requests are due: at any time if nil.
func (l *load) ticks() (due <-chan time.Time, stop func()) {
	if l.flags.PerWorker == 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(time.Duration(float64(time.Second) / l.flags.PerWorker))
	return ticker.C, ticker.Stop
}

// await waits until the next request is due, and reports false when ctx has ended: nothing is sent then.
func await(ctx context.Context, due <-chan time.Time) bool {
	if due != nil {
		select {
		case <-due:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}

// ask sends one request and reads the whole reply.
func (l *load) ask(client *http.Client, ctx context.Context, clock timeline.Clock) result {
	request := l.request.Clone(ctx)
	if l.flags.Body != "" {
		request.Body = io.NopCloser(strings.NewReader(l.flags.Body))
	}
	r := result{begin: clock.Now()}
	reply, err := client.Do(request)
	if err == nil {
		r.status, r.size = reply.StatusCode, max(reply.ContentLength, 0)
		_, err = io.Copy(io.Discard, reply.Body)
		_ = reply.Body.Close() // it has been read
	}
	r.took, r.err = clock.Now()-r.begin, err
	return r
}
