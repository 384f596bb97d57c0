package measure

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/layer"
	"lapse/internal/record"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
	"lapse/timeline"
)

// What is answered, or times out, after the run's end is on record as soon as before it, and a signal still counts.
func TestLastAnswersAreOnRecordWhileOthersAreAwaited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, dir := idleLoop(t, Settings{Timeout: time.Hour})
		defer m.Live.End(nil)
		m.Add(timeline.Meta{T0: m.Clock.T0()})
		m.Add(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 10, Timeout: time.Hour})
		var probing sync.WaitGroup
		probing.Add(1) // one answer never comes
		signals, reason := make(chan os.Signal, 1), make(chan string, 1)
		go func() { reason <- m.awaitLast(&probing, probing.Done, signals, "") }()

		m.Queue.Put(timeline.Batch{Requests: []timeline.Request{{Target: 1, Outcome: timeline.Outcome{Class: timeline.TimeoutResponse}, Done: time.Second}}})
		time.Sleep(time.Second) // of virtual time
		synctest.Wait()
		tl, err := saved.Load(dir, correlate.Options{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := tl.Targets[0].Failed; got != 1 {
			t.Errorf("after a second %d failures are on record, not 1", got)
		}
		signals <- syscall.SIGTERM
		if got := <-reason; got != "stopped by SIGTERM"+notAwaited || !m.Signalled {
			t.Errorf("the run ended %q, signalled: %v", got, m.Signalled)
		}
	})
}

// The workstation's word that the run is over ends the wait for the last answers, but not when it is the word that
// ended it.
func TestAnOrderEndsTheWaitForTheLastAnswersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, _ := idleLoop(t, Settings{Timeout: time.Hour})
		defer m.Live.End(nil)
		var probing sync.WaitGroup
		probing.Add(1)
		m.Request(PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
		m.Request(PhaseRequest{Phase: timeline.PhaseEnded, Reason: "enough"})
		if got := m.awaitLast(&probing, probing.Done, nil, ""); got != "enough"+notAwaited {
			t.Errorf("the run ended %q", got)
		}
		probing.Add(1)
		m.Request(PhaseRequest{Phase: timeline.PhaseEnded, Reason: "enough"})
		time.AfterFunc(time.Minute, probing.Done)
		if got := m.awaitLast(&probing, probing.Done, nil, "enough"); got != "enough" || m.Clock.Now() < time.Minute {
			t.Errorf("the run ended %q after %v", got, m.Clock.Now())
		}
	})
}

// A target is called sick for what it did, not for what the prober did not.
func TestSickIsWhatTheTargetDid(t *testing.T) {
	for _, test := range []struct {
		name    string
		classes []timeline.Class
		want    string // "" if it is well
		unknown bool
		stall   time.Duration
	}{
		{"well", []timeline.Class{timeline.OK, timeline.OK, timeline.Refused}, "", false, 0},
		{"not sent, but for one that was answered", []timeline.Class{timeline.NotSent, timeline.NotSent, timeline.OK}, "", false, 0},
		{"failing, as far as it was asked", []timeline.Class{timeline.NotSent, timeline.NotSent, timeline.Refused}, "1 of 1 requests to new failed (refused)", false, 0},
		{"never asked", []timeline.Class{timeline.NotSent, timeline.Local}, "2 requests not sent", true, 0},
		{"never answering", nil, "gave no good answer", true, 0},
		{"never asked, for the prober was stopped", nil, "it was stopped for 1 h", true, time.Hour},
	} {
		m, _ := idleLoop(t, Settings{Baseline: time.Second})
		m.Add(timeline.Meta{T0: m.Clock.T0()})
		m.Add(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 10, Timeout: time.Second})
		for i, class := range test.classes {
			at := time.Duration(i) * 100 * time.Millisecond
			m.Add(timeline.Batch{Requests: []timeline.Request{{Target: 1, Seq: uint64(i), Due: at, Sent: at, Done: at + time.Millisecond, Outcome: timeline.Outcome{Class: class}}}})
		}
		if test.stall > 0 {
			m.Add(timeline.Event{Kind: timeline.ProberStall, Since: time.Millisecond, Seen: time.Millisecond + test.stall})
		}
		var got problem
		if problem := judgeBaseline(m); problem != nil {
			got = *problem
		}
		if (got.text == "") != (test.want == "") || !strings.Contains(got.text, test.want) || got.unknown != test.unknown {
			t.Errorf("%s: %+v, want %q", test.name, got, test.want)
		}
		m.Live.End(nil)
	}
}

// A baseline in which no request came to its end, for the prober was stopped, says nothing of the target: it goes on,
// but not forever.
func TestBaselineWaitsForAStoppedProber(t *testing.T) {
	layer.Real(t)
	const length = 20 * time.Millisecond
	m, _ := idleLoop(t, Settings{Baseline: length})
	defer m.Live.End(nil)
	m.longestStarved = 10 * length
	m.Add(timeline.Meta{T0: m.Clock.T0()})
	m.Add(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 10, Timeout: time.Second})
	m.Add(timeline.Event{Kind: timeline.ProberStall, Since: time.Millisecond, Seen: time.Hour})
	m.enter(timeline.PhaseBaseline, "")
	if reason := m.Phases(t.Context(), nil); !strings.HasPrefix(reason, "baseline inconclusive for new") {
		t.Errorf("the run ended: %q", reason)
	}
	if waited := m.Clock.Now(); waited < m.longestStarved {
		t.Errorf("it waited for %v", waited)
	}
}

// A prober that does not run cannot say that it was stopped either: not even its own control target was asked then.
func TestSilentControlTargetIsAStoppedProber(t *testing.T) {
	for _, test := range []struct {
		name    string
		rate    float64
		answers bool
		want    string
	}{
		{"nobody was asked", 1e6, false, "baseline inconclusive for new: within"},
		{"only the target did not answer", 1e6, true, "new gave no good answer"},
		{"no request to it was due", 1e-6, false, "new gave no good answer"},
	} {
		m, _ := idleLoop(t, Settings{Baseline: time.Second})
		m.Add(timeline.Meta{T0: m.Clock.T0()})
		m.Add(timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 10, Timeout: time.Second})
		m.Add(timeline.Target{ID: 2, Name: "control", Kind: timeline.Control, Rate: test.rate, Timeout: time.Second})
		if test.answers {
			m.Add(timeline.Batch{Requests: []timeline.Request{{Target: 2, Sent: 1, Done: 2, Outcome: timeline.Outcome{Class: timeline.OK}}}})
		}
		if problem := judgeBaseline(m); problem == nil || !strings.Contains(problem.text, test.want) || !problem.unknown || problem.starved == test.answers && test.rate > 1 {
			t.Errorf("%s: %+v, want %q", test.name, problem, test.want)
		}
		m.Live.End(nil)
	}
}

// idleLoop returns a run that was not begun, and the directory of its recording.
func idleLoop(t *testing.T, s Settings) (*Loop, string) {
	t.Helper()
	dir := t.TempDir()
	rec, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	m := NewLoop(s, slog.New(slog.DiscardHandler))
	m.Rec, m.Clock = &live.Recording{Writer: rec, Every: time.Second, Log: m.Log}, timeline.StartClock()
	m.Live = live.New(nil, m.Rec)
	return &m, dir
}

// A node's prober that gets no answers, where that of another node does, is told from a Service that is down.
func TestBaselineOfOneNodeAloneIsTold(t *testing.T) {
	cut := model.Target{Target: timeline.Target{Name: "new from node2", Service: "shop/web", Kind: timeline.New}, Node: "node2", Failed: 9, Sent: 9}
	for name, test := range map[string]struct {
		other model.Target
		want  bool
	}{
		"another node's answers":            {model.Target{Target: timeline.Target{Service: "shop/web", Kind: timeline.New}, Node: "node1", OK: 9, Sent: 9}, true},
		"another node's failures":           {model.Target{Target: timeline.Target{Service: "shop/web", Kind: timeline.New}, Node: "node1", OK: 1, Failed: 8, Sent: 9}, false},
		"another Service's answers":         {model.Target{Target: timeline.Target{Service: "shop/db", Kind: timeline.New}, Node: "node1", OK: 9, Sent: 9}, false},
		"another node's control's answers":  {model.Target{Target: timeline.Target{Service: "shop/web", Kind: timeline.Control}, Node: "node1", OK: 9, Sent: 9}, false},
		"the node's own persistent answers": {model.Target{Target: timeline.Target{Service: "shop/web", Kind: timeline.New}, Node: "node2", OK: 9, Sent: 9}, false},
	} {
		if got := answersElsewhere(&model.Timeline{Targets: []model.Target{cut, test.other}}, cut); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}
