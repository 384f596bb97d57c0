package coordinator

import (
	"context"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/internal/run/live"
	"lapse/internal/run/runtest"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// Done: the service stalls for 2 s. A naive, closed loop asks it once per connection meanwhile, and has one slow
// answer to show for it. Lapse, at any rate and on new and kept connections alike: down, and no part of it
// unobserved, unless the prober itself was stopped.
func TestTruthOfAStallAtManyRates(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	from, to := 500*time.Millisecond, 2500*time.Millisecond
	clock := timeline.StartClock()
	server, err := faultserver.Start(faultserver.Config{T0: clock.T0(), Faults: []faultserver.Fault{{Kind: faultserver.Stall, From: from, To: to}}})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	tracker := correlate.NewTracker(correlate.Options{})
	add := func(f timeline.Fact) {
		mu.Lock()
		defer mu.Unlock()
		tracker.Add(f)
	}
	add(timeline.Meta{T0: clock.T0(), Options: timeline.Options{Join: time.Second, Slow: 500 * time.Millisecond, Timeout: 400 * time.Millisecond}})
	prober := loadgen.New(loadgen.Config{Clock: clock, Sink: add})
	id := timeline.TargetID(0)
	for _, rate := range []float64{10, 100, 500} {
		for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
			id++
			target := timeline.Target{ID: id, Name: fmt.Sprint(kind, " ", rate), Kind: kind, URL: server.URL(), Rate: rate, Timeout: 400 * time.Millisecond}
			add(target)
			if err := prober.Start(loadgen.Probe{Target: target}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), to+500*time.Millisecond)
	defer cancel()
	if err := prober.Run(ctx); err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	add(timeline.Event{Seen: to + 500*time.Millisecond, Kind: timeline.RunPhase, To: string(timeline.PhaseEnded)})
	tl := tracker.Timeline()

	for _, target := range tl.Targets {
		interval := time.Duration(float64(time.Second) / target.Rate)
		unobserved := time.Duration(0)
		for _, u := range tl.Unobserved {
			if u.Target == target.Name && u.Reason != "prober stalled" && !beside(tl.Events, u) {
				unobserved += max(0, min(u.End, to)-max(u.Start, from))
			}
		}
		if unobserved > 0 {
			t.Errorf("%s: %v of the stall are unobserved, though the prober ran: %v", target.Name, unobserved, target.Classes)
		}
		// A stall ends for those who ask within the timeout before its end.
		due := int((to - max(from, target.Measured.Earliest) - 400*time.Millisecond) / interval)
		// Where the prober was late all its connections may be waiting.
		failed := target.Classes[timeline.TimeoutResponse.String()] + target.Classes[timeline.NoSlot.String()]
		if asked := target.Failed + target.NotSent; asked < due-1 || target.Failed != failed {
			t.Errorf("%s: %v, at least %d were due in the stall", target.Name, target.Classes, due)
		}
		t.Logf("%s: %v, coverage %.3f", target.Name, target.Classes, target.Coverage)
	}
}

// beside reports whether the prober was stopped around an unobserved time.
func beside(events []model.Event, u model.Unobserved) bool {
	for _, e := range events {
		if e.Kind == timeline.ProberStall && e.At.Earliest <= u.End && u.Start <= e.At.Latest {
			return true
		}
	}
	return false
}

// The whole pipeline at once, for the race detector: several targets over real sockets, faults, the recording, the
// live judgement and the page it is shown on, and direct targets that start, change their rate and stop.
func TestTruthOfTheWholePipelineAtOnce(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := runtest.StartServer(t, faultserver.Fault{Kind: faultserver.Reset, To: time.Hour, Every: 7})
	m := newMeasurement(&spec.Options{Spec: spec.Spec{
		Rate: 100, Timeout: 400 * time.Millisecond, Kinds: []string{"new", "reused"}, Duration: time.Second, Baseline: 300 * time.Millisecond, Connections: 3,
	}}, terminal.NewLogger(t.Output()))
	m.Clock = timeline.StartClock()
	at, err := spec.ParseTarget(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	m.opts.Parsed = []spec.Target{at}
	dir := t.TempDir()
	file, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	m.Rec = &live.Recording{Writer: file, Every: time.Second, Log: m.log}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	page, err := screen.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	shown, closePage := page.Serve(ctx, t.Output())
	m.Live = live.New(nil, screen.Observers(screen.New(t.Output(), time.Second), shown, m.Rec)...)
	var beside sync.WaitGroup
	m.Entered = func(phase timeline.Phase, _ string) {
		if phase != timeline.PhaseBaseline {
			return
		}
		beside.Go(func() {
			direct := timeline.Target{ID: 90, Name: "direct", Kind: timeline.Direct, URL: server.URL(), Addr: server.Addr(), Rate: 50, Timeout: time.Second}
			m.Queue.Put(direct)
			if _, err := m.Prober.Start(loadgen.Probe{Target: direct}); err != nil {
				t.Error(err)
			}
			for rate := 100.0; rate <= 400; rate += 100 {
				time.Sleep(100 * time.Millisecond)
				m.Prober.SetRate(90, rate)
			}
			m.Prober.Stop(90)
		})
	}
	tl, err := m.run(ctx, nil)
	beside.Wait()
	m.Live.End(tl)
	closePage()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	failed, missed := 0, 0
	for _, target := range tl.Targets {
		if target.Kind != timeline.Control {
			failed += target.Classes[timeline.Reset.String()]
			missed += target.Classes[timeline.Local.String()] + target.Classes[timeline.TimeoutResponse.String()]
		}
	}
	if met := server.Count(faultserver.Reset); failed > met || met > failed+missed || met == 0 { // a busy machine reads some too late
		t.Errorf("%d requests were reset, the server counts %d, and the end of %d was not seen", failed, met, missed)
	}
	saved, err := saved.Load(dir, correlate.Options{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if saved.Verdict.Sent != tl.Verdict.Sent || saved.Verdict.Failed != tl.Verdict.Failed {
		t.Errorf("%d of %d failed, the recording says %d of %d", tl.Verdict.Failed, tl.Verdict.Sent, saved.Verdict.Failed, saved.Verdict.Sent)
	}
}
