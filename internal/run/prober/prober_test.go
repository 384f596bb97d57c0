package prober

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/internal/run/runtest"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

func newProber(t testing.TB) *Prober {
	p := New(slog.New(slog.NewTextHandler(t.Output(), nil)))
	t.Cleanup(p.Close)
	return p
}

// newKeys returns the TLS configurations of a prober and its coordinators.
func newKeys(t testing.TB) (deploy.Keys, *tls.Config) {
	t.Helper()
	keys, err := deploy.NewKeys(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	client, err := keys.Coordinator.Client()
	if err != nil {
		t.Fatal(err)
	}
	return keys, client
}

// serve serves the prober's API over TLS. It returns how a coordinator calls it.
func serve(t testing.TB, p *Prober) func(coordinator string) *agent.Client {
	t.Helper()
	keys, config := newKeys(t)
	server, err := keys.Prober.Server()
	if err != nil {
		t.Fatal(err)
	}
	api := agent.NewProberServer(p.Find, server)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := api.ServeTLS(ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() { api.Close(); serving.Wait() })
	return func(coordinator string) *agent.Client {
		client := agent.NewProberClient(netip.MustParseAddrPort(ln.Addr().String()), config)
		client.Coordinator = coordinator
		t.Cleanup(client.Close)
		return client
	}
}

// sessionOf returns the session of a coordinator, or nil.
func sessionOf(p *Prober, coordinator string) *Session {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s := p.sessions[coordinator]; s != nil {
		return s.Session
	}
	return nil
}

// sessions returns the coordinators that have one.
func sessions(p *Prober) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.sessions))
}

// join makes all further calls of a client those to the session that it joins now.
func join(t testing.TB, client *agent.Client) agent.Status {
	t.Helper()
	status, err := client.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	client.Only(status.Process)
	return status
}

// assignment returns the assignment of a source, which asks each URL as a target: 1, 2, …
func assignment(of timeline.SourceID, rate float64, urls ...string) agent.Assignment {
	s := spec.Spec{
		Targets: urls, Rate: rate, Timeout: 5 * time.Second, Kinds: []string{"new"}, Baseline: time.Second, Connections: 1,
		Method: "GET", Scheme: "http", Pacing: "economical", Coverage: "99%", MaxDuration: time.Hour, Join: time.Second, Hold: time.Minute,
	}
	a := agent.Assignment{Source: of, Spec: spec.MustMarshal(s.Assigned())}
	for i, url := range urls {
		a.Targets = append(a.Targets, agent.Assigned{Target: timeline.Target{
			ID: timeline.TargetID(i + 1), Name: fmt.Sprintf("%d/%d", of, i+1), Source: of, Kind: timeline.New, URL: url, Rate: rate, Timeout: 5 * time.Second,
		}})
	}
	return a
}

// A shop is a server that counts the requests to each of its paths.
type shop struct {
	*httptest.Server
	mu    sync.Mutex
	asked map[string]int
}

func newShop(t testing.TB) *shop {
	s := &shop{asked: map[string]int{}}
	s.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.asked[r.URL.Path]++
	}))
	t.Cleanup(s.Close)
	return s
}

func (s *shop) count(path string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[path]
}

// told is what a coordinator was told.
type told struct {
	mu       sync.Mutex
	requests map[timeline.SourceID]uint64
	sent     map[timeline.SourceID]int // of these, those that a machine which stands still has not left out
	events   []timeline.Event
	err      error
	over     chan struct{} // closed when no more comes
}

// follow follows the recording of a client's session.
func follow(t testing.TB, client *agent.Client) *told {
	all := &told{requests: map[timeline.SourceID]uint64{}, sent: map[timeline.SourceID]int{}, over: make(chan struct{})}
	ctx, stop := context.WithCancel(context.Background())
	t.Cleanup(func() { stop(); <-all.over })
	go func() {
		defer close(all.over)
		err := client.FollowFacts(ctx, record.Decode, all.take(t))
		all.mu.Lock()
		defer all.mu.Unlock()
		all.err = err
	}()
	return all
}

func (all *told) take(t testing.TB) func(timeline.Fact) {
	return func(fact timeline.Fact) {
		all.mu.Lock()
		defer all.mu.Unlock()
		switch fact := fact.(type) {
		case timeline.Batch:
			if fact.FirstSeq != all.requests[fact.Source] {
				t.Errorf("source %d: request %d comes after %d", fact.Source, fact.FirstSeq, all.requests[fact.Source])
			}
			all.requests[fact.Source] += uint64(len(fact.Requests))
			for _, r := range fact.Requests {
				if r.Class.Observed() {
					all.sent[fact.Source]++
				}
			}
		case timeline.Event:
			all.events = append(all.events, fact)
		}
	}
}

func (all *told) count(of timeline.SourceID) int {
	all.mu.Lock()
	defer all.mu.Unlock()
	return all.sent[of]
}

// changes returns the changes of rates.
func (all *told) changes() (changes []string) {
	all.mu.Lock()
	defer all.mu.Unlock()
	for _, e := range all.events {
		if e.Kind == timeline.RateChanged {
			changes = append(changes, fmt.Sprintf("source %d %s: %s → %s", e.Source, e.Object.Name, e.From, e.To))
		}
	}
	return changes
}

// refused returns the HTTP status of a refusal, or 0.
func refused(err error) int {
	if r, ok := errors.AsType[*agent.RefusedError](err); ok {
		return r.Status
	}
	return 0
}

func TestGuardsMeasureSeveralServicesEachByThemselves(t *testing.T) {
	layer.Real(t)
	p, shop, ctx := newProber(t), newShop(t), t.Context()
	connect := serve(t, p)
	one, two := connect("guard-1"), connect("guard-2")
	if a, b := join(t, one), join(t, two); a.Process == b.Process || a.ID != "guard-1" || a.Phase != timeline.PhaseStarting {
		t.Errorf("sessions %+v and %+v", a, b)
	}
	first := assignment(1, 50, shop.URL+"/web")
	for _, err := range []error{
		one.Assign(ctx, first), one.Assign(ctx, first), // the answer got lost
		one.Assign(ctx, assignment(2, 50, shop.URL+"/api", shop.URL+"/more")),
		two.Assign(ctx, assignment(1, 50, shop.URL+"/two")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Assign(ctx, assignment(1, 60, shop.URL+"/web")); refused(err) != http.StatusConflict {
		t.Errorf("source 1 is assigned something else: %v", err)
	}
	oneTold, twoTold := follow(t, one), follow(t, two)
	if err := one.SetRates(ctx, []agent.Rate{{Target: 1, Rate: 100}}); refused(err) != http.StatusConflict {
		t.Errorf("the rate of a target of which source? %v", err)
	}
	if err := errors.Join(
		one.SetRates(ctx, []agent.Rate{{Source: 2, Target: 1, Rate: 100}, {Source: 1, Target: 1, Rate: 50}}),
		two.SetRates(ctx, []agent.Rate{{Target: 1, Rate: 40}}),
	); err != nil {
		t.Error(err)
	}
	runtest.WaitFor(t, "requests of all", func() bool {
		return oneTold.count(1) > 10 && oneTold.count(2) > 10 && twoTold.count(1) > 10
	})
	if got := fmt.Sprint(oneTold.changes(), twoTold.changes()); got != "[source 2 2/1: 50 → 100] [source 1 1/1: 50 → 40]" {
		t.Errorf("changes of rates: %s", got)
	}

	// One source ends, and hands over its last request. The others go on.
	if err := errors.Join(one.End(ctx, "not a Service any more", 1), one.End(ctx, "", 1)); err != nil {
		t.Fatal(err)
	}
	runtest.WaitFor(t, "the last request of source 1", func() bool {
		session := sessionOf(p, "guard-1")
		session.mu.Lock()
		defer session.mu.Unlock()
		return session.sources[1] == nil && oneTold.count(1) == shop.count("/web")
	})
	last, before, other := shop.count("/web"), oneTold.count(2), twoTold.count(1)
	if err := one.Assign(ctx, first); refused(err) != http.StatusConflict || !strings.Contains(err.Error(), "numbered from 0 again") {
		t.Errorf("source 1 is assigned again: %v", err)
	}
	if err := one.SetRates(ctx, []agent.Rate{{Source: 1, Target: 1, Rate: 1}, {Source: 2, Target: 1, Rate: 60}}); refused(err) != http.StatusConflict {
		t.Errorf("the rate of a source that has ended: %v", err)
	}
	runtest.WaitFor(t, "the other rate", func() bool {
		return strings.HasSuffix(fmt.Sprint(oneTold.changes()), "source 2 2/1: 100 → 60]")
	})
	if err := one.Assign(ctx, assignment(3, 50, shop.URL+"/third")); err != nil {
		t.Error(err)
	}
	runtest.WaitFor(t, "more requests of the others", func() bool {
		return oneTold.count(2) > before+20 && oneTold.count(3) > 10 && twoTold.count(1) > other+10
	})
	if n := shop.count("/web"); n != last {
		t.Errorf("after its end, source 1 sent %d requests more", n-last)
	}

	// All end: the coordinator has each request once.
	if err := one.End(ctx, "the guard ends", 0); err != nil {
		t.Fatal(err)
	}
	<-oneTold.over
	if oneTold.err != nil {
		t.Error(oneTold.err)
	}
	for of, want := range map[timeline.SourceID]int{1: last, 2: shop.count("/api") + shop.count("/more"), 3: shop.count("/third")} {
		if got := oneTold.count(of); got != want {
			t.Errorf("source %d: %d requests were told, %d were sent", of, got, want)
		}
	}
	status, err := one.Status(ctx)
	if err != nil || status.Phase != timeline.PhaseEnded {
		t.Errorf("status %+v, %v", status, err)
	}
	if err := one.Ack(ctx, record.Receipt{Length: status.Size, SHA256: status.SHA256}); err != nil {
		t.Error(err)
	}
	other = twoTold.count(1)
	runtest.WaitFor(t, "the other guard's requests", func() bool { return twoTold.count(1) > other })

	// It joins again: this is another session.
	again := connect("guard-1")
	if now := join(t, again); now.Process == status.Process || now.Phase != timeline.PhaseStarting {
		t.Errorf("the session that has ended: %+v", now)
	}
	if _, err := one.Status(ctx); refused(err) != http.StatusConflict {
		t.Errorf("the former session answers: %v", err)
	}
}

func TestFewSuccessesWaitForASecond(t *testing.T) {
	layer.Real(t)
	p, shop := newProber(t), newShop(t)
	guard := serve(t, p)("guard-1")
	join(t, guard)
	if err := guard.Assign(t.Context(), assignment(1, 8, shop.URL+"/web")); err != nil {
		t.Fatal(err)
	}
	rec := sessionOf(p, "guard-1").rec
	size, last, asked := rec.Size(), time.Now(), 0
	runtest.WaitFor(t, "two deliveries with a second in between", func() bool {
		if rec.Size() == size {
			return false
		}
		waited, requests := time.Since(last), shop.count("/web")-asked
		size, last, asked = rec.Size(), time.Now(), shop.count("/web")
		return waited > 900*time.Millisecond && requests > 5
	})
}

func TestSessionIsForgottenTwoMinutesAfterItsLastCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(slog.New(slog.DiscardHandler))
		defer p.Close()
		call := func(guard string, join bool) func() {
			_, over, err := p.Find(guard, join)
			if err != nil {
				t.Fatal(err)
			}
			return over
		}
		call("calls", true)()
		call("silent", true)()
		stream := call("reads", true)
		processes := map[string]string{}
		for _, name := range sessions(p) {
			processes[name] = sessionOf(p, name).process
		}
		for range 10 {
			time.Sleep(forgetAfter - time.Nanosecond)
			call("calls", false)()
		}
		if names := sessions(p); len(names) != 2 || sessionOf(p, "calls").process != processes["calls"] || sessionOf(p, "reads").process != processes["reads"] {
			t.Errorf("sessions %v", names)
		}
		if _, _, err := p.Find("silent", false); refused(err) != http.StatusConflict {
			t.Errorf("a call to the session that was forgotten: %v", err)
		}
		stream()
		time.Sleep(forgetAfter - time.Nanosecond)
		synctest.Wait()
		if sessionOf(p, "reads") == nil {
			t.Error("forgotten too early after the end of the stream")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if names := sessions(p); len(names) > 1 {
			t.Errorf("not forgotten: %v", names)
		}
	})
}

func TestForgottenSessionMeasuresNoMore(t *testing.T) {
	layer.Real(t)
	p, shop := newProber(t), newShop(t)
	p.forget = 300 * time.Millisecond
	connect := serve(t, p)
	killed, other := connect("killed"), connect("other")
	join(t, killed)
	join(t, other)
	session := sessionOf(p, "killed")
	if err := errors.Join(
		killed.Assign(t.Context(), assignment(1, 20, shop.URL+"/killed")), other.Assign(t.Context(), assignment(1, 20, shop.URL+"/other")),
	); err != nil {
		t.Fatal(err)
	}
	follow(t, killed) // an open stream is no call: its reader may be gone
	told := follow(t, other)
	compares := func() bool {
		_, err := other.Exchange(t.Context(), timeline.StartClock())
		return err == nil
	}
	runtest.WaitFor(t, "the end of the session", func() bool { return compares() && session.Status().Phase == timeline.PhaseEnded })
	sent, others := shop.count("/killed"), told.count(1)
	if sent == 0 {
		t.Error("nothing was measured")
	}
	runtest.WaitFor(t, "more of the other session", func() bool { return compares() && told.count(1) > others+20 })
	if n := shop.count("/killed"); n != sent {
		t.Errorf("%d more requests came", n-sent)
	}
	if _, err := killed.Status(t.Context()); refused(err) != http.StatusConflict {
		t.Errorf("a call of the forgotten session: %v", err)
	}
	if status, err := connect("killed").Status(t.Context()); err != nil || status.Process == session.process {
		t.Errorf("joined again: %+v, %v", status, err)
	}
}

func TestNinthSessionIsRefused(t *testing.T) {
	layer.Real(t)
	connect := serve(t, newProber(t))
	for i := range maxSessions {
		join(t, connect(fmt.Sprint("guard-", i)))
	}
	_, err := connect("guard-8").Status(t.Context())
	if refused(err) != http.StatusServiceUnavailable || !strings.Contains(err.Error(), "8 sessions") {
		t.Errorf("error is %v", err)
	}
	join(t, connect("guard-7"))
	if _, err := connect("").Status(t.Context()); refused(err) != http.StatusBadRequest {
		t.Errorf("a call without a name: %v", err)
	}
	if err := connect("guard-9").Assign(t.Context(), assignment(1, 1, "http://127.0.0.1:1/")); refused(err) != http.StatusConflict {
		t.Errorf("an assignment before it has joined: %v", err)
	}
}

// Who reads too late stops for good, and joins another session.
func TestReaderOfWhatIsGoneJoinsAnew(t *testing.T) {
	layer.Real(t)
	p := newProber(t)
	connect := serve(t, p)
	guard := connect("guard-1")
	before := join(t, guard)
	session := sessionOf(p, "guard-1")
	if err := guard.Assign(t.Context(), assignment(1, 1, newShop(t).URL)); err != nil {
		t.Fatal(err)
	}
	for i := 0; session.rec.Has(0); i++ {
		_ = session.rec.Append(timeline.Event{Source: 1, Kind: timeline.RequestError, Detail: noise(i)})
		_ = session.rec.Flush()
	}
	if size := session.rec.Size(); size < keepBytes {
		t.Errorf("of %d bytes, the first is gone", size)
	}
	err := guard.FollowFacts(t.Context(), record.Decode, func(timeline.Fact) {})
	if refused(err) != http.StatusGone || !strings.Contains(err.Error(), "byte 0 of the recording is gone") {
		t.Errorf("error is %v", err)
	}
	if now := join(t, connect("guard-1")); now.Process == before.Process {
		t.Error("it joins the same session again")
	}
	runtest.WaitFor(t, "the end of the former session", func() bool { return session.Status().Phase == timeline.PhaseEnded })
}

// noise returns text that does not compress well.
func noise(seed int) string {
	text := make([]byte, 64<<10)
	state := uint64(seed)*2654435761 + 1
	for i := range text {
		state = state*6364136223846793005 + 1442695040888963407
		text[i] = byte(' ' + state>>57)
	}
	return string(text)
}

// A drain ends the prober's Pod: what it has measured is handed over.
func TestProberOfGuardsHandsOverAllBeforeItEnds(t *testing.T) {
	layer.Real(t)
	keys, config := newKeys(t)
	dir, shop, at := t.TempDir(), newShop(t), netip.MustParseAddrPort("127.0.0.61:8090")
	for name, content := range map[string][]byte{"ca.crt": keys.Prober.CA, "prober.crt": keys.Prober.Cert, "prober.key": keys.Prober.Key} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	signals, ended := make(chan os.Signal, 1), make(chan error, 1)
	go func() {
		ended <- Run(t.Context(), spec.Env{deploy.EnvProbe: at.String(), deploy.EnvKeyDir: dir}, signals, t.Output())
	}()
	var all []*told
	var guards []*agent.Client
	for _, name := range []string{"guard-1", "guard-2", "has assigned nothing"} {
		guard := agent.NewProberClient(at, config)
		guard.Coordinator = name
		defer guard.Close()
		join(t, guard)
		guards = append(guards, guard)
	}
	for i, guard := range guards[:2] {
		if err := guard.Assign(t.Context(), assignment(1, 50, shop.URL+fmt.Sprint("/", i))); err != nil {
			t.Fatal(err)
		}
		all = append(all, follow(t, guard))
		runtest.WaitFor(t, "requests", func() bool { return all[i].count(1) > 10 })
	}
	signals <- syscall.SIGTERM
	for i, guard := range guards[:2] {
		<-all[i].over
		if got, want := all[i].count(1), shop.count(fmt.Sprint("/", i)); all[i].err != nil || got != want {
			t.Errorf("%d of %d requests, %v", got, want, all[i].err)
		}
		select {
		case err := <-ended:
			t.Fatalf("it has ended (%v) before it knew that guard %d has all", err, i)
		default:
		}
		another := agent.NewProberClient(at, config)
		another.Coordinator = "too late"
		if _, err := another.Status(t.Context()); refused(err) != http.StatusServiceUnavailable {
			t.Errorf("a guard that joins: %v", err)
		}
		another.Close()
		status, err := guard.Status(t.Context())
		if err == nil {
			err = guard.Ack(t.Context(), record.Receipt{Length: status.Size, SHA256: status.SHA256})
		}
		if err != nil {
			t.Error(err)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestProberWithoutKeysSaysWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	err := Run(t.Context(), spec.Env{deploy.EnvProbe: "127.0.0.1:0", deploy.EnvKeyDir: dir}, nil, io.Discard)
	if err == nil || !strings.Contains(err.Error(), dir+" (LAPSE_KEY_DIR)") || !strings.Contains(hint.Of(err), "prober.crt") {
		t.Errorf("error is %v, hint %q", err, hint.Of(err))
	}
}
