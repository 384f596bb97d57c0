package loadgen

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// facts collects what a prober hands on, and complains at once where it breaks a promise.
type facts struct {
	t *testing.T

	mu         sync.Mutex
	requests   map[timeline.TargetID][]timeline.Request
	watermarks map[timeline.TargetID]time.Duration
	backends   map[uint16]string
	peers      map[uint16]netip.AddrPort
	stalls     []timeline.Event
	errors     map[string][]string // texts by target
	names      []timeline.Event
	sent       uint64
	held       []timeline.HeldChange
}

func newFacts(t *testing.T) *facts {
	return &facts{
		t:          t,
		requests:   map[timeline.TargetID][]timeline.Request{},
		watermarks: map[timeline.TargetID]time.Duration{},
		backends:   map[uint16]string{},
		peers:      map[uint16]netip.AddrPort{},
		errors:     map[string][]string{},
	}
}

func (f *facts) take(fact timeline.Fact) {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch fact := fact.(type) {
	case timeline.Batch:
		f.batch(fact)
	case timeline.HeldBatch:
		f.changes(fact)
	case timeline.Backend:
		f.backends[fact.ID] = fact.Name
	case timeline.Peer:
		f.peers[fact.ID] = fact.Addr
	case timeline.Event:
		f.event(fact)
	default:
		f.t.Errorf("unexpected fact %T", fact)
	}
}

func (f *facts) event(e timeline.Event) {
	switch {
	case e.Kind == timeline.ProberStall && e.Since < e.Seen:
		f.stalls = append(f.stalls, e)
	case e.Kind == timeline.RequestError && e.Since <= e.Seen && e.Detail != "":
		f.errors[e.Object.Name] = append(f.errors[e.Object.Name], e.To+": "+e.Detail)
	case e.Kind == timeline.NameAnswered && e.Since <= e.Seen && e.Lookup != nil:
		f.names = append(f.names, e)
	default:
		f.t.Errorf("unexpected event %+v", e)
	}
}

func (f *facts) batch(b timeline.Batch) {
	if b.FirstSeq != f.sent {
		f.t.Errorf("batch begins with request %d, want %d", b.FirstSeq, f.sent)
	}
	f.sent += uint64(len(b.Requests))
	for _, r := range b.Requests {
		f.check(r)
		f.requests[r.Target] = append(f.requests[r.Target], r)
	}
	for _, w := range b.Watermarks {
		if w.Due < f.watermarks[w.Target] {
			f.t.Errorf("watermark of %d goes back from %v to %v", w.Target, f.watermarks[w.Target], w.Due)
		}
		f.watermarks[w.Target] = w.Due
	}
}

func (f *facts) check(r timeline.Request) {
	switch {
	case r.Due < f.watermarks[r.Target]:
		f.t.Errorf("request due %v comes after watermark %v", r.Due, f.watermarks[r.Target])
	case r.Sent < r.Due || r.Done < r.Sent:
		f.t.Errorf("due %v, sent %v, done %v are out of order", r.Due, r.Sent, r.Done)
	case r.Due%time.Microsecond != 0 || r.Sent%time.Microsecond != 0 || r.Done%time.Microsecond != 0:
		f.t.Errorf("%+v has instants finer than microseconds", r)
	case r.Backend != 0 && f.backends[r.Backend] == "":
		f.t.Errorf("backend %d is used before it is named", r.Backend)
	case r.Peer != 0 && !f.peers[r.Peer].IsValid():
		f.t.Errorf("peer %d is used before its address is said", r.Peer)
	}
}

// of returns a target's requests by Seq, after checking that each is there once, at its due instant.
func (f *facts) of(id timeline.TargetID) []timeline.Request {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests := slices.Clone(f.requests[id])
	slices.SortFunc(requests, func(a, b timeline.Request) int { return int(a.Seq) - int(b.Seq) })
	for i, r := range requests {
		if r.Seq != uint64(i) {
			f.t.Fatalf("target %d: request %d is at place %d", id, r.Seq, i)
		}
		if i > 0 && r.Due <= requests[i-1].Due {
			f.t.Fatalf("target %d: request %d is due at %v, the one before at %v", id, i, r.Due, requests[i-1].Due)
		}
	}
	return requests
}

func (f *facts) count(id timeline.TargetID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests[id])
}

// observed counts a target's requests that say something of it: a busy machine has others.
func (f *facts) observed(id timeline.TargetID) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.requests[id]) - unobserved(f.requests[id])
}

// ended counts a target's requests of a class.
func (f *facts) ended(id timeline.TargetID, class timeline.Class) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return classes(f.requests[id])[class]
}

// blames returns the texts of a target's errors, without those of our own.
func (f *facts) blames(target string) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(f.errors[target]), func(text string) bool { return strings.HasPrefix(text, "local: ") })
}

// changesOf counts how often what a target's name has changed.
func (f *facts) changesOf(target string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.names {
		if e.Object.Name == target {
			n++
		}
	}
	return n
}

func classes(requests []timeline.Request) map[timeline.Class]int {
	n := map[timeline.Class]int{}
	for _, r := range requests {
		n[r.Class]++
	}
	return n
}

func failed(requests []timeline.Request) (n int) {
	for _, r := range requests {
		if r.Class.Failed() {
			n++
		}
	}
	return n
}

func unobserved(requests []timeline.Request) (n int) {
	for _, r := range requests {
		if !r.Class.Observed() {
			n++
		}
	}
	return n
}

// accounted reports whether the server counts as many requests as were measured to have ended so. It may count more:
// those that are local, because this process, which a busy machine lets wait, was late to look.
func accounted(measured, byServer int, n map[timeline.Class]int) bool {
	return measured <= byServer && byServer <= measured+n[timeline.Local]
}

// run runs a prober on probes while during runs, and returns what it told.
func run(t *testing.T, clock timeline.Clock, during func(*Prober, *facts), probes ...Probe) *facts {
	t.Helper()
	return runProber(t, New(Config{Clock: clock, Source: 1}), during, probes...)
}

// runUntil runs probes until done, and what says what was awaited.
func runUntil(t *testing.T, what string, done func(*facts) bool, probes ...Probe) *facts {
	t.Helper()
	return runOn(t, timeline.StartClock(), what, done, probes...)
}

// runOn is runUntil on a clock.
func runOn(t *testing.T, clock timeline.Clock, what string, done func(*facts) bool, probes ...Probe) *facts {
	t.Helper()
	return run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, what, func() bool { return done(f) })
	}, probes...)
}

// cutsFail requires that each request fails which the server cuts on a used connection. cuts counts down, and goes on
// below 0.
func cutsFail(t *testing.T, cuts *atomic.Int64, cut int, p Probe) {
	t.Helper()
	f := runUntil(t, "the last cut", func(*facts) bool { return cuts.Load() < -20 }, p)
	if n := classes(f.of(1)); !accounted(failed(f.of(1)), cut, n) ||
		n[timeline.EOF]+n[timeline.Reset] != failed(f.of(1)) {
		t.Errorf("%v, but the server cut %d requests", n, cut)
	}
}

// runProber runs p, which has no sink yet.
func runProber(t *testing.T, p *Prober, during func(*Prober, *facts), probes ...Probe) *facts {
	t.Helper()
	f := newFacts(t)
	p.sink = f.take
	for _, probe := range probes {
		if err := p.Start(probe); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := p.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	during(p, f)
	cancel()
	running.Wait()
	return f
}

func probe(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) Probe {
	return Probe{Target: loadtest.Target(id, kind, url, rate)}
}

func TestHealthyServerAnswersEveryRequest(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			s := loadtest.Serve(t, faultserver.Config{Name: "pod-a"})
			f := runOn(t, clock, "50 good answers", func(f *facts) bool { return f.ended(1, timeline.OK) >= 50 }, probe(1, kind, s.URL(), 200))
			loadtest.Close(t, s)
			requests := f.of(1)
			n := classes(requests)
			if failed(requests) > 0 {
				t.Errorf("classes %v", n)
			}
			if !accounted(n[timeline.OK], s.Answered(), n) {
				t.Errorf("%v, but the server answered %d", n, s.Answered())
			}
			for _, r := range requests {
				if r.Class == timeline.OK && (r.Code != 200 || f.backends[r.Backend] != "pod-a") {
					t.Fatalf("%+v by %q", r, f.backends[r.Backend])
				}
			}
		})
	}
}

// While nobody listens every request fails; who was answered, and only who was, is ok.
func TestTotalOutage(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
			f := run(t, clock, func(_ *Prober, f *facts) {
				more := func(class timeline.Class) {
					enough := f.ended(1, class) + 30
					loadtest.WaitFor(t, "30 more "+class.String(), func() bool { return f.ended(1, class) >= enough })
				}
				more(timeline.OK)
				reopen := s.Refuse()
				more(timeline.Refused)
				reopen()
				more(timeline.OK)
			}, probe(1, kind, s.URL(), 500))
			loadtest.Close(t, s)
			requests := f.of(1)
			if n := classes(requests); !accounted(n[timeline.OK], s.Answered(), n) {
				t.Errorf("%v, but the server answered %d", n, s.Answered())
			}
			outage := s.Outages()[0]
			inside, outside := 0, 0
			for _, r := range requests {
				switch {
				case !r.Class.Observed():
				case r.Sent > outage.Close.To && r.Done < outage.Open.From:
					inside++
					if !r.Class.Failed() {
						t.Errorf("%+v within outage %+v", r, outage)
					}
				case r.Done < outage.Close.From || r.Sent > outage.Open.To:
					outside++
					if r.Class.Failed() {
						t.Errorf("%+v outside outage %+v", r, outage)
					}
				}
			}
			if inside == 0 || outside == 0 {
				t.Errorf("%d requests inside, %d outside: nothing was measured", inside, outside)
			}
		})
	}
}

// Whatever the server does to a request, we count exactly as many as it did it to.
func TestFailuresAreThoseTheServerInflicted(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	tests := []struct {
		fault faultserver.Kind
		want  timeline.Class
	}{
		{faultserver.Reset, timeline.Reset},
		{faultserver.EOF, timeline.EOF},
		{faultserver.Error, timeline.HTTP5xx},
		{faultserver.Truncate, timeline.Body},
	}
	for _, test := range tests {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			t.Run(fmt.Sprint(test.fault, " ", kind), func(t *testing.T) {
				t.Parallel()
				clock := timeline.StartClock()
				s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Seed: 1, Faults: []faultserver.Fault{
					{Kind: test.fault, To: time.Hour, After: 20, Share: 0.5},
				}})
				f := runOn(t, clock, "30 failures", func(f *facts) bool { return f.ended(1, test.want) >= 30 }, probe(1, kind, s.URL(), 300))
				loadtest.Close(t, s)
				n := classes(f.of(1))
				if !accounted(n[test.want], s.Count(test.fault), n) || !accounted(n[timeline.OK], s.Answered(), n) {
					t.Errorf("%v, but the server: %d %s, %d answered", n, s.Count(test.fault), test.fault,
						s.Answered())
				}
				if failed(f.of(1)) != n[test.want] {
					t.Errorf("other failures than %s: %v", test.want, n)
				}
			})
		}
	}
}

// The case where clients that re-send report nothing: the server reads a request on a connection that
// has carried one before, and closes it without a reply.
func TestRequestsOnCutConnectionsAllFail(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{
		{Kind: faultserver.EOF, From: 0, To: time.Hour, Every: 2},
	}})
	f := runOn(t, clock, "240 requests", func(f *facts) bool { return f.observed(1) >= 240 }, probe(1, timeline.Reused, s.URL(), 500))
	loadtest.Close(t, s)
	requests := f.of(1)
	n := classes(requests)
	if s.Count(faultserver.EOF) < 100 {
		t.Fatalf("the server cut only %d requests", s.Count(faultserver.EOF))
	}
	cut := n[timeline.EOF] + n[timeline.Reset]
	if cut == 0 || cut != failed(requests) || !accounted(cut, s.Count(faultserver.EOF), n) {
		t.Errorf("%v, but the server cut %d requests", n, s.Count(faultserver.EOF))
	}
	if read := s.Count(faultserver.EOF) + s.Answered(); !accounted(len(requests)-unobserved(requests), read, n) {
		t.Errorf("the server read %d requests of %v: some were sent again", read, n)
	}
}

// A server that stalls longer than the timeout: every request due meanwhile is sent, and is a failure.
func TestStallIsMetByEveryRequestDue(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{
				{Kind: faultserver.Stall, To: time.Hour, After: 20},
			}})
			p := probe(1, kind, s.URL(), 200)
			p.Timeout = 200 * time.Millisecond
			f := runOn(t, clock, "150 timeouts", func(f *facts) bool { return f.ended(1, timeline.TimeoutResponse) >= 150 }, p)
			loadtest.Close(t, s)
			requests := f.of(1)
			n := classes(requests)
			if n[timeline.NoSlot] > 0 && len(f.stalls) == 0 { // after a stop more are due at once
				t.Errorf("refused by our own cap: %v", n)
			}
			if failed(requests) != n[timeline.TimeoutResponse]+n[timeline.NoSlot] {
				t.Errorf("classes %v", n)
			}
			stalled := s.Acts()[0].At
			for _, r := range requests {
				if r.Class == timeline.TimeoutResponse && r.Done-r.Sent < p.Timeout {
					t.Errorf("%+v gave up after %v", r, r.Done-r.Sent)
				}
				if r.Class.Observed() && r.Sent > stalled && !r.Class.Failed() {
					t.Errorf("%+v in the stall, which began by %v", r, stalled)
				}
			}
		})
	}
}

// What a cap below rate × timeout refuses while the target does not answer is the target's failure.
func TestCapReachedInAStallIsNoSlot(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{
				{Kind: faultserver.Stall, From: 0, To: time.Hour},
			}})
			p := probe(1, kind, s.URL(), 200)
			p.MaxConnections, p.Timeout = 5, 2*time.Second
			f := runOn(t, clock, "a refusal by the cap", func(f *facts) bool { return f.ended(1, timeline.NoSlot) > 0 }, p)
			loadtest.Close(t, s)
			n := classes(f.of(1))
			if n[timeline.OK] > 0 {
				t.Errorf("classes %v", n)
			}
			if !accounted(n[timeline.TimeoutResponse], s.Count(faultserver.Stall), n) {
				t.Errorf("%v, but the server read %d", n, s.Count(faultserver.Stall))
			}
		})
	}
}

// A reply with Connection: close is a good one, and the next request uses another connection.
func TestGoodbyeRetiresTheConnectionSilently(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{
		{Kind: faultserver.Goodbye, From: 0, To: time.Hour, Every: 3},
	}})
	f := runOn(t, clock, "150 requests", func(f *facts) bool { return f.observed(1) >= 150 }, probe(1, timeline.Reused, s.URL(), 500))
	loadtest.Close(t, s)
	requests := f.of(1)
	if failed(requests) > 0 || s.Count(faultserver.Goodbye) < 30 {
		t.Errorf("%v after %d goodbyes", classes(requests), s.Count(faultserver.Goodbye))
	}
}

// cutIdle has the server close its idle connections, and notes when.
func cutIdle(clock timeline.Clock, s *faultserver.Server, cuts *[]faultserver.Span) int {
	from := clock.Now()
	n := s.CutIdle()
	*cuts = append(*cuts, faultserver.Span{From: from, To: clock.Now()})
	return n
}

// crossed reports whether r was under way when connections were cut; then it may have failed honestly.
func crossed(r timeline.Request, cuts []faultserver.Span) bool {
	return slices.ContainsFunc(cuts, func(cut faultserver.Span) bool { return r.Sent <= cut.To && r.Done >= cut.From })
}

// Idle connections that are closed cost no request.
func TestIdleConnectionCutIsNoFailure(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	config, roots := testTLS(t)
	for name, config := range map[string]faultserver.Config{"plain": {}, "TLS": {TLS: config}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := timeline.StartClock()
			s := loadtest.Serve(t, config)
			p := probe(1, timeline.Reused, s.URL(), 20)
			p.RootCAs, p.Timeout = roots, 5*time.Second
			var cuts []faultserver.Span
			cut := 0
			f := run(t, clock, func(_ *Prober, f *facts) {
				for round := range 5 {
					loadtest.WaitFor(t, "two requests more", func() bool { return f.count(1) >= 2*round+2 })
					cut += cutIdle(clock, s, &cuts)
				}
				loadtest.WaitFor(t, "the last requests", func() bool { return f.count(1) >= 20 })
			}, p)
			loadtest.Close(t, s)
			for _, r := range f.of(1) {
				if r.Class.Failed() && !crossed(r, cuts) {
					t.Errorf("%+v, though it did not cross with a cut at %v", r, cuts)
				}
			}
			if cut < 10 {
				t.Errorf("only %d connections were cut", cut)
			}
		})
	}
}

// As many connections as are counted as new are opened, and no more: a connection carries its first request once.
func TestReusedRequestsOpenNoConnection(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]int{}
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked[r.RemoteAddr]++
	}))
	defer s.Close()
	p := probe(1, timeline.Reused, s.URL, 100)
	p.Connections, p.MaxConnections = 4, 4
	f := runUntil(t, "80 requests", func(f *facts) bool { return f.observed(1) >= 80 }, p)
	first, again, others := 0, 0, 0
	for _, r := range f.of(1) {
		switch {
		case r.Class != timeline.OK: // none, if this machine does not stand still
			others++
		case !r.Reused:
			first++
		case r.Connect != 0:
			t.Errorf("%+v connected on a reused connection", r)
		default:
			again++
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if first > len(asked) || len(asked) > first+others || again < first {
		t.Errorf("%d good requests were the first of their connection and %d were not, and %d were not good; the "+
			"server saw %d connections", first, again, others, len(asked))
	}
}

// Connections outlive the timeout of the requests they carried.
func TestConnectionsStayWhileIdle(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	p := probe(1, timeline.Reused, s.URL(), 5)
	p.Connections, p.Timeout = 1, 50*time.Millisecond
	run(t, clock, func(_ *Prober, f *facts) {
		loadtest.WaitFor(t, "a connection that was used again after more than the timeout", func() bool {
			f.mu.Lock()
			defer f.mu.Unlock()
			return slices.ContainsFunc(f.requests[1], func(r timeline.Request) bool { return r.Class == timeline.OK && r.Reused })
		})
	}, p)
	loadtest.Close(t, s)
}

func TestTargetsComeAndGoWhileOthersRun(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	f := run(t, clock, func(p *Prober, f *facts) {
		loadtest.WaitFor(t, "first requests", func() bool { return f.count(1) > 5 })
		direct := probe(2, timeline.Direct, "http://web.shop/", 100)
		direct.Addr = s.Addr()
		if err := p.Start(direct); err != nil {
			t.Fatal(err)
		}
		loadtest.WaitFor(t, "requests of the second target", func() bool { return f.count(2) > 5 })
		p.SetRate(2, 400)
		loadtest.WaitFor(t, "more requests of the second target", func() bool { return f.count(2) > 100 })
		p.SetRate(2, 0)  // ignored
		p.SetRate(9, 10) // ignored
		p.Stop(2)
		p.Stop(2)
		p.Stop(9)
		ended := f.count(1)
		loadtest.WaitFor(t, "requests after the end of the second target", func() bool { return f.count(1) > ended+20 })
		if err := p.Start(probe(1, timeline.New, s.URL(), 100)); err == nil {
			t.Error("an ID was used twice")
		}
	}, probe(1, timeline.New, s.URL(), 100))
	loadtest.Close(t, s)
	if n := failed(f.of(1)) + failed(f.of(2)); n > 0 {
		t.Errorf("%d failures", n)
	}
	last := f.of(2)[f.count(2)-1]
	if f.watermarks[2] <= last.Due {
		t.Errorf("final watermark %v does not pass the last request, due %v", f.watermarks[2], last.Due)
	}
	if f.watermarks[1] <= f.watermarks[2] {
		t.Errorf("the second target's watermark %v went on after its end", f.watermarks[2])
	}
}

// A Pod that comes back is probed as the same target: its requests go on being counted, and no watermark passes what
// is in flight.
func TestStoppedTargetGoesOnWhenStartedAgain(t *testing.T) {
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	f := run(t, clock, func(p *Prober, f *facts) {
		again := probe(1, timeline.Direct, "http://web.shop/", 200)
		again.Addr = s.Addr()
		for range 3 {
			p.Stop(1)
			if err := p.Start(again); err != nil {
				t.Fatal(err)
			}
			n := f.count(1)
			loadtest.WaitFor(t, "more requests", func() bool { return f.count(1) > n+5 })
		}
		p.Stop(1)
		if err := p.Start(again); err != nil { // and the run ends at once
			t.Error(err)
		}
	}, probe(1, timeline.New, s.URL(), 200))
	loadtest.Close(t, s)
	last := timeline.Request{}
	for i, r := range f.of(1) {
		if r.Seq != uint64(i) || r.Due < last.Due {
			t.Fatalf("request %d of the target has number %d and was due at %v, after one due at %v", i, r.Seq, r.Due,
				last.Due)
		}
		last = r
	}
	if f.watermarks[1] <= last.Due {
		t.Errorf("final watermark %v does not pass the last request, due %v", f.watermarks[1], last.Due)
	}
}

// What measures for weeks keeps nothing of targets that are over: neither of those that started again, nor of others.
func TestTargetsThatAreOverAreForgotten(t *testing.T) {
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	run(t, clock, func(p *Prober, f *facts) {
		kept := func() int {
			p.mu.Lock()
			defer p.mu.Unlock()
			return len(slices.Collect(p.all()))
		}
		if err := p.Start(probe(2, timeline.New, s.URL(), 200)); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			p.Stop(1)
			if err := p.Start(probe(1, timeline.New, s.URL(), 200)); err != nil {
				t.Fatal(err)
			}
		}
		loadtest.WaitFor(t, "the former targets to end", func() bool { return kept() == 2 })
		if p.Forget(2); kept() != 2 {
			t.Error("a target was forgotten that was not stopped")
		}
		p.Stop(2)
		loadtest.WaitFor(t, "its last requests", func() bool { p.Forget(2); return kept() == 1 })
		p.mu.Lock()
		defer p.mu.Unlock()
		if f.watermarks[2] == 0 || p.targets[1] == nil {
			t.Errorf("watermarks %v, targets %v", f.watermarks, p.targets)
		}
	}, probe(1, timeline.New, s.URL(), 200))
	loadtest.Close(t, s)
}

func TestTargetStoppedAndStartedBeforeRunIsMeasured(t *testing.T) {
	t.Parallel()
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	f := newFacts(t)
	p := New(Config{Clock: clock, Source: 1, Sink: f.take})
	for range 2 {
		if err := p.Start(probe(1, timeline.New, s.URL(), 200)); err != nil {
			t.Fatal(err)
		}
		p.Stop(1)
	}
	if err := p.Start(probe(1, timeline.New, s.URL(), 200)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { p.Run(ctx) })
	loadtest.WaitFor(t, "requests", func() bool { return f.count(1) > 5 })
	cancel()
	running.Wait()
	loadtest.Close(t, s)
}

// A target stopped before Run is never asked, and one whose run ends at once still gets its final watermark.
func TestStopBeforeRunIsKept(t *testing.T) {
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	f := newFacts(t)
	p := New(Config{Clock: clock, Sink: f.take})
	for id := range timeline.TargetID(2) {
		if err := p.Start(probe(id+1, timeline.New, s.URL(), 500)); err != nil {
			t.Fatal(err)
		}
	}
	p.Stop(1)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	loadtest.Close(t, s)
	if f.count(1) > 0 || f.count(2) == 0 || f.watermarks[1] == 0 || f.watermarks[2] == 0 {
		t.Errorf("%d and %d requests, watermarks %v", f.count(1), f.count(2), f.watermarks)
	}
}

func TestControlServerAnswers(t *testing.T) {
	t.Parallel()
	clock := timeline.StartClock()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	addr, err := ServeControl(ctx)
	if err != nil {
		t.Fatal(err)
	}
	f := runOn(t, clock, "30 requests", func(f *facts) bool { return f.count(1) >= 30 }, probe(1, timeline.Control, "http://"+addr.String()+"/", 200))
	if n := failed(f.of(1)); n > 0 {
		t.Errorf("%d failures", n)
	}
}

func TestUnresolvableHostIsDNS(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	clock := timeline.StartClock()
	p := probe(1, timeline.New, "http://no-such-host.invalid/", 20)
	p.Timeout = 800 * time.Millisecond // also where no name server answers
	f := runOn(t, clock, "3 observed requests", func(f *facts) bool { return f.observed(1) >= 3 }, p)
	for _, r := range f.of(1) {
		if r.Class.Observed() && r.Class != timeline.DNS {
			t.Errorf("%+v", r)
		}
	}
}

func TestProberRunsOnceAndStartsNothingAfterwards(t *testing.T) {
	clock := timeline.StartClock()
	p := New(Config{Clock: clock, Sink: newFacts(t).take})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.Run(ctx); err == nil {
		t.Error("ran twice")
	}
	if err := p.Start(probe(1, timeline.New, "http://127.0.0.1:1/", 1)); err == nil {
		t.Error("started after the end")
	}
}

// When Run returns, nothing of it is left: no goroutine, no connection.
func TestRunLeavesNothingBehind(t *testing.T) {
	layer.Real(t)
	s := loadtest.Serve(t, faultserver.Config{Faults: []faultserver.Fault{
		{Kind: faultserver.Stall, From: 100 * time.Millisecond, To: 300 * time.Millisecond},
	}})
	before := runtime.NumGoroutine()
	p := New(Config{Clock: timeline.StartClock(), Sink: newFacts(t).take})
	for id, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		probe := probe(timeline.TargetID(id+1), kind, s.URL(), 200)
		probe.Connections, probe.Timeout = 5, 800*time.Millisecond
		if err := p.Start(probe); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	if err := p.Run(ctx); err != nil {
		t.Fatal(err)
	}
	loadtest.WaitFor(t, "end of the server's connections", func() bool { return runtime.NumGoroutine() <= before })
	loadtest.Close(t, s)
}
