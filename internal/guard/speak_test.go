package guard

import (
	"cmp"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"lapse/internal/guard/gate"
	"lapse/internal/guard/lead"
	"lapse/internal/layer"
)

// An elected guard leads as a test says.
type elected struct {
	leads   atomic.Bool
	problem atomic.Value
	other   string

	mu      sync.Mutex
	passes  []lead.Request // by this guard
	unheard error          // of these
	passed  []lead.Request // by others
}

func (e *elected) Run(ctx context.Context, _ func() bool) { <-ctx.Done() }
func (e *elected) Leads() bool                            { return e.leads.Load() }
func (e *elected) Other() string                          { return e.other }

func (e *elected) Pass(_ context.Context, r lead.Request) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.passes = append(e.passes, r)
	return e.unheard
}

func (e *elected) Passed() []lead.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.passed
}

func (e *elected) Problem() string {
	problem, _ := e.problem.Load().(string)
	return problem
}

// Of several guards all measure and answer, and the one that leads writes Events, until it ends.
func TestTheGuardThatLeadsWritesEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &elected{}
		f := newFakeOf(t, filepath.Join(t.TempDir(), "runs"), leader)
		f.guards("shop/web")
		f.disrupt("shop/web", 3)()
		time.Sleep(mostUnsaid + time.Second) // of virtual time
		if synctest.Wait(); len(f.told) > 0 {
			t.Errorf("it does not lead, and writes %+v", f.told)
		}
		f.asked("service=shop/web&node=node1", 200, gate.Fail)
		if !f.exports("lapse_guard_leader 0") {
			t.Error("the metric says that it leads")
		}
		leader.leads.Store(true)
		if !f.exports("lapse_guard_leader 1") {
			t.Error("the metric says that it does not lead")
		}
		f.disrupt("shop/web", 3)()
		if synctest.Wait(); len(f.told) == 0 {
			t.Error("it leads, and writes no Event")
		}
		told := len(f.told)
		f.disrupt("shop/web", 3)
		f.stop()
		if len(f.told) != told {
			t.Errorf("another one measures what it has broken off, and it writes %+v", f.told[told:])
		}
	})
}

// What the guard that led has not told is told by the one that leads soon after a run, and by nobody who leads later.
func TestWhatALeaderHasLeftUntoldIsTold(t *testing.T) {
	for _, after := range []time.Duration{5 * time.Second, time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			leader := &elected{other: "10.0.0.9:7117"}
			f := newFakeOf(t, filepath.Join(t.TempDir(), "runs"), leader)
			f.guards("shop/web")
			f.disrupt("shop/web", 3)()
			time.Sleep(after) // of virtual time
			if synctest.Wait(); len(f.told) > 0 {
				t.Errorf("another one leads, and it writes %+v", f.told)
			}
			leader.leads.Store(true)
			time.Sleep(time.Second)
			if synctest.Wait(); (len(f.told) > 0) != (after < othersFor) {
				t.Errorf("after %v it leads, and has written %+v", after, f.told)
			}
		})
	}
}

// While no guard leads, what is to be told waits.
func TestWhatIsToldWaitsForALeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leader := &elected{}
		f := newFakeOf(t, filepath.Join(t.TempDir(), "runs"), leader)
		f.guards("shop/web")
		f.disrupt("shop/web", 3)()
		time.Sleep(time.Minute) // of virtual time
		if synctest.Wait(); len(f.told) > 0 {
			t.Errorf("nobody leads, and it writes %+v", f.told)
		}
		leader.leads.Store(true)
		time.Sleep(time.Second)
		if synctest.Wait(); len(f.told) == 0 {
			t.Error("it leads now, and what it has measured before is not told")
		}
	})
}

// A guard that does not lead passes questions on, once. If the leader does not answer, it does.
func TestTheGuardThatLeadsAnswers(t *testing.T) {
	answers := func(who string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, who+" "+r.URL.RequestURI()) })
	}
	leading := httptest.NewServer((&guard{Config: Config{Leader: &elected{}}}).speaking(answers("the leader")))
	defer leading.Close()
	address := strings.TrimPrefix(leading.URL, "http://")
	get := func(of http.Handler, path, forwarded string) string {
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set(forwardedHeader, forwarded)
		if forwarded == "" {
			r.Header.Del(forwardedHeader)
		}
		w := httptest.NewRecorder()
		of.ServeHTTP(w, r)
		return w.Body.String()
	}
	standby := func(other string) http.Handler {
		return (&guard{Config: Config{Leader: &elected{other: other}}}).speaking(answers("this one"))
	}
	for _, test := range []struct{ name, other, path, forwarded, want string }{
		{"the leader is asked", address, "/v1/gate?service=shop/web", "", "the leader /v1/gate?service=shop/web"},
		{"nobody leads", "", "/v1/gate", "", "this one /v1/gate"},
		{"the leader is gone", "127.0.0.1:1", "/v1/gate?run=r1", "", "this one /v1/gate?run=r1"},
		{"another one asks", address, "/v1/gate", "1", "this one /v1/gate"},
		{"its own state", address, "/readyz", "", "this one /readyz"},
	} {
		if got := get(standby(test.other), test.path, test.forwarded); got != test.want {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// Connecting to a leader whose node is gone is not awaited for as long as who asks waits for an answer.
func TestALeaderWhoseNodeIsGoneDelaysNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone := func(ctx context.Context, _, _ string) (net.Conn, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		g := &guard{Config: Config{Leader: &elected{other: "10.0.0.9:7117"}}, dial: gone}
		began, w := time.Now(), httptest.NewRecorder()
		answers := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "this one") }
		g.speaking(http.HandlerFunc(answers)).ServeHTTP(w, httptest.NewRequest(http.MethodGet, gate.Path, nil))
		if took := time.Since(began); w.Body.String() != "this one" || took != mostDial {
			t.Errorf("after %v: %q", took, w.Body)
		}
	})
}

// A guard is ready once it measures what was annotated when it began, or says why it cannot.
func TestAGuardIsReadyOnceItMeasures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t, filepath.Join(t.TempDir(), "runs"))
		ready := func() string {
			w := httptest.NewRecorder()
			f.public().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/readyz", nil))
			return strings.TrimSpace(w.Body.String())
		}
		if got := ready(); got != unlisted {
			t.Errorf("before it knows any Service: %q", got)
		}
		f.refuse("shop/api", errors.New("it has no ready endpoint"))
		f.marks("shop/web", "shop/api")
		if synctest.Wait(); ready() != `not measured yet: ["shop/api" "shop/web"]` {
			t.Errorf("in the baseline: %q", ready())
		}
		f.settles()
		if got := ready(); got != "ok" {
			t.Errorf("when one is measured and it is known why the other is not: %q", got)
		}
		f.marks("shop/web", "shop/api", "shop/new")
		if synctest.Wait(); ready() != "ok" {
			t.Errorf("when another one is annotated: %q", ready())
		}
		f.settles()
	})
}

// Connections that send nothing lock nobody out of the gate, nor take the descriptors of the measurement.
func TestIdleConnectionsLockNobodyOut(t *testing.T) {
	layer.Real(t)
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	ln.Close()
	var serving sync.WaitGroup
	defer serving.Wait()
	stop, err := serve(address, gate.New(), &serving, func(err error) { t.Error(err) })
	if err != nil {
		t.Fatal(err)
	}
	defer stop()
	var first net.Conn
	for i := range maxConns + 10 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(i, err)
		}
		defer c.Close()
		first = cmp.Or(first, c)
	}
	reply, err := http.Get("http://" + address + gate.Path)
	if err != nil {
		t.Fatal(err)
	}
	reply.Body.Close()
	if err := first.SetReadDeadline(time.Now().Add(3 * time.Second)); err != nil { // before the server's own limit
		t.Fatal(err)
	}
	if n, err := first.Read(make([]byte, 1)); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the oldest one is still open: %d, %v", n, err)
	}
}
