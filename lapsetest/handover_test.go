package lapsetest_test

import (
	"context"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"lapse"
	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/lapsetest"
	"lapse/timeline"
)

// These tests are the examples in docs/how-to/test-a-go-server.md: a server is replaced by another one that listens on
// the same socket.

// The old server answers each connection that it has accepted, and the new one takes all others.
//
// Shutdown alone does not do that: a connection that was accepted, and of which nothing was read when Shutdown is
// called, is closed without an answer (net/http's conn.serve returns if the server is shutting down).
func TestDrainAndShutdownDropNothing(t *testing.T) {
	layer.Real(t)
	conclusive(t, func(option lapsetest.Option) *lapsetest.Result {
		url, old := handover(t)
		m := lapsetest.Start(t, url, lapsetest.Rate(200), lapsetest.Kinds(timeline.New), option)
		old.next(t)
		old.drain()
		if err := old.server.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		return m.Stop().NoFailures()
	})
}

// conclusive measures again while a result is inconclusive, because this machine stood still. The third result must be
// conclusive.
func conclusive(t *testing.T, measure func(lapsetest.Option) *lapsetest.Result) {
	t.Helper()
	for range 2 {
		if r := measure(lapsetest.OrInconclusive()); r.Timeline == nil || r.Verdict.ExitCode != verdict.ExitInconclusive {
			return
		}
	}
	measure(lapsetest.With(func(*lapse.Spec) {}))
}

// Close cuts the requests that the old server has begun: about 200/s × 50 ms = 10 of them.
func TestCloseDropsRequestsInFlight(t *testing.T) {
	layer.Real(t)
	url, old := handover(t)
	m := lapsetest.Start(t, url, lapsetest.Rate(200), lapsetest.Kinds(timeline.New), lapsetest.OrInconclusive())
	old.next(t)
	old.server.Close()
	if r := m.Stop(); r.Verdict.Failed == 0 {
		t.Error("no request failed: the server had none in flight")
	}
}

type listening struct {
	server *http.Server
	ln     net.Listener
	served chan struct{}  // closed when no more connections are accepted
	unread sync.WaitGroup // connections that were accepted, and have not reached the handler
}

// drain stops listening, and waits until each connection that was accepted has reached the handler or has closed.
func (s *listening) drain() {
	s.ln.Close()
	<-s.served
	s.unread.Wait()
}

type reachedKey struct{}

// track counts a connection until it has reached the handler or has closed.
func (s *listening) track() {
	var reached sync.Map // net.Conn: func()
	s.server.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
		s.unread.Add(1)
		done := sync.OnceFunc(s.unread.Done)
		reached.Store(c, done)
		return context.WithValue(ctx, reachedKey{}, done)
	}
	s.server.ConnState = func(c net.Conn, state http.ConnState) {
		if done, ok := reached.Load(c); ok && state == http.StateClosed {
			done.(func())()
			reached.Delete(c)
		}
	}
	handler := s.server.Handler
	s.server.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		r.Context().Value(reachedKey{}).(func())()
		handler.ServeHTTP(w, r)
	})
}

// handover returns a server whose requests take 50 ms.
func handover(t *testing.T) (url string, s *listening) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = &listening{}
	s.serve(t, ln)
	return "http://" + ln.Addr().String() + "/", s
}

func (s *listening) serve(t *testing.T, ln net.Listener) {
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})}
	s.ln, s.served = ln, make(chan struct{})
	s.track()
	go func() {
		defer close(s.served)
		_ = s.server.Serve(ln) // the listener was closed
	}()
	t.Cleanup(func() { s.server.Close() })
}

// next serves on the same socket with another server.
func (s *listening) next(t *testing.T) {
	t.Helper()
	file, err := s.ln.(*net.TCPListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	ln, err := net.FileListener(file)
	if err != nil {
		t.Fatal(err)
	}
	(&listening{}).serve(t, ln)
}
