package agent

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"lapse/timeline"
)

// An openRun is a run that a prober outside of the cluster can join.
type openRun struct {
	*fakeRun
	facts []timeline.Fact
	last  bool
	over  atomic.Bool
}

func (r *openRun) Join(j Joining) (Assignment, error) {
	if j.Name == "" {
		return Assignment{}, errors.New("no place")
	}
	for i := range j.Targets {
		j.Targets[i].ID, j.Targets[i].Source = timeline.TargetID(7+i), 3
	}
	return Assignment{Source: 3, Targets: j.Targets}, nil
}

func (r *openRun) Take(h Handed) (over bool, err error) {
	r.facts, r.last = append(r.facts, h.Facts()...), r.last || h.Last
	return r.over.Load(), nil
}

// dialTo is a way to a server, over which answers get lost while losing is set: the request was taken.
func dialTo(t *testing.T, handler http.Handler, losing *atomic.Bool) Dial {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if losing.CompareAndSwap(true, false) {
			handler.ServeHTTP(httptest.NewRecorder(), r)
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Listener.Addr().String())
	}
}

// What a prober outside of the cluster measured arrives whole, in order and once, also where an answer got lost.
func TestWhatIsMeasuredOutsideArrivesOnce(t *testing.T) {
	run, losing := &openRun{fakeRun: newFakeRun(t)}, new(atomic.Bool)
	client := NewClient(dialTo(t, newHandler(run, nil), losing))
	defer client.Close()
	target := timeline.Target{Name: "web nodeport node2 new from outside", Kind: timeline.New, URL: "http://172.30.0.2:30080/", Rate: 100, RouteNode: "node2", Route: "nodeport"}
	a, err := client.Join(t.Context(), Joining{Name: "laptop", T0: time.Now(), Targets: []Assigned{{Target: target, Host: "web.shop"}}})
	if err != nil {
		t.Fatal(err)
	}
	if target.ID, target.Source = 7, 3; len(a.Targets) != 1 || a.Source != 3 || a.Targets[0].Target != target || a.Targets[0].Host != "web.shop" {
		t.Errorf("assigned %+v, want %+v", a, target)
	}
	request := timeline.Request{Target: 7, Seq: 1, Due: time.Second, Sent: time.Second, Done: time.Second + time.Millisecond}
	request.Class, request.Peer, request.Connect = timeline.Refused, 1, 300
	sent := Handed{Source: 3, Number: 0}
	want := []timeline.Fact{
		timeline.Sync{Source: 3, At: 5, Min: -1, Max: 2}, timeline.Backend{Source: 3, ID: 1, Name: "web-1"}, timeline.Peer{Source: 3, ID: 1},
		timeline.HeldBatch{Source: 3, FirstSeq: 4, Changes: []timeline.HeldChange{{
			Target: 8, Conn: 9, Kind: timeline.HeldCut, Class: timeline.Reset, From: time.Second, Answered: time.Second + time.Millisecond, At: 2 * time.Second,
			Warned: true, Stopped: true, Backend: 1, Peer: 1,
		}}},
		timeline.Batch{Source: 3, Requests: []timeline.Request{request}, Watermarks: []timeline.Watermark{{Target: 7, Due: time.Second}}},
		timeline.Event{Source: 3, Kind: timeline.TargetChanged, To: "measuring"},
	}
	for _, f := range want {
		sent.Add(f)
	}
	losing.Store(true)
	if over, err := client.Hand(t.Context(), sent); err != nil || over {
		t.Errorf("over %v, %v", over, err)
	}
	run.over.Store(true)
	if over, err := client.Hand(t.Context(), Handed{Source: 3, Number: 1, Last: true}); err != nil || !over {
		t.Errorf("over %v, %v: want it said that the run has ended", over, err)
	}
	if !reflect.DeepEqual(run.facts, want) || !run.last {
		t.Errorf("the last came: %v; %+v, want %+v", run.last, run.facts, want)
	}
}

// Nobody can state facts in another's name, and a run without a place for a prober outside says so.
func TestAProberOutsideStatesOnlyItsOwnFacts(t *testing.T) {
	run := &openRun{fakeRun: newFakeRun(t)}
	client := NewClient(dialTo(t, newHandler(run, nil), new(atomic.Bool)))
	defer client.Close()
	for _, f := range []timeline.Fact{timeline.Batch{Source: 1}, timeline.Event{}, timeline.Sync{Source: 2}, timeline.Peer{}, timeline.Backend{Source: 1}, timeline.HeldBatch{Source: 1}} {
		h := Handed{Source: 3}
		h.Add(f)
		if _, err := client.Hand(t.Context(), h); err == nil || !strings.Contains(err.Error(), "another source") {
			t.Errorf("%T: %v", f, err)
		}
	}
	if len(run.facts) > 0 {
		t.Errorf("taken: %+v", run.facts)
	}
	if _, err := client.Join(t.Context(), Joining{}); err == nil || !strings.Contains(err.Error(), "no place") {
		t.Errorf("joined: %v", err)
	}
	closed := NewClient(dialTo(t, newHandler(newFakeRun(t), nil), new(atomic.Bool)))
	defer closed.Close()
	if _, err := closed.Join(t.Context(), Joining{Name: "laptop"}); err == nil {
		t.Error("joined a run that has no such API")
	}
}
