package coordinator

import (
	"context"
	"log/slog"
	"net"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/deploy/agent"
	"lapse/internal/layer"
	"lapse/internal/run/measure"
	"lapse/internal/run/prober"
	"lapse/internal/run/runtest"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
	"lapse/watcher"
)

// A workstation measures for a run in a Job.
type workstation struct {
	opts   *spec.Options
	client *agent.Client
}

func (w *workstation) join(ctx context.Context) (*prober.Outside, error) {
	return prober.JoinOutside(ctx, w.client, timeline.StartClock(), w.opts, slog.New(slog.DiscardHandler))
}

// outsideRun returns a run in a Job that measures a server, and a workstation that reaches it by another way. The way
// to the Job can be cut.
func outsideRun(t *testing.T, server *faultserver.Server) (m *measurement, w *workstation, cut func()) {
	t.Helper()
	asked := spec.Spec{
		Targets: []string{server.URL()}, Rate: 100, Timeout: 5 * time.Second, Kinds: []string{"new"}, Baseline: 100 * time.Millisecond, Duration: runtest.Patience,
		Connections: 1, Method: "GET", Scheme: "http", Pacing: "economical", Coverage: "99%", MaxDuration: time.Hour, Hold: time.Minute, Join: time.Second, Outside: true,
	}
	target, err := spec.ParseTarget(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	m, _ = idleMeasurement(t, &spec.Options{Spec: asked, ID: "lapse-x", Parsed: []spec.Target{target}})
	api := httptest.NewServer(agent.NewServer(&jobRun{m: m, Delivery: source.NewDelivery(m.Rec)}, nil).Handler)
	t.Cleanup(api.Close)
	at := netip.MustParseAddrPort(strings.TrimSuffix(strings.TrimPrefix(server.URL(), "http://"), "/"))
	web := spec.Target{Service: "web", Path: "/"}
	info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web"}, Ways: []watcher.Way{{Route: "nodeport", At: "node2", Node: "node2", Host: at.Addr().String(), Port: int32(at.Port())}}}
	o := &spec.Options{Spec: asked, Parsed: []spec.Target{web}, FromHere: []spec.Service{{Target: web, Info: info, Measured: true}}}
	w = &workstation{opts: o, client: agent.NewClient(func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", api.Listener.Addr().String())
	})}
	t.Cleanup(w.client.Close)
	return m, w, func() { api.CloseClientConnections(); api.Listener.Close() }
}

// The workstation measures on its own clock, and what it measured is on the run's timeline and in its recording: the
// same outage is a window of each, at the same time.
func TestTheWorkstationMeasuresBesideTheJob(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	m, w, _ := outsideRun(t, server)
	outageSeenByTwo(m, server)
	tl := runWith(t, m, w)
	if tl.Run.Aborted != "" || len(tl.Sources) != 2 || tl.Sources[1].Role != timeline.Workstation || tl.Sources[1].Clock == nil {
		t.Fatalf("aborted %q, sources %+v: want the Job and a workstation with a clock of its own", tl.Run.Aborted, tl.Sources)
	}
	out := targetNamed(t, tl, "web nodeport node2 new from outside")
	if out.Failed == 0 || out.RouteNode != "node2" || out.Node != "" || out.Source != tl.Sources[1].Name || out.Measured.Latest < tl.Run.Duration-2*time.Second {
		t.Errorf("measured from outside to the end, of %v: %+v", tl.Run.Duration, out)
	}
	if control := targetNamed(t, tl, "control from outside"); control.OK == 0 {
		t.Error("the workstation has no control target")
	}
	spans := map[string]model.Instant{}
	for _, w := range tl.Windows {
		spans[w.Target] = w.Span()
	}
	if len(spans) != 2 || !spans["new"].Overlaps(spans[out.Name]) {
		t.Errorf("windows %v: want the same outage of both, at one time", spans)
	}
}

// runWith runs m while the workstation measures as well.
func runWith(t *testing.T, m *measurement, w *workstation) *model.Timeline {
	t.Helper()
	var joining sync.WaitGroup
	joining.Go(func() {
		p, err := w.join(t.Context())
		if err != nil {
			t.Error(err)
			m.Request(measure.PhaseRequest{Phase: timeline.PhaseEnded, Reason: "nobody joined"})
			return
		}
		ctx, leave := context.WithCancel(context.Background())
		var measuring sync.WaitGroup
		measuring.Go(func() { p.Run(ctx) })
		t.Cleanup(func() { leave(); measuring.Wait() })
	})
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
	joining.Wait()
	if err != nil {
		t.Fatal(err)
	}
	return tl
}

// What becomes of the connections that the workstation holds is on the run's timeline.
func TestConnectionsAreHeldFromOutside(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	m, w, _ := outsideRun(t, server)
	w.opts.Kinds, w.opts.Held, w.opts.Heartbeat = []string{"new", "held"}, 4, time.Second
	stand, lost := 0, 0
	m.Live.Observers = append(m.Live.Observers, factObserver(func(f timeline.Fact) {
		b, _ := f.(timeline.HeldBatch)
		for _, c := range b.Changes {
			switch {
			case c.Kind == timeline.HeldOpened && lost == 0:
				if stand++; stand == 4 {
					server.Cut(faultserver.Reset, 1)
				}
			case c.Kind == timeline.HeldCut:
				if lost++; lost == 4 {
					m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
				}
			}
		}
	}))
	tl := runWith(t, m, w)
	if len(tl.Held) != 1 || tl.Held[0].Stood != 4 || tl.Held[0].Cut != 4 {
		t.Errorf("held: %+v", tl.Held)
	}
}

// Where the workstation is lost, the run ends in time, and what it had not handed over is unobserved, never down.
func TestALostWorkstationIsUnobserved(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	m, w, cut := outsideRun(t, server)
	m.opts.Timeout = 5 * time.Second // longer than this machine stands still
	sever := sync.OnceFunc(cut)
	var severed time.Duration
	m.Live.Observers = append(m.Live.Observers, factObserver(func(f timeline.Fact) {
		switch f := f.(type) {
		case timeline.Batch:
			answered := func(r timeline.Request) bool {
				return r.Class == timeline.OK && m.Targets[r.Target].Kind == timeline.New
			}
			if f.Source == 2 && severed == 0 && slices.ContainsFunc(f.Requests, answered) {
				severed = m.Clock.Now()
				sever()
			}
			if severed > 0 && f.Source == 1 && len(f.Requests) > 0 && f.Requests[len(f.Requests)-1].Done > severed+2*time.Second {
				m.outside.abandon() // nobody waits for the rest: it cannot come
				m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
			}
		}
	}))
	tl := runWith(t, m, w)
	out := targetNamed(t, tl, "web nodeport node2 new from outside")
	if out.Failed != 0 || out.OK == 0 || out.Coverage > 0.8 || len(tl.Windows) != 0 {
		t.Errorf("target %+v, windows %+v: want what was not handed over unobserved", out, tl.Windows)
	}
}

// A run that was not to be measured from outside takes nobody in.
func TestARunWithoutAPlaceOutsideTakesNobodyIn(t *testing.T) {
	a := idleAgent(t, &spec.Options{Spec: spec.Spec{Hold: time.Minute}})
	defer a.m.Live.End(nil)
	if _, err := a.Join(agent.Joining{Name: "laptop"}); err == nil {
		t.Error("somebody joined")
	}
	if _, err := a.Take(agent.Handed{}); err == nil {
		t.Error("facts of nobody were taken")
	}
}

// --pacing is the run's: it holds at each place that measures.
func TestTheWorkstationKeepsTheRunsPacing(t *testing.T) {
	server := runtest.StartServer(t)
	defer server.Close()
	m, w, _ := outsideRun(t, server)
	w.opts.Pacing = string(loadgen.Precise)
	m.Targets = map[timeline.TargetID]timeline.Target{}
	var joining sync.WaitGroup
	joining.Go(func() { (<-m.Calls)() })
	defer joining.Wait()
	p, err := w.join(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	if p.Pacing != loadgen.Precise {
		t.Errorf("it is paced %q", p.Pacing)
	}
}
