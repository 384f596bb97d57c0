package lapsetest_test

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse"
	"lapse/correlate"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/lapsetest"
)

// A failed keeps what a test under test says. Its methods that end a test end its goroutine.
type failed struct {
	testing.TB
	dir string

	mu       sync.Mutex
	said     []string
	cleanups []func()
}

func (f *failed) Helper()             {}
func (f *failed) ArtifactDir() string { return f.dir }
func (f *failed) Cleanup(c func())    { f.cleanups = append(f.cleanups, c) }

func (f *failed) Errorf(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, args...))
}

func (f *failed) Error(args ...any) { f.Errorf("%s", fmt.Sprint(args...)) }

func (f *failed) Fatal(args ...any) {
	f.Error(args...)
	panic(f)
}

// of runs a test and returns what it says.
func of(t *testing.T, test func(testing.TB)) (said []string) {
	f := &failed{TB: t, dir: t.TempDir()}
	func() {
		defer func() {
			if r := recover(); r != nil && r != any(f) {
				panic(r)
			}
		}()
		test(f)
	}()
	for _, c := range f.cleanups {
		c()
	}
	return f.said
}

// answering is an HTTP server that can be shut down and started again at its address.
type answering struct {
	*http.Server
	addr string
}

func serve(t testing.TB, addr string) *answering {
	t.Helper()
	ln, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	s := &answering{&http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}, ln.Addr().String()}
	go func() { _ = s.Serve(ln) }() // http.ErrServerClosed
	t.Cleanup(func() { s.Close() })
	return s
}

// A server that is well fails no test; one that is away for a while does, and the test says when and how much.
func TestDroppedRequestsFail(t *testing.T) {
	layer.Real(t)
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	if said := of(t, func(tb testing.TB) {
		lapsetest.During(tb, well.URL, func() {}, lapsetest.OrInconclusive()).NoFailures()
	}); len(said) > 0 {
		t.Errorf("of a server that is well: %q", said)
	}

	s := serve(t, "127.0.0.1:0")
	said := of(t, func(tb testing.TB) {
		away(tb, s, well.URL, lapsetest.OrInconclusive()).NoFailures().FailIf("downtime.total > 1m")
	})
	if len(said) != 1 || !strings.Contains(said[0], "FAIL") || !strings.Contains(said[0], "refused") || !strings.Contains(said[0], "WHEN") {
		t.Errorf("of a server that was away: %q", said)
	}
}

// A failure says how to read more of it, if there will be something to read.
func TestAFailureNamesARecordingThatIsKept(t *testing.T) {
	layer.Real(t)
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	before := flag.Lookup("test.artifacts").Value.String()
	defer flag.Set("test.artifacts", before)
	for _, artifacts := range []string{"true", "false"} {
		if err := flag.Set("test.artifacts", artifacts); err != nil {
			t.Fatal(err)
		}
		s := serve(t, "127.0.0.1:0")
		said := of(t, func(tb testing.TB) { away(tb, s, well.URL, lapsetest.OrInconclusive()).NoFailures() })
		names := len(said) == 1 && strings.Contains(said[0], "lapse report DIR -v · lapse serve DIR")
		if len(said) != 1 || names != (artifacts == "true") {
			t.Errorf("-artifacts=%s: %q", artifacts, said)
		}
	}
}

// What the error bars cannot decide is an error, once, unless the test allows it.
func TestWhatIsNotKnownFails(t *testing.T) {
	layer.Real(t)
	for _, allowed := range []bool{false, true} {
		s := serve(t, "127.0.0.1:0")
		said := of(t, func(tb testing.TB) {
			r := away(tb, s, "", lapsetest.OrInconclusive()).FailIf("window.longest > 1m")
			value := r.Verdict.Gates[0].Value
			middle := fmt.Sprintf("window.longest > %v", time.Duration((value.Min+value.Max)/2))
			if !allowed {
				r = lapsetest.Judged(tb, r)
			}
			r.FailIf(middle).FailIf(middle)
		})
		if allowed && len(said) > 0 || !allowed && (len(said) != 1 || !strings.Contains(said[0], "not known")) {
			t.Errorf("allowed %v: %q", allowed, said)
		}
	}
}

// away measures s while it is closed and started again, with a second server's measurement between, if there is one.
func away(tb testing.TB, s *answering, other string, options ...lapsetest.Option) *lapsetest.Result {
	m := lapsetest.Start(tb, "http://"+s.addr+"/", append(options, lapsetest.Rate(200))...)
	s.Close()
	if other != "" {
		if r := lapsetest.During(tb, other, func() {}, lapsetest.OrInconclusive()); r.Verdict.Failed > 0 {
			tb.Errorf("another server's requests failed")
		}
	}
	for refused := 0; refused < 10; {
		if _, err := net.Dial("tcp", s.addr); err != nil {
			refused++
		}
	}
	serve(tb, s.addr)
	return m.Stop()
}

// A server that does not answer before anything is done to it ends the test.
func TestTheServerMustAnswerFirst(t *testing.T) {
	layer.Real(t)
	closed := httptest.NewServer(nil)
	closed.Close()
	said := of(t, func(tb testing.TB) {
		lapsetest.During(tb, closed.URL, func() { tb.Error("it was measured") })
	})
	if len(said) != 1 || !strings.Contains(said[0], "did not answer before anything was done to it") || !strings.Contains(said[0], "refused") {
		t.Errorf("%q", said)
	}
}

// The test's own end ends the measurement, and conditions that are none are refused.
func TestMistakesAreSaid(t *testing.T) {
	layer.Real(t)
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	for want, test := range map[string]func(testing.TB){
		"gate \"faild > 0\"": func(tb testing.TB) {
			lapsetest.During(tb, well.URL, func() {}, lapsetest.OrInconclusive()).FailIf("faild > 0")
		},
		"scheme":     func(tb testing.TB) { lapsetest.Start(tb, "gopher://x/") },
		"Spec.Kinds": func(tb testing.TB) { lapsetest.Start(tb, well.URL, lapsetest.Kinds("held")) },
		"Spec.Targets": func(tb testing.TB) {
			lapsetest.Start(tb, "", lapsetest.With(func(s *lapse.Spec) { s.Targets = nil }))
		},
	} {
		if said := of(t, test); len(said) != 1 || !strings.Contains(said[0], want) {
			t.Errorf("want %q: %q", want, said)
		}
	}
	if said := of(t, func(tb testing.TB) { lapsetest.Start(tb, well.URL) }); len(said) > 0 {
		t.Errorf("a test that forgets to stop: %q", said)
	}
}

// The recording is one that lapse report reads.
func TestTheRecordingIsKept(t *testing.T) {
	layer.Real(t)
	well := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer well.Close()
	file := filepath.Join(t.TempDir(), "facts.lapse")
	measured, err := lapse.Measure(t.Context(), lapse.Spec{Targets: []string{well.URL}, Recording: file},
		func(context.Context) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	f, err := record.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	facts, err := f.Run()
	if err != nil {
		t.Fatal(err)
	}
	again, err := correlate.Analyze(facts, correlate.Options{})
	if err != nil || measured.Targets[0].Sent == 0 || again.Targets[0].Sent != measured.Targets[0].Sent {
		t.Errorf("%d requests were sent, and the recording has %d, %v", measured.Targets[0].Sent, again.Targets[0].Sent, err)
	}
}
