package hey

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/rakyll/hey/requester"

	"lapse/loadgen"
	"lapse/timeline"
)

// This file puts background load on a service through rakyll/hey's requester, and guards its traps:
//
//   - It keeps eight series of every result, sorts them at the end, and stops keeping them at a million. So
//     long loads are run in rounds, whose results are merged here.
//   - Each worker makes N ÷ C requests, rounded down: what that leaves of -n is made in a round of its own.
//   - Stop sends one message per worker, into a channel with room for just as many: it is called once. A worker
//     that waits for its tick or for a reply does not hear it: so -q has a lower bound, what is due after the end is
//     cancelled before it is sent, and what was sent when it has had its chance to end.
//   - It takes the Host header, port and all, for the server name in TLS: it gets the name in the request it looks at, and
//     the header in those it sends.
//   - Its transport is out of reach, and keeps idle connections, with two goroutines each, for ever: we note each
//     connection it gets and close them all. (One dialled for a request that then got another escapes us; it is
//     kept until the server or the process ends it.)
//   - Where every request failed, an average is NaN and its JSON is empty: we ask for the parts that are always there.
//   - With -disable-redirects each worker sets the same member of the client they share: a data race to the letter, though all
//     write the same.
//   - Its errors carry local ports, so that each of them is another one: we take the ports out.

const (
	roundSize     = 200_000         // requests per round
	heyGrace      = time.Second     // what requests under way get to end by themselves
	mostErrors    = 50              // distinct error texts kept in the summary
	longestReply  = 2 * time.Minute // counted as such in the latency distribution
	otherErrors   = "other errors"
	stoppedErrors = "context canceled" // in the errors of requests that we cut off
)

// heyOutput has hey write its results as JSON. Only what is a number even when all requests failed.
const heyOutput = `{"Lats":{{jsonify .Lats}},"StatusCodeDist":{{jsonify .StatusCodeDist}},` +
	`"ErrorDist":{{jsonify .ErrorDist}},"SizeTotal":{{jsonify .SizeTotal}},"NumRes":{{jsonify .NumRes}}}`

// HammerConfig says what to hit and how.
type HammerConfig struct {
	Args  string        // hey's flags
	Probe loadgen.Probe // what the probes ask: URL, Host, Header and a direct target's Addr are taken from here
	Clock timeline.Clock
	Sink  func(timeline.Fact) // takes the two Hammer events; called by this goroutine
}

// HammerSummary is what the background load saw. Its names and units are those of hey's own report.
// Times are in seconds.
type HammerSummary struct {
	Total  float64 // how long it ran
	NumRes int64   // requests that ended, well or not
	Rps    float64 // NumRes ÷ Total

	Unanswered int64 `json:",omitzero"` // requests cut off at the end, a second after it; they are not in NumRes

	Average float64 `json:",omitzero"` // of replies, like what follows
	Fastest float64 `json:",omitzero"`
	Slowest float64 `json:",omitzero"`

	LatencyDistribution []HammerLatency  `json:",omitempty"`
	StatusCodeDist      map[int]int64    `json:",omitempty"`
	ErrorDist           map[string]int64 `json:",omitempty"` // by text, without local ports
	SizeTotal           int64            `json:",omitzero"`  // bytes of the bodies whose length was announced
}

// HammerLatency: so many percent of the replies took at most Latency seconds.
type HammerLatency struct {
	Percentage float64
	Latency    float64
}

// Hammer puts background load on what probe asks until ctx ends, -z has passed or -n requests were made. It
// tells of its begin, and of its end with the summary or an error, as two Hammer events: a load that was asked
// for and did not come about is on the record too.
func Hammer(ctx context.Context, c HammerConfig) error {
	c.Sink(timeline.Event{Kind: timeline.Hammer, Seen: c.Clock.Now(), To: "running", Detail: PublicHammer(c.Args)})
	summary, err := runHammer(ctx, c)
	c.Sink(timeline.Event{Kind: timeline.Hammer, Seen: c.Clock.Now(), To: "ended", Detail: detail(summary, err)})
	return err
}

func runHammer(ctx context.Context, c HammerConfig) (HammerSummary, error) {
	flags, err := ParseHammer(c.Args)
	if err != nil {
		return HammerSummary{}, fmt.Errorf("hammer: %w", err)
	}
	h, err := newHammer(flags, c.Probe)
	if err != nil {
		return HammerSummary{}, fmt.Errorf("hammer: %w", err)
	}
	return h.run(ctx)
}

// detail is the end of the hammer in an event: the summary as JSON, or else an error's text.
func detail(summary HammerSummary, err error) string {
	if err != nil {
		return err.Error()
	}
	text, err := json.Marshal(summary)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// A hammer is background load under way.
type hammer struct {
	flags   HammerFlags
	request *http.Request
	server  string       // its name in TLS (SNI)
	unsent  atomic.Int64 // requests that fell due after the end; hey counts them as cancelled
	conns   connSet
	latency *hdrhistogram.Histogram // of replies, in microseconds
	sum     float64                 // of replies' latencies, in seconds
	summary HammerSummary
}

func newHammer(flags HammerFlags, p loadgen.Probe) (*hammer, error) {
	u, err := loadgen.ParseURL(p.URL)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("URL %s: hey speaks http and https only", u.Redacted())
	}
	host := cmp.Or(flags.Host, flags.Header.Get("Host"), p.Header.Get("Host"), p.Host, loadgen.HostHeader(u))
	server := (&url.URL{Host: cmp.Or(flags.Host, p.Host, u.Host)}).Hostname()
	if p.Addr.IsValid() {
		u = &url.URL{Scheme: u.Scheme, Host: p.Addr.String(), Path: u.Path, RawPath: u.RawPath, RawQuery: u.RawQuery}
	}
	request, err := http.NewRequest(flags.Method, u.String(), nil)
	if err != nil {
		return nil, err
	}
	request.Host = host
	request.Header = mergeHeader(p.Header, flags.Header)
	request.ContentLength = int64(len(flags.Body))
	if flags.Username != "" || flags.Password != "" {
		request.SetBasicAuth(flags.Username, flags.Password)
	}
	return &hammer{
		flags:   flags,
		request: request,
		server:  server,
		latency: hdrhistogram.New(1, longestReply.Microseconds(), 3),
		summary: HammerSummary{StatusCodeDist: map[int]int64{}, ErrorDist: map[string]int64{}},
	}, nil
}

// mergeHeader is base with over's fields in place of its own.
func mergeHeader(base, over http.Header) http.Header {
	merged := http.Header{}
	for _, header := range []http.Header{base, over} {
		for name, values := range header {
			merged[http.CanonicalHeaderKey(name)] = values
		}
	}
	return merged
}

// run makes requests, round by round.
func (h *hammer) run(ctx context.Context) (HammerSummary, error) {
	if h.flags.Duration > 0 {
		var cancel func()
		ctx, cancel = context.WithTimeout(ctx, h.flags.Duration)
		defer cancel()
	}
	begun := time.Now()
	for left := h.total(); left > 0 && ctx.Err() == nil; {
		n := roundOf(left, h.flags.Workers)
		if err := h.round(ctx, n); err != nil {
			return h.summary, err
		}
		left -= n
	}
	h.conclude(time.Since(begun))
	return h.summary, nil
}

// total is how many requests shall be made. As with hey, -z overrides -n.
func (h *hammer) total() int {
	if h.flags.Requests > 0 && h.flags.Duration == 0 {
		return h.flags.Requests
	}
	return math.MaxInt
}

// roundOf is how many of the requests left are made next: as many by each worker, or one by each of fewer workers.
//
//	left 100, workers 30   →   90, then 10
func roundOf(left, workers int) int {
	n := min(left, roundSize)
	return n - n%min(workers, n)
}

// round makes n requests, or fewer if ctx ends, and merges their results.
func (h *hammer) round(ctx context.Context, n int) error {
	return h.add(h.load(ctx, n, heyOutput))
}

// load makes n requests, or fewer if ctx ends, and returns what hey makes of its results.
func (h *hammer) load(ctx context.Context, n int, template string) []byte {
	var output bytes.Buffer
	requests, cancelRequests := context.WithCancel(h.traced(context.Background()))
	defer cancelRequests()
	work := h.work(n, &output)
	work.RequestFunc = func() *http.Request { return h.next(ctx, requests) }
	work.Output = template
	work.Init()
	ended := make(chan struct{})
	var stopping sync.WaitGroup
	stopping.Go(func() { stopWork(ctx, work, ended, cancelRequests) })
	work.Run()
	close(ended)
	stopping.Wait()
	h.conns.closeAll()
	return output.Bytes()
}

// stopWork stops work when ctx ends, and cuts its requests off if they do not end soon.
func stopWork(ctx context.Context, work *requester.Work, ended <-chan struct{}, cancelRequests func()) {
	select {
	case <-ended:
		return
	case <-ctx.Done():
	}
	work.Stop()
	select {
	case <-ended:
	case <-time.After(heyGrace):
		cancelRequests()
	}
}

// next is the next request, to be made in the context requests. When ctx has ended it is one that is not sent.
func (h *hammer) next(ctx, requests context.Context) *http.Request {
	if ctx.Err() != nil {
		h.unsent.Add(1)
		return h.request.WithContext(canceled())
	}
	request := h.request.Clone(requests)
	if len(h.flags.Body) > 0 {
		request.Body = io.NopCloser(bytes.NewReader(h.flags.Body))
	}
	return request
}

// canceled is a context that has ended, and not by a deadline.
func canceled() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

func (h *hammer) work(n int, output *bytes.Buffer) *requester.Work {
	f := h.flags
	return &requester.Work{
		Request:            &http.Request{Host: h.server}, // that hey only takes the server name from
		N:                  n,                             // each worker makes N ÷ C of them, rounded down
		C:                  min(f.Workers, n),
		QPS:                f.PerWorker,
		Timeout:            f.Timeout,
		H2:                 f.HTTP2,
		ProxyAddr:          f.Proxy,
		DisableCompression: f.DisableCompression,
		DisableKeepAlives:  f.DisableKeepAlives,
		DisableRedirects:   f.DisableRedirects,
		Writer:             output,
	}
}

// traced notes the connections that requests are sent on.
func (h *hammer) traced(ctx context.Context) context.Context {
	if h.flags.DisableKeepAlives {
		return ctx // each is closed after its request
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(info httptrace.GotConnInfo) {
			if !info.Reused {
				h.conns.add(info.Conn)
			}
		},
	})
}

// add merges a round's results.
func (h *hammer) add(output []byte) error {
	var round struct {
		Lats           []float64
		StatusCodeDist map[int]int64
		ErrorDist      map[string]int64
		SizeTotal      int64
		NumRes         int64
	}
	if err := json.Unmarshal(output, &round); err != nil {
		return fmt.Errorf("hey's summary: %w", err)
	}
	for _, seconds := range round.Lats {
		h.addLatency(seconds)
	}
	for code, n := range round.StatusCodeDist {
		h.summary.StatusCodeDist[code] += n
	}
	cut := cutOff(round.ErrorDist)
	h.summary.NumRes += round.NumRes - cut
	h.summary.Unanswered += cut - h.unsent.Swap(0)
	h.summary.SizeTotal += round.SizeTotal
	addErrors(h.summary.ErrorDist, round.ErrorDist)
	return nil
}

func (h *hammer) addLatency(seconds float64) {
	h.sum += seconds
	h.summary.Slowest = max(h.summary.Slowest, seconds)
	if h.latency.TotalCount() == 0 || seconds < h.summary.Fastest {
		h.summary.Fastest = seconds
	}
	micros := int64(seconds * 1e6)
	_ = h.latency.RecordValue(min(max(micros, 1), longestReply.Microseconds())) // within its range
}

// conclude works out what can only be said at the end.
func (h *hammer) conclude(took time.Duration) {
	s := &h.summary
	s.Total = took.Seconds()
	s.Rps = float64(s.NumRes) / max(s.Total, 1e-9)
	replies := h.latency.TotalCount()
	if replies == 0 {
		return
	}
	s.Average = h.sum / float64(replies)
	for _, percent := range []float64{10, 25, 50, 75, 90, 95, 99} {
		latency := float64(h.latency.ValueAtQuantile(percent)) / 1e6
		s.LatencyDistribution = append(s.LatencyDistribution, HammerLatency{percent, latency})
	}
}

// cutOff is how many requests ended only because we stopped, or were not sent for that.
func cutOff(dist map[string]int64) (n int64) {
	for text, count := range dist {
		if strings.Contains(text, stoppedErrors) {
			n += count
		}
	}
	return n
}

// addErrors merges errors by their normal text.
func addErrors(into, dist map[string]int64) {
	for _, text := range slices.Sorted(maps.Keys(dist)) {
		if strings.Contains(text, stoppedErrors) {
			continue
		}
		normal := loadgen.PlainError(text)
		if _, known := into[normal]; !known && len(into) >= mostErrors {
			normal = otherErrors
		}
		into[normal] += dist[text]
	}
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
			c = secure.NetConn() // which spares us the goodbye's write
		}
		_ = c.Close()
	}
	s.conns = nil
}
