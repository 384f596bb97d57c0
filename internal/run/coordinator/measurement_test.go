package coordinator

import (
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/internal/record"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/timeline"
)

// Of two signals, the first ends the run and the second the wait for its last answers.
func TestTheSecondSignalEndsARunAtOnce(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts for it
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	at, err := spec.ParseTarget("http://" + silent.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	const timeout = 30 * time.Second
	m, _ := idleMeasurement(t, &spec.Options{Parsed: []spec.Target{at}, Spec: spec.Spec{
		Rate: 100, Timeout: timeout, Kinds: []string{"new", "reused"}, Baseline: time.Second, Duration: time.Second, Connections: 1,
	}})
	defer m.Live.End(nil)
	signals := make(chan os.Signal, 2)
	signals <- syscall.SIGINT
	signals <- syscall.SIGINT
	tl, err := m.run(t.Context(), signals)
	if err != nil {
		t.Fatal(err)
	}
	if took := m.Clock.Now(); took > timeout/2 {
		t.Errorf("it ran for %v", took)
	}
	if !strings.HasPrefix(tl.Run.Aborted, "stopped by SIGINT") || tl.Verdict.ExitCode != 6 {
		t.Errorf("aborted: %q, exit code %d", tl.Run.Aborted, tl.Verdict.ExitCode)
	}
}

// idleMeasurement returns a measurement that was not begun, and the directory of its recording.
func idleMeasurement(t *testing.T, o *spec.Options) (*measurement, string) {
	t.Helper()
	dir := t.TempDir()
	rec, err := record.Create(filepath.Join(dir, saved.FactsFile))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { rec.Close() })
	m := newMeasurement(o, terminal.NewLogger(io.Discard))
	m.Rec, m.Clock = &live.Recording{Writer: rec, Every: time.Second, Log: m.log}, timeline.StartClock()
	m.Live = live.New(nil, screen.Observers(screen.New(io.Discard, 0), nil, m.Rec)...)
	return m, dir
}

// How long each node takes for its first requests, and how a message says at which rate it sends them.
func TestTheBaselineKnowsTheRateOfEachNode(t *testing.T) {
	for _, test := range []struct {
		asked spec.Spec
		first time.Duration
		said  string
	}{
		{spec.Spec{Rate: 200}, 0, "--rate 200"},
		{spec.Spec{Rate: 200, Probers: []string{"node1", "node2"}}, 20 * time.Millisecond, "--rate 200 shared by 2 nodes"},
		{spec.Spec{NodeRate: 500, Probers: []string{"node1", "node2"}}, 4 * time.Millisecond, "--rate 500 from each of 2 nodes"},
	} {
		if s := settingsOf(&spec.Options{Spec: test.asked}); s.FirstAsked != test.first || s.AskedAt != test.said {
			t.Errorf("two requests take %v at %q, want %v at %q", s.FirstAsked, s.AskedAt, test.first, test.said)
		}
	}
}
