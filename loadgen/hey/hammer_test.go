package hey

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// hammered runs the hammer and returns its summary.
func hammered(t *testing.T, ctx context.Context, args, url string) Summary {
	t.Helper()
	var events []timeline.Event
	clock := timeline.StartClock()
	err := Hammer(ctx, HammerConfig{Args: args, Probe: loadgen.Probe{Target: timeline.Target{URL: url}}, Clock: clock, Sink: func(f timeline.Fact) {
		events = append(events, f.(timeline.Event))
	}})
	if err != nil {
		t.Fatal(err)
	}
	if len(events) != 2 || events[0].To != "running" || events[0].Detail != Public(args) || events[1].To != "ended" {
		t.Fatalf("events %+v", events)
	}
	if events[0].Kind != timeline.Hammer || events[1].Seen < events[0].Seen {
		t.Errorf("events %+v", events)
	}
	var summary Summary
	if err := json.Unmarshal([]byte(events[1].Detail), &summary); err != nil {
		t.Fatalf("%v: %s", err, events[1].Detail)
	}
	return summary
}

func TestHammerMakesAsManyRequestsAsAskedFor(t *testing.T) {
	var served atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		served.Add(1)
		body, _ := io.ReadAll(r.Body)
		if r.Method != "POST" || string(body) != "hello world" || r.Header.Get("X-Team") != "blue" || r.Host != "web.shop" {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer s.Close()
	sum := hammered(t, t.Context(), `-n 200 -c 4 -m post -d 'hello world' -H "X-Team: blue" -H 'Host: web.shop'`, s.URL)
	if sum.NumRes != 200 || served.Load() != 200 || sum.StatusCodeDist[200] != 200 {
		t.Errorf("served %d: %+v", served.Load(), sum)
	}
	if sum.Rps <= 0 || sum.Average <= 0 || sum.Slowest < sum.Fastest || len(sum.LatencyDistribution) == 0 {
		t.Errorf("%+v", sum)
	}
}

func TestHammerEndsWithTheRunAndLeavesNothing(t *testing.T) {
	layer.Real(t)
	for _, args := range []string{"-c 8 -q 50", "-c 8", "-c 4 -q 1", "-c 3 -disable-keepalive -q 20"} {
		t.Run(args, func(t *testing.T) {
			var served atomic.Int64
			s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { served.Add(1) }))
			before := runtime.NumGoroutine()
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(300*time.Millisecond, cancel)
			sum := hammered(t, ctx, args, s.URL)
			if sum.NumRes != served.Load() || len(sum.ErrorDist) > 0 {
				t.Errorf("served %d: %+v", served.Load(), sum)
			}
			s.Close()
			loadtest.WaitFor(t, "end of the hammer's goroutines", func() bool { return runtime.NumGoroutine() <= before })
		})
	}
}

// hey makes a whole number of requests per worker, so that of 100 by 60 workers it makes 60.
func TestHammerMakesWhatDoesNotDivideAmongItsWorkers(t *testing.T) {
	var served, running, most atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		served.Add(1)
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
	}))
	defer s.Close()
	for _, tt := range []struct {
		args       string
		want, most int64
	}{{"-n 100 -c 60", 100, 60}, {"-n 100 -c 30", 100, 30}, {"-n 119 -c 60", 119, 60}, {"-n 7 -c 7", 7, 7}, {"-n 3 -c 2 -disable-keepalive", 3, 2}} {
		served.Store(0)
		most.Store(0)
		sum := hammered(t, t.Context(), tt.args, s.URL)
		if sum.NumRes != tt.want || served.Load() != tt.want || sum.StatusCodeDist[200] != tt.want || most.Load() > tt.most {
			t.Errorf("%s: served %d, %d at once: %+v", tt.args, served.Load(), most.Load(), sum)
		}
	}
}

// A server that never answers: the requests under way are cut off. They are nobody's errors, but they were made.
func TestHammerDoesNotWaitForAStalledServer(t *testing.T) {
	layer.Real(t)
	s := loadtest.Serve(t, faultserver.Config{Faults: []faultserver.Fault{{Kind: faultserver.Stall, To: time.Hour}}})
	defer loadtest.Close(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		loadtest.WaitFor(t, "5 stalled requests", func() bool { return s.Count(faultserver.Stall) == 5 })
		cancel()
	})
	sum := hammered(t, ctx, "-c 5 -t 0", s.URL())
	waiting.Wait()
	if sum.NumRes != 0 || len(sum.ErrorDist) > 0 || sum.Unanswered != 5 {
		t.Errorf("%+v", sum)
	}
}

// A worker that waits for its tick when the load ends does not notice. It must neither send then, nor may that
// request be counted as one that the server left unanswered.
func TestHammerSendsNothingAfterItsEnd(t *testing.T) {
	layer.Real(t)
	const tick = time.Second
	var served, late atomic.Int64
	for {
		ctx, cancel := context.WithCancel(t.Context())
		s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
			served.Add(1)
			if ctx.Err() != nil {
				late.Add(1)
			}
		}))
		begun, ended := time.Now(), make(chan time.Duration, 1)
		time.AfterFunc(tick/10, func() { cancel(); ended <- time.Since(begun) })
		sum := hammered(t, ctx, "-c 10 -q 1", s.URL)
		s.Close()
		if <-ended > tick*9/10 { // this machine stood still until the first tick: once more
			served.Store(0)
			late.Store(0)
			continue
		}
		if served.Load() != 0 || late.Load() != 0 || sum.NumRes != 0 || sum.Unanswered != 0 || len(sum.ErrorDist) > 0 {
			t.Errorf("served %d, %d of them after the end: %+v", served.Load(), late.Load(), sum)
		}
		return
	}
}

// The hammer asks for what the probes ask for: hey would send the URL's host.
func TestHammerSendsTheHostThatWasGiven(t *testing.T) {
	var host atomic.Value
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host.Store(r.Host) }))
	defer s.Close()
	given := loadgen.Probe{Target: timeline.Target{URL: s.URL}, Header: http.Header{"Host": {"web.shop"}}}
	for args, want := range map[string]string{"-n 1 -c 1": "web.shop", "-n 1 -c 1 -H 'Host: a.b'": "a.b"} {
		err := Hammer(t.Context(), HammerConfig{Args: args, Probe: given, Clock: timeline.StartClock(), Sink: func(timeline.Fact) {}})
		if err != nil || host.Load() != want {
			t.Errorf("%s: host %v, want %s (%v)", args, host.Load(), want, err)
		}
	}
}

// hey takes the Host header for the server name (SNI), port and all, by which a gateway finds no certificate.
func TestHammerNamesTheServerWithoutItsPort(t *testing.T) {
	for given, want := range map[string]string{"": "", "web.shop:8443": "web.shop", "web.shop": "web.shop"} {
		var name, host atomic.Value
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { host.Store(r.Host) }))
		s.TLS = &tls.Config{GetConfigForClient: func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			name.Store(hello.ServerName)
			return nil, nil
		}}
		s.StartTLS()
		args := "-n 1 -c 1"
		if given != "" {
			args += " -H 'Host: " + given + "'"
		}
		sum := hammered(t, t.Context(), args, s.URL)
		wantHost := cmp.Or(given, strings.TrimPrefix(s.URL, "https://"))
		if name.Load() != want || host.Load() != wantHost || sum.StatusCodeDist[200] != 1 {
			t.Errorf("%s: server name %q, host %v: %+v", args, name.Load(), host.Load(), sum)
		}
		s.Close()
	}
}

func TestHammerSumsUpWhereEverythingFailed(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + listener.Addr().String() + "/"
	listener.Close()
	sum := hammered(t, t.Context(), "-n 40 -c 4", url)
	want := "dial tcp " + listener.Addr().String() + ": connect: connection refused"
	if sum.NumRes != 40 || sum.ErrorDist[want] != 40 || sum.Average != 0 {
		t.Errorf("%+v", sum)
	}
}

func TestHammerEndsAfterItsDuration(t *testing.T) {
	layer.Real(t)
	s := loadtest.Serve(t, faultserver.Config{})
	defer loadtest.Close(t, s)
	if sum := hammered(t, t.Context(), "-z 1s -c 2 -q 20 -n 1000000", s.URL()); sum.NumRes == 0 || sum.NumRes > 1000 {
		t.Errorf("%+v", sum)
	}
}

// The last round of a long load may ask for fewer requests than there are workers.
func TestNoRoundMakesMoreRequestsThanAskedFor(t *testing.T) {
	for _, tt := range []struct{ left, workers, want int }{{1, 50, 1}, {7, 50, 7}, {50, 50, 50}, {51, 50, 50}, {100, 30, 90}, {roundSize + 7, 50, roundSize}, {1e6, 3, roundSize - 2}} {
		if got := roundOf(tt.left, tt.workers); got != tt.want {
			t.Errorf("of %d by %d workers: %d, want %d", tt.left, tt.workers, got, tt.want)
		}
	}
}

// A load that could not begin is on the record, for the report would be silent otherwise.
func TestHammerThatCannotBeginSaysSo(t *testing.T) {
	for args, url := range map[string]string{"-c 0": "http://web/", "-c 1": "ftp://web/", "-c 2": "tcp://web:6379"} {
		var events []timeline.Event
		err := Hammer(t.Context(), HammerConfig{Args: args, Probe: loadgen.Probe{Target: timeline.Target{URL: url}}, Clock: timeline.StartClock(),
			Sink: func(f timeline.Fact) { events = append(events, f.(timeline.Event)) }})
		if err == nil || len(events) != 2 || events[0].Detail != args || events[1].Detail != err.Error() {
			t.Errorf("%s of %s: %v, %+v", args, url, err, events)
		}
	}
}

// Long loads are made in rounds; their results are those of one.
func TestRoundsAreMerged(t *testing.T) {
	var l load
	r := newResults()
	rounds := []string{
		`{"Lats":[0.001,0.0018],"StatusCodeDist":{"200":2},"ErrorDist":{"Get \"http://web/\": read tcp 10.0.0.1:4001->10.0.0.2:80: connection reset by peer":1},"SizeTotal":10,"NumRes":3}`,
		`{"Lats":[],"StatusCodeDist":null,"ErrorDist":{"Get \"http://web/\": read tcp 10.0.0.1:4002->10.0.0.2:80: connection reset by peer":2,"Get \"http://web/\": context canceled":4},"SizeTotal":0,"NumRes":6}`,
		`{"Lats":[0.0014],"StatusCodeDist":{"200":1},"ErrorDist":{},"SizeTotal":5,"NumRes":1}`,
	}
	for _, round := range rounds {
		if err := r.add(&l, []byte(round)); err != nil {
			t.Fatal(err)
		}
	}
	s := r.summary(2 * time.Second)
	if s.NumRes != 6 || s.Unanswered != 4 || s.StatusCodeDist[200] != 3 || s.SizeTotal != 15 || s.Rps != 3 || s.Fastest != 0.001 || s.Slowest != 0.0018 || s.Average != 0.0014 {
		t.Errorf("%+v", s)
	}
	if len(s.ErrorDist) != 1 || s.ErrorDist["read tcp 10.0.0.2:80: connection reset by peer"] != 3 {
		t.Errorf("%v", s.ErrorDist)
	}
	if err := r.add(&l, nil); err == nil {
		t.Error("an empty summary passed for one")
	}
}

func TestHammerErrorsLoseWhatDiffersPerConnection(t *testing.T) {
	for text, want := range map[string]string{
		`Get "http://[::1]:80/": read tcp [::1]:4000->[::1]:80: EOF`: "read tcp [::1]:80: EOF",
		`write tcp 10.1.1.1:40000->10.2.2.2:80: broken pipe`:         "write tcp 10.2.2.2:80: broken pipe",
		`Post "http://x/": EOF`:                                      "EOF",
	} {
		if got := loadgen.PlainError(text); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	into := map[string]int64{}
	for i := range 200 {
		addErrors(into, map[string]int64{strings.Repeat("x", i+1): 1})
	}
	if len(into) != mostErrors+1 || into[otherErrors] != 150 {
		t.Errorf("%d texts, %d others", len(into), into[otherErrors])
	}
}

func TestHammerFlagsAreChecked(t *testing.T) {
	for args, want := range map[string]string{
		"-c 0":            "-c 0",
		"-c 10000000":     "from 1 to",
		"-q 0.01":         "fewer workers",
		"-q -1":           "-q -1",
		"-q NaN":          "-q NaN",
		"-q 1e7":          "-q 1e+07",
		"-n 10 -c 20":     "less than -c",
		"-n 2000000":      "as long as the run",
		"-z -1s":          "negative",
		"-t -1":           "-t -1",
		"-o csv":          "these flags of hey",
		"-a me:s3cret":    "give the header with -H",
		"-connections 3":  "these flags of hey",
		"-h":              "these flags of hey",
		"http://web/":     "needs no URL",
		"-c 5 'oops":      "Unterminated",
		"-H nonsense":     "'Name: value'",
		"-m 'G T'":        "not a method",
		"-t 1.5":          "invalid value",
		"-t 18446744074":  "-t 18446744074",
		"-H 'trailer: x'": "sent without it",
		"-H 'X: a\x01'":   "control characters",
		"-H 'Host: a/b'":  "not a host",
	} {
		if _, err := ParseFlags(args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

func TestHammerFlagsMeanWhatTheyMeanToHey(t *testing.T) {
	f, err := ParseFlags(`-c 3 -q 2.5 -n 9 -t 7 -z 3s -m put -H "User-Agent: me" -H 'Accept:  a "b" \c' -d e\ f -disable-keepalive`)
	if err != nil {
		t.Fatal(err)
	}
	if f.Workers != 3 || f.PerWorker != 2.5 || f.Requests != 9 || f.Timeout != 7 || f.Duration != 3*time.Second || f.Method != "PUT" || f.Body != "e f" || !f.PerRequest {
		t.Errorf("%+v", f)
	}
	if got := f.Header; got.Get("Accept") != `a "b" \c` || got.Get("Content-Type") != "text/html" || got.Get("User-Agent") != "me hey/0.0.1" {
		t.Errorf("%v", got)
	}
}

// The hammer's load must not lead the probes to wrong conclusions.
func TestHammerRunsBesideTheProbes(t *testing.T) {
	layer.Real(t)
	clock := timeline.StartClock()
	s := loadtest.Serve(t, faultserver.Config{T0: clock.T0()})
	n := map[timeline.Class]int{} // by the sink, which is called by one goroutine at a time
	var good atomic.Int64
	prober := loadgen.New(loadgen.Config{Clock: clock, Sink: func(f timeline.Fact) {
		if b, ok := f.(timeline.Batch); ok {
			for _, r := range b.Requests {
				n[r.Class]++
			}
			good.Store(int64(n[timeline.OK]))
		}
	}})
	if err := prober.Start(loadgen.Probe{Target: timeline.Target{ID: 1, Kind: timeline.New, URL: s.URL(), Rate: 200, Timeout: 20 * time.Second}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	var sum Summary
	running.Go(func() { sum = hammered(t, ctx, "-c 20 -q 10", s.URL()) })
	running.Go(func() {
		if err := prober.Run(ctx); err != nil {
			t.Error(err)
		}
	})
	loadtest.WaitFor(t, "100 good answers", func() bool { return good.Load() >= 100 })
	cancel()
	running.Wait()
	loadtest.Close(t, s)
	ours := n[timeline.OK] + int(sum.NumRes) // what is local may have been answered, later than we looked
	if answered := s.Answered(); ours > answered || answered > ours+n[timeline.Local] {
		t.Errorf("%v and %d by the hammer, but the server answered %d", n, sum.NumRes, answered)
	}
	for class, count := range n {
		if class.Failed() && count > 0 {
			t.Errorf("%d requests ended as %v", count, class)
		}
	}
}
