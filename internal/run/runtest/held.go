package runtest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/internal/report"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// A HeldRun is a run in a Pod that a test drives by hand. A workstation that changes it fails the test.
type HeldRun struct {
	t     *testing.T
	Dir   string
	Rec   *record.Writer
	clock timeline.Clock

	mu    sync.Mutex
	phase timeline.Phase
}

// NewHeldRun returns a run that measures. It has no requests yet.
func NewHeldRun(t *testing.T) *HeldRun {
	t.Helper()
	dir := t.TempDir()
	rec, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rec.Close() }) // End may have closed it
	r := &HeldRun{t: t, Dir: dir, Rec: rec, clock: timeline.StartClock(), phase: "measuring"}
	r.append(
		timeline.Meta{ID: "x7k2p", T0: r.clock.T0(), URLs: []string{"http://web/"}, Options: timeline.Options{
			Rate: 100, Timeout: 800 * time.Millisecond, Join: time.Second, Slow: time.Second,
			Gates: []string{"failed>0"},
		}},
		timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 100},
		timeline.Event{ID: 1, Kind: timeline.RunPhase, To: "measuring"},
	)
	return r
}

func (r *HeldRun) append(facts ...timeline.Fact) {
	r.t.Helper()
	for _, f := range facts {
		if err := r.Rec.Append(f); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.Rec.Flush(); err != nil {
		r.t.Fatal(err)
	}
}

// Requests records the requests from..to, one every 10 ms. The middle third fails.
func (r *HeldRun) Requests(from, to int) {
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

// Enter changes the phase that the run says it is in.
func (r *HeldRun) Enter(phase timeline.Phase) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.phase = phase
}

// End ends the run after n requests.
func (r *HeldRun) End(n int) {
	at := time.Duration(n) * 10 * time.Millisecond
	ended := timeline.PhaseChange(at, timeline.PhaseMeasuring, timeline.PhaseEnded, "")
	ended.ID = 2
	r.append(ended)
	if err := r.Rec.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.Enter(timeline.PhaseEnded)
}

func (r *HeldRun) Status() agent.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return agent.Status{ID: "x7k2p", Phase: r.phase, Now: r.clock.Now(), Size: r.Rec.Size(), SHA256: r.Rec.Sum()}
}

func (r *HeldRun) Now() time.Duration { return r.clock.Now() }

func (r *HeldRun) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return r.Rec.Tail(ctx, offset)
}

func (r *HeldRun) refuse(what string) error {
	r.t.Errorf("an onlooker told the run: %s", what)
	return errors.New("no")
}

func (r *HeldRun) SignOfLife() { _ = r.refuse("sign of life") }

func (r *HeldRun) Event(timeline.Event) error { return r.refuse("event") }

func (r *HeldRun) Settle(string) error { return r.refuse("settle") }

func (r *HeldRun) Abort(string) error { return r.refuse("abort") }

func (r *HeldRun) Ack(record.Receipt) error { return r.refuse("ack") }

// Serve serves the run's API, and returns clients of it that may only ask.
func (r *HeldRun) Serve() func() *agent.Client {
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

// Logged returns the log of a Pod that has measured this number of requests.
func Logged(t *testing.T, requests int) []byte {
	t.Helper()
	run := NewHeldRun(t)
	run.Requests(0, requests)
	run.End(requests)
	tl, err := saved.Load(run.Dir, correlate.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	asJSON := func(w io.Writer) error { return report.JSON(w, tl, report.Options{}) }
	if err := deploy.WriteTimeline(&log, asJSON); err != nil {
		t.Fatal(err)
	}
	return log.Bytes()
}
