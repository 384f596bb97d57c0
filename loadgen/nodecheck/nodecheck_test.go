package nodecheck

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/layer"
	"lapse/timeline"
)

func TestHistoryTellsChangesWithTheLastAnswerAsBefore(t *testing.T) {
	h := history{check: Check{Node: "node2", Addr: netip.MustParseAddrPort("10.0.0.2:10256"), Service: "shop/web"}}
	var got []timeline.Event
	for _, c := range []struct {
		sent, done time.Duration
		state      string
	}{
		{1, 2, timeline.CheckHealthy}, {11, 12, timeline.CheckHealthy}, {21, 29, timeline.CheckUnanswered}, {31, 39, timeline.CheckUnanswered}, {41, 42, timeline.CheckHealthy},
	} {
		if e, changed := h.next(c.sent, c.done, c.state, "x"); changed {
			got = append(got, e)
		}
	}
	if len(got) != 3 {
		t.Fatalf("%d events, want 3: %+v", len(got), got)
	}
	for i, want := range []timeline.Event{
		{From: "", To: timeline.CheckHealthy, Since: 0, Seen: 2},
		{From: timeline.CheckHealthy, To: timeline.CheckUnanswered, Since: 11, Seen: 29},
		{From: timeline.CheckUnanswered, To: timeline.CheckHealthy, Since: 31, Seen: 42},
	} {
		e := got[i]
		if e.From != want.From || e.To != want.To || e.Since != want.Since || e.Seen != want.Seen || e.Object.Name != "node2" || e.Port != 10256 || e.Service != "shop/web" || e.Kind != timeline.NodeChecked {
			t.Errorf("event %d: %+v, want %+v", i, e, want)
		}
	}
}

// Each way to answer a check has a state.
func TestAnswersAreStates(t *testing.T) {
	layer.Real(t)
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/no":
			http.Error(w, `{"localEndpoints": 0}`, http.StatusServiceUnavailable)
		case "/elsewhere":
			http.Redirect(w, r, "/", http.StatusFound)
		case "/never":
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
	}))
	defer server.Close()
	defer close(release)
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	ask := over(newClient(200 * time.Millisecond))
	for _, tt := range []struct{ addr, path, state, detail string }{
		{server.Listener.Addr().String(), "/", timeline.CheckHealthy, "200 OK"},
		{server.Listener.Addr().String(), "/no", timeline.CheckUnhealthy, `503 Service Unavailable {"localEndpoints": 0}`},
		{server.Listener.Addr().String(), "/elsewhere", timeline.CheckUnhealthy, "302"},
		{server.Listener.Addr().String(), "/never", timeline.CheckUnanswered, ""},
		{closed.Addr().String(), "/", timeline.CheckRefused, "connection refused"},
	} {
		state, detail := ask(t.Context(), Check{Addr: netip.MustParseAddrPort(tt.addr), Path: tt.path})
		if state != tt.state || !strings.Contains(detail, tt.detail) {
			t.Errorf("%s: %s %q, want %s %q", tt.path, state, detail, tt.state, tt.detail)
		}
	}
}

// While nothing happens, ports are seldom asked. A shorter interval counts within a second. A port whose answer is
// awaited is not asked again.
func TestTheIntervalMayChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var interval atomic.Int64
		interval.Store(int64(15 * time.Second))
		asked := map[string]int{} // by node
		var mu sync.Mutex
		checks := make(chan []Check, 1)
		checks <- []Check{{Node: "node1"}, {Node: "node2"}, {Node: "silent"}}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() {
			Run(ctx, Config{
				Checks: checks, Clock: timeline.StartClock(), Sink: func(timeline.Fact) {},
				Interval: func() time.Duration { return time.Duration(interval.Load()) },
				ask: func(ctx context.Context, c Check) (state, detail string) {
					mu.Lock()
					asked[c.Node]++
					mu.Unlock()
					if c.Node == "silent" {
						<-ctx.Done()
					}
					return timeline.CheckHealthy, ""
				},
			})
		})
		counts := func(length time.Duration, least, most int) {
			t.Helper()
			mu.Lock()
			clear(asked)
			mu.Unlock()
			time.Sleep(length)
			synctest.Wait()
			mu.Lock()
			defer mu.Unlock()
			for _, node := range []string{"node1", "node2"} {
				if n := asked[node]; n < least || n > most {
					t.Errorf("%s was asked %d times in %v, want %d to %d", node, n, length, least, most)
				}
			}
		}
		counts(time.Minute, 4, 5)
		if asked["silent"] != 1 {
			t.Errorf("a port that does not answer was asked %d times at once", asked["silent"])
		}
		interval.Store(int64(time.Second))
		counts(2*time.Second, 1, 2)
		counts(time.Minute, 59, 61)
		cancel()
		running.Wait()
	})
}

func TestRunAsksUntilItsEndAndSaysWhatChanged(t *testing.T) {
	var healthy atomic.Bool
	healthy.Store(true)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !healthy.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	events := make(chan timeline.Event, 10)
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	checks := make(chan []Check, 1)
	on := func(node string) []Check {
		return []Check{{Node: node, Addr: netip.MustParseAddrPort(server.Listener.Addr().String()), Path: "/healthz"}}
	}
	checks <- on("node1")
	running.Go(func() {
		Run(ctx, Config{
			Checks: checks, Clock: timeline.StartClock(), Sink: func(f timeline.Fact) { events <- f.(timeline.Event) },
			Interval: func() time.Duration { return 5 * time.Millisecond }, ask: over(newClient(5 * time.Second)),
		})
	})
	if e := <-events; e.To != timeline.CheckHealthy || e.From != "" {
		t.Errorf("first %+v", e)
	}
	healthy.Store(false)
	e := <-events
	if e.From != timeline.CheckHealthy || e.To != timeline.CheckUnhealthy || e.Since <= 0 || e.Since >= e.Seen {
		t.Errorf("then %+v", e)
	}
	checks <- on("node2")
	for i := range 10 { // from here on, node1 is not asked any more
		if e := <-events; e.Object.Name != "node2" {
			t.Errorf("still asked: %+v", e)
		}
		if i < 9 {
			healthy.Store(i%2 == 0)
		}
	}
	cancel()
	running.Wait()
	if len(events) > 0 {
		t.Errorf("after its end %+v", <-events)
	}
}
