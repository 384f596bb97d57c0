package integration

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A prober that is stopped for longer than the timeout has seen nothing meanwhile, and says so; that its own requests
// had no answer in time says nothing of the service. Answers take 30 ms, so that some are under way when it is
// stopped.
func TestTruthOfAStoppedProber(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	server := runtest.StartServer(t, faultserver.Fault{Kind: faultserver.Slow, To: time.Hour, Delay: 30 * time.Millisecond})
	p, release := startHeld(t, server.URL(), "--rate=200", "--baseline=0", "--fail-if=failed>0")
	runtest.WaitFor(t, "200 answers", func() bool { return server.Answered() >= 200 })
	p.signal(t, syscall.SIGSTOP)
	runtest.WaitFor(t, "the prober to stop", func() bool { return stopped(t, p.cmd.Process.Pid) })
	from := time.Now()
	time.Sleep(1500 * time.Millisecond) // how long it is stopped is the scenario
	to := time.Now()
	p.signal(t, syscall.SIGCONT)
	resumed := server.Answered()
	runtest.WaitFor(t, "answers after the stop", func() bool { return server.Answered() >= resumed+100 })
	release()
	code := p.wait(t)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}

	s := loadSaved(t, p.dir)
	s.check(t, code, p.stdout.Bytes())
	s.checkOurOwn(t)
	if code == verdict.ExitPassed || s.tl.Verdict.Coverage >= model.MinCoverage {
		t.Errorf("exit code %d, %s with a coverage of %v", code, s.tl.Verdict.Result, s.tl.Verdict.Coverage)
	}
	since, until := from.Round(0).Sub(s.tl.T0), to.Round(0).Sub(s.tl.T0)
	if !slices.ContainsFunc(s.facts.run.Events, func(e timeline.Event) bool {
		return e.Kind == timeline.ProberStall && e.Since <= since && until <= e.Seen
	}) {
		t.Errorf("no event tells of the stall from %v to %v", since, until)
	}
	for _, target := range s.judged() {
		if !slices.ContainsFunc(s.unobserved(target.Name), func(u model.Unobserved) bool {
			return u.Start <= since && until <= u.End && u.Reason == "prober stalled"
		}) {
			t.Errorf("%s: stopped from %v to %v, unobserved: %+v", target.Name, since, until, s.unobserved(target.Name))
		}
		for _, q := range s.failures(target.Name) {
			if q.Sent <= until && since <= q.Done {
				t.Errorf("%s: stopped from %v to %v, and its own request %d, sent %v and done %v, counts as %s", target.Name, since, until, q.Seq, q.Sent, q.Done, q.Class)
			}
		}
		t.Logf("%s: %v, coverage %.3f, unobserved %v", target.Name, target.Classes, target.Coverage, s.unobserved(target.Name))
	}
	for _, w := range s.tl.Windows {
		if w.Start.Earliest <= until && since <= w.End.Latest {
			t.Errorf("stopped from %v to %v, which shows as a window: %+v", since, until, w)
		}
	}
}

// stopped reports whether all threads of a process are stopped.
func stopped(t *testing.T, pid int) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads of process %d: %v", pid, err)
	}
	for _, path := range threads {
		stat, err := os.ReadFile(path)
		if err != nil {
			return false // it has ended meanwhile
		}
		// pid (name) state …; the name may hold anything, see proc_pid_stat(5)
		if _, state, ok := bytes.Cut(stat[bytes.LastIndexByte(stat, ')'):], []byte(" ")); !ok || state[0] != 'T' {
			return false
		}
	}
	return true
}
