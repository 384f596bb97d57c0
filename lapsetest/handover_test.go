package lapsetest_test

import (
	"context"
	"net"
	"net/http"
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

// The old server answers what it has begun, and the new one takes every new connection.
func TestShutdownDropsNothing(t *testing.T) {
	layer.Real(t)
	conclusive(t, func(option lapsetest.Option) *lapsetest.Result {
		url, old := handover(t)
		m := lapsetest.Start(t, url, lapsetest.Rate(200), lapsetest.Kinds(timeline.New), option)
		old.next(t)
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
	ln     *net.TCPListener
}

// handover returns a server whose requests take 50 ms.
func handover(t *testing.T) (url string, s listening) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s = listening{ln: ln.(*net.TCPListener)}
	s.serve(t, ln)
	return "http://" + ln.Addr().String() + "/", s
}

func (s *listening) serve(t *testing.T, ln net.Listener) {
	s.server = &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(50 * time.Millisecond)
		w.WriteHeader(http.StatusNoContent)
	})}
	server := s.server
	go func() { _ = server.Serve(ln) }() // http.ErrServerClosed
	t.Cleanup(func() { server.Close() })
}

// next serves on the same socket with another server.
func (s *listening) next(t *testing.T) {
	t.Helper()
	file, err := s.ln.File()
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
