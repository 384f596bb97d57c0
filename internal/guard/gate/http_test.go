package gate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// newGate returns a gate at a minute after t0, with a Service that has runs and another that is being disrupted.
func newGate(minute int) *Gate {
	g := New()
	g.Change((*Book).Listed)
	g.now = func() time.Time { return at(minute) }
	g.Change(func(b *Book) {
		for _, name := range []string{"shop/web", "shop/busy"} {
			b.Guard(name)
			b.Measured(name, at(0), "")
		}
		b.End("shop/web", rolledOut("r1", 1, 2, Pass, "good"))
		b.End("shop/web", rolledOut("r2", 3, 4, Fail, "bad"))
		b.End("shop/web", drained("r3", 5, 6, Inconclusive, "node1"))
		b.Begin("shop/busy", "r4", at(7))
	})
	return g
}

func get(g *Gate, query string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, Path+"?"+query, nil))
	return w
}

// A verdict is 200, doubt included; what is not known yet 425, or 200 for who takes 4xx for the end; the rest is told
// apart by its status.
func TestTheStatusSaysWhetherThereIsAVerdict(t *testing.T) {
	for _, test := range []struct {
		query  string
		status int
		body   string
	}{
		{"service=shop/web&hash=good", 200, `{"state":"pass","reason":"r1 pass","run":"r1","since":"2026-11-26T10:01:00Z"}`},
		{"service=shop/web&hash=bad", 200, `{"state":"fail","reason":"r2 fail","run":"r2","since":"2026-11-26T10:03:00Z"}`},
		{"service=shop/web&node=node1", 200, `{"state":"inconclusive","reason":"r3 inconclusive","run":"r3","since":"2026-11-26T10:05:00Z"}`},
		{"service=shop/web&run=r1", 200, `{"state":"pass","reason":"r1 pass","run":"r1","since":"2026-11-26T10:01:00Z"}`},
		{"service=shop/web&since=2026-11-26T10:00:00Z", 200, `{"state":"fail","reason":"r2 fail","run":"r2","since":"2026-11-26T10:03:00Z"}`},
		{"service=shop/web&hash=good&since=2026-11-26T12:00:00%2B02:00", 200, `{"state":"pass","reason":"r1 pass","run":"r1","since":"2026-11-26T10:01:00Z"}`},
		{"service=shop/busy&hash=new", 425, `{"state":"pending","reason":"the disruption is still being measured","run":"r4","since":"2026-11-26T10:07:00Z"}`},
		{"service=shop/busy&hash=new&pending=200", 200, `{"state":"pending","reason":"the disruption is still being measured","run":"r4","since":"2026-11-26T10:07:00Z"}`},
		{"service=shop/web&hash=new", 425, `{"state":"pending","reason":"no disruption of shop/web by template new was seen yet"}`},
		{"service=shop/api&hash=new", 404, "{\"error\":\"shop/api is not guarded here: annotate it with lapse/guard: \\\"on\\\", or see `lapse guard status`\"}"},
		{"service=shop/web&run=r9", 404, `{"error":"shop/web had no run r9, or it is forgotten"}`},
		{"service=web&hash=new", 400, `{"error":"service=web: must be NAMESPACE/NAME"}`},
		{"hash=new", 400, `{"error":"service=: must be NAMESPACE/NAME"}`},
		{"service=shop/web", 400, `{"error":"ask about a hash, a node, a run, or since when: the gate does not say how it is now"}`},
		{"service=shop/web&hash=a&node=b", 400, `{"error":"ask about one of hash, node and run; since goes with hash and node"}`},
		{"service=shop/web&run=a&since=2026-11-26T10:00:00Z", 400, `{"error":"ask about one of hash, node and run; since goes with hash and node"}`},
		{"service=shop/web&hash=", 400, `{"error":"hash= must have one value"}`},
		{"service=shop/web&hash=a&hash=b", 400, `{"error":"hash= must have one value"}`},
		{"service=shop/web&hsah=a", 400, `{"error":"hsah=a: known are service, hash, node, run, since, now, none, wait and pending"}`},
		{"service=shop/web&since=2026-11-26T10:09:00Z&none=pass", 200, `{"state":"pass","reason":"no disruption of shop/web since 2026-11-26T10:09:00Z"}`},
		{"service=shop/web&since=2026-11-26T10:09:00Z&none=fail", 400, `{"error":"none=fail: pass is all that it can be"}`},
		{"service=shop/web&hash=a&none=pass", 400, `{"error":"that no disruption passes goes with since, and without hash, node and run"}`},
		{"service=shop/web&hash=a&since=2026-11-26T10:09:00Z&none=pass", 400, `{"error":"that no disruption passes goes with since, and without hash, node and run"}`},
		{"service=shop/web&hash=a&pending=425", 400, `{"error":"pending=425: 200 is all that it can be"}`},
		{"service=shop/web&hash=a&wait=16s", 400, `{"error":"wait=16s: from 0s to 15s"}`},
		{"service=shop/web&hash=a&wait=long", 400, ""},
		{"service=shop/web&since=yesterday", 400, `{"error":"since=yesterday: must be a time such as 2026-11-26T10:15:00Z"}`},
		{"service=shop/web&since=2026-11-26T12:00:00+02:00", 400, `{"error":"since=2026-11-26T12:00:00 02:00: must be a time such as 2026-11-26T10:15:00Z; in a URL + is %2B"}`},
		{"service=shop/web&since=2026-11-26T10:09:00Z&hash=%zz", 400, `{"error":"invalid URL escape \"%zz\""}`},
		{"service=shop/web&since=2026-11-26T10:09:00Z&none=pass&hash=a;b", 400, `{"error":"invalid semicolon separator in query"}`},
		{"service=shop/web&since=2026-11-26T10:10:30Z&none=pass", 425, `{"state":"pending","reason":"since=2026-11-26T10:10:30Z is in the future: here it is 2026-11-26T10:10:00Z"}`},
		{"service=shop/web&since=2026-11-26T10:10:30Z&none=pass&now=2026-11-26T10:11:00Z", 200, `{"state":"pass","reason":"no disruption of shop/web since 2026-11-26T10:09:30Z"}`},
		{"service=shop/web&since=2026-11-26T10:07:30Z&none=pass&now=2026-11-26T10:11:30Z", 200, `{"state":"inconclusive","reason":"r3 inconclusive","run":"r3","since":"2026-11-26T10:05:00Z"}`},
		{"service=shop/web&since=2026-11-26T10:06:30Z&none=pass&now=2026-11-26T10:09:00Z", 200, `{"state":"pass","reason":"no disruption of shop/web since 2026-11-26T10:06:30Z"}`},
		{"service=shop/web&hash=good&now=2026-11-26T11:00:00Z", 200, `{"state":"pass","reason":"r1 pass","run":"r1","since":"2026-11-26T10:01:00Z"}`},
		{"service=shop/web&hash=good&now=noon", 400, `{"error":"now=noon: must be a time such as 2026-11-26T10:15:00Z"}`},
		{"service=shop/web&since=2026-11-26T10:12:00Z", 400, `{"error":"since=2026-11-26T10:12:00Z is in the future: here it is 2026-11-26T10:10:00Z"}`},
	} {
		w := get(newGate(10), test.query)
		body := strings.TrimSpace(w.Body.String())
		if w.Code != test.status || test.body != "" && body != test.body {
			t.Errorf("%s: %d %s\nwant %d %s", test.query, w.Code, body, test.status, test.body)
		}
		if after := w.Header().Get("Retry-After"); (after != "") != (w.Code == 425) {
			t.Errorf("%s: Retry-After %q", test.query, after)
		}
		if !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %q is no JSON", test.query, body)
		}
	}
	w := httptest.NewRecorder()
	newGate(10).ServeHTTP(w, httptest.NewRequest(http.MethodPost, Path+"?service=shop/web&hash=good", nil))
	if w.Code != http.StatusMethodNotAllowed {
		t.Errorf("POST: %d", w.Code)
	}
}

// Argo Rollouts and Flagger keep 1 kB of an answer.
func TestAnAnswerIsShort(t *testing.T) {
	g := newGate(10)
	long := rolledOut("r5", 8, 9, Fail, "new")
	long.Reason = strings.Repeat(`"°<`, 2000)
	g.Change(func(b *Book) { b.End("shop/web", long) })
	for _, query := range []string{"service=shop/web&hash=new", "service=shop/web&hash=" + strings.Repeat("a", 4000), "service=" + strings.Repeat("a", 4000) + "&hash=a"} {
		w := get(g, query)
		if w.Body.Len() > 1000 || !json.Valid(w.Body.Bytes()) {
			t.Errorf("%.40s: %d bytes", query, w.Body.Len())
		}
	}
}

// A thousand questions may come at once. Those that are too many to wait are answered at once.
func TestNotAllQuestionsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		began, waited := time.Now(), make(chan time.Duration)
		for range 1000 {
			go func() {
				w := get(g, "service=shop/busy&hash=new&wait=15s")
				if w.Code != 425 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
				waited <- time.Since(began)
			}()
		}
		long := 0
		for range 1000 {
			if <-waited > 0 {
				long++
			}
		}
		if long != MostWaiting {
			t.Errorf("%d have waited", long)
		}
		get(g, "service=shop/busy&hash=new&wait=1s")
		if time.Since(began) != 16*time.Second {
			t.Errorf("the next one has waited %v", time.Since(began)-15*time.Second)
		}
	})
}

// A question waits for the end of the disruption, and no longer than it says.
func TestAQuestionWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		began := time.Now()
		if w := get(g, "service=shop/busy&hash=new&wait=15s"); w.Code != 425 || time.Since(began) != 15*time.Second {
			t.Errorf("%d after %v", w.Code, time.Since(began))
		}
		began = time.Now()
		go func() {
			time.Sleep(3 * time.Second) // of virtual time
			g.Change(func(b *Book) { b.Guard("shop/new") })
			time.Sleep(time.Second)
			g.Change(func(b *Book) { b.End("shop/busy", rolledOut("r4", 7, 10, Pass, "new")) })
		}()
		if w := get(g, "service=shop/busy&hash=new&wait=15s"); w.Code != 200 || time.Since(began) != 4*time.Second {
			t.Errorf("%d after %v: %s", w.Code, time.Since(began), w.Body)
		}
	})
}

// client returns a client of g without a network.
func client(g http.Handler) Client {
	return Client{Address: "http://guard:7117/", Do: func(r *http.Request) (*http.Response, error) {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequest(r.Method, r.URL.RequestURI(), nil).WithContext(r.Context()))
		return w.Result(), nil
	}}
}

// The client waits longer than one question may, and then says what it knows.
func TestAClientAsksUntilThereIsAVerdict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate(10)
		go func() {
			time.Sleep(100 * time.Second) // of virtual time
			g.Change(func(b *Book) { b.End("shop/busy", rolledOut("r4", 7, 10, Fail, "new")) })
		}()
		began := time.Now()
		a, err := client(g).Await(t.Context(), Query{Service: "shop/busy", Hash: "new"}, 10*time.Minute)
		if err != nil || a.State != Fail || time.Since(began) > 102*time.Second {
			t.Errorf("%+v %v after %v", a, err, time.Since(began))
		}
		began = time.Now()
		a, err = client(g).Await(t.Context(), Query{Service: "shop/busy", Hash: "other"}, time.Minute)
		if err != nil || a.State != Pending || time.Since(began) != time.Minute {
			t.Errorf("%+v %v after %v", a, err, time.Since(began))
		}
	})
}

// A pipeline notes when its rollout begins, by a clock that is ahead. The failure of that rollout is not over before
// that.
func TestAClientWhoseClockIsAheadMissesNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := New()
		g.now = func() time.Time { return time.Now().Add(-30 * time.Second) }
		g.Change(func(b *Book) {
			b.Guard("shop/web")
			b.Measured("shop/web", g.now(), "")
		})
		time.Sleep(time.Second) // of virtual time
		asked, began := Query{Service: "shop/web", Since: time.Now(), NonePasses: true}, g.now()
		a, err := client(g).Await(t.Context(), asked, 0)
		if err != nil || a.State != Pass {
			t.Errorf("before it begins: %+v %v", a, err)
		}
		g.Change(func(b *Book) {
			b.End("shop/web", Run{ID: "r1", Began: began, Changed: began.Add(25 * time.Second), Verdict: Fail})
		})
		time.Sleep(time.Minute)
		if a, err := client(g).Await(t.Context(), asked, 0); err != nil || a.State != Fail {
			t.Errorf("%+v %v", a, err)
		}
	})
}

// A gate that is not there, or answers something else, leaves the question open. A bad question is refused at once.
func TestAClientTellsDoubtFromABadQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refusing := client(nil)
		refusing.Do = func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") }
		began := time.Now()
		a, err := refusing.Await(t.Context(), Query{Service: "shop/web", Hash: "new"}, time.Minute)
		if err != nil || a.State != Inconclusive || !strings.Contains(a.Reason, "connection refused") || time.Since(began) != time.Minute {
			t.Errorf("%+v %v after %v", a, err, time.Since(began))
		}
		refusing.Do = func(*http.Request) (*http.Response, error) {
			return nil, fmt.Errorf("look for the guard: %w", os.ErrPermission)
		}
		refusing.Refuses = func(err error) bool { return errors.Is(err, os.ErrPermission) }
		if _, err := refusing.Await(t.Context(), Query{Service: "shop/web", Hash: "new"}, time.Minute); !errors.As(err, new(*RefusedError)) {
			t.Errorf("without a right: %v", err)
		}
		page := client(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>welcome")) }))
		if a, err := page.Await(t.Context(), Query{Service: "shop/web", Hash: "new"}, 0); err != nil || a.State != Inconclusive {
			t.Errorf("%+v %v", a, err)
		}
		for _, q := range []Query{{Service: "shop/api", Hash: "new"}, {Service: "web", Hash: "new"}, {Service: "shop/web"}} {
			if _, err := client(newGate(10)).Await(t.Context(), q, time.Minute); !errors.As(err, new(*RefusedError)) {
				t.Errorf("%+v: %v", q, err)
			}
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := client(newGate(10)).Await(ctx, Query{Service: "shop/busy", Hash: "new"}, time.Minute); !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
	})
}
