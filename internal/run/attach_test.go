package run

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

var watchedRun = &deploy.Run{Namespace: "shop", Name: "lapse-x7k2p"}

// A heldRun is a run in a Pod, which a test drives by hand. Whatever a workstation tells it fails the test.
type heldRun struct {
	t     *testing.T
	dir   string
	rec   *record.Writer
	clock timeline.Clock

	mu    sync.Mutex
	phase timeline.Phase
}

func newHeldRun(t *testing.T) *heldRun {
	t.Helper()
	dir := t.TempDir()
	rec, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	r := &heldRun{t: t, dir: dir, rec: rec, clock: timeline.StartClock(), phase: "measuring"}
	r.append(
		timeline.Meta{ID: "x7k2p", T0: r.clock.T0(), URLs: []string{"http://web/"}, Options: timeline.Options{
			Rate: 100, Timeout: 800 * time.Millisecond, Join: time.Second, Slow: time.Second, Gates: []string{"failed>0"},
		}},
		timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 100},
		timeline.Event{ID: 1, Kind: timeline.RunPhase, To: "measuring"},
	)
	return r
}

func (r *heldRun) append(facts ...timeline.Fact) {
	r.t.Helper()
	for _, f := range facts {
		if err := r.rec.Append(f); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.rec.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// requests records requests from..to, one each 10 ms, of which those in the middle third fail.
func (r *heldRun) requests(from, to int) {
	batch := timeline.Batch{FirstSeq: uint64(from)}
	for i := from; i < to; i++ {
		due := time.Duration(i) * 10 * time.Millisecond
		q := timeline.Request{Target: 1, Seq: uint64(i), Due: due, Sent: due, Done: due + time.Millisecond}
		if third := (to - from) / 3; i >= from+third && i < from+2*third {
			q.Class = timeline.Refused
		}
		batch.Requests = append(batch.Requests, q)
	}
	r.append(batch)
}

// end ends the run after n requests.
func (r *heldRun) end(n int) {
	r.append(timeline.Event{ID: 2, Seen: time.Duration(n) * 10 * time.Millisecond, Kind: timeline.RunPhase, From: "measuring", To: string(timeline.PhaseEnded)})
	if err := r.rec.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = timeline.PhaseEnded
}

func (r *heldRun) Status() agent.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return agent.Status{ID: "x7k2p", Phase: r.phase, Now: r.clock.Now(), Size: r.rec.Size(), SHA256: r.rec.Sum()}
}

func (r *heldRun) Now() time.Duration { return r.clock.Now() }

func (r *heldRun) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return r.rec.Tail(ctx, offset)
}

func (r *heldRun) refuse(what string) error {
	r.t.Errorf("an onlooker told the run: %s", what)
	return errors.New("no")
}

func (r *heldRun) SignOfLife()                { r.refuse("sign of life") }
func (r *heldRun) Event(timeline.Event) error { return r.refuse("event") }
func (r *heldRun) Settle(string) error        { return r.refuse("settle") }
func (r *heldRun) Abort(string) error         { return r.refuse("abort") }
func (r *heldRun) Ack(record.Receipt) error   { return r.refuse("ack") }

// serve serves the run's API, and returns clients of it that may only ask.
func (r *heldRun) serve() func() *agent.Client {
	api := agent.NewServer(r, nil).Handler
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if q.Method != http.MethodGet {
			r.t.Errorf("an onlooker sent %s %s", q.Method, q.URL)
		}
		api.ServeHTTP(w, q)
	}))
	r.t.Cleanup(func() { server.CloseClientConnections(); server.Close() })
	return func() *agent.Client {
		client := agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, "tcp", server.Listener.Addr().String())
		})
		r.t.Cleanup(client.Close)
		return client
	}
}

// A watch is one `lapse attach` under way.
type watch struct {
	url    string
	stop   context.CancelFunc
	result chan error
	stdout bytes.Buffer
}

func startWatch(t *testing.T, client *agent.Client) *watch {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	w := &watch{stop: cancel, result: make(chan error, 1)}
	talk, stderr := io.Pipe()
	go func() {
		w.result <- Attach(ctx, client, watchedRun, "127.0.0.1:0", &w.stdout, stderr)
		stderr.Close()
	}()
	t.Cleanup(cancel)
	line := make([]byte, 200)
	n, err := talk.Read(line)
	if err != nil {
		t.Fatalf("no page: %v, %v", err, <-w.result)
	}
	go io.Copy(io.Discard, talk)
	w.url = strings.TrimSpace(strings.TrimPrefix(string(line[:n]), "page: "))
	return w
}

// entries are the keys of what the page shows that begin with prefix.
func (w *watch) entries(t *testing.T, prefix string) []string {
	t.Helper()
	response, err := http.Get(w.url + "api/v1/snapshot")
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	var snapshot struct{ Entries map[string]json.RawMessage }
	if err := json.NewDecoder(response.Body).Decode(&snapshot); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for key := range snapshot.Entries {
		if strings.HasPrefix(key, prefix) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// see waits until the page shows a window.
func (w *watch) see(t *testing.T) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for len(w.entries(t, "window/")) == 0 {
		if time.Now().After(deadline) {
			t.Fatal("the page shows no window")
		}
	}
}

func TestSeveralMayWatchARunAndNoneChangesIt(t *testing.T) {
	layer.Real(t)
	run := newHeldRun(t)
	agents := run.serve()
	first, second := startWatch(t, agents()), startWatch(t, agents())
	if seen := first.entries(t, "window/"); len(seen) != 0 {
		t.Errorf("windows %q before anything failed", seen)
	}
	run.requests(0, 90)
	first.see(t)
	second.see(t)

	second.stop() // one has seen enough; the other goes on
	if err := <-second.result; err != nil || second.stdout.Len() > 0 {
		t.Errorf("an interrupted onlooker ended with %v and %q", err, second.stdout.String())
	}
	run.requests(90, 120)
	run.end(120)
	if err := <-first.result; err != nil {
		t.Errorf("after the run's end: %v", err)
	}
	if out := first.stdout.String(); !strings.Contains(out, "FAIL") || !strings.Contains(out, "failed > 0") {
		t.Errorf("the summary reads\n%s", out)
	}

	// The result is still there, and there is nothing more to watch.
	err := Attach(t.Context(), agents(), watchedRun, "127.0.0.1:0", io.Discard, io.Discard)
	if _, usage := errors.AsType[exit.UsageError](err); usage || !strings.Contains(hint.Of(err), "`lapse retrieve -n shop lapse-x7k2p`") {
		t.Errorf("an ended run: %v, hint %q, usage error: %v", err, hint.Of(err), usage)
	}
}

func TestAPageThatCannotBeServedIsRefused(t *testing.T) {
	run := newHeldRun(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	err = Attach(t.Context(), run.serve()(), watchedRun, taken.Addr().String(), io.Discard, io.Discard)
	if _, ok := errors.AsType[exit.UsageError](err); !ok || !strings.Contains(hint.Of(err), "another --dashboard") {
		t.Errorf("an address that is taken: %v", err)
	}
}
