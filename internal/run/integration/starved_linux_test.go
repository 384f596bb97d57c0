package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/layer"
	"lapse/internal/run/runtest"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// cpuGroup makes a control group whose processes share quota of every 100 ms of one CPU; "" if this machine lets us
// make none. Nothing is in it. It is removed when the test ends.
func cpuGroup(t *testing.T, quota time.Duration) (dir string) {
	t.Helper()
	limits := map[string]string{ // by where the cpu controller is mounted: version 1, version 2
		"/sys/fs/cgroup/cpu": "cpu.cfs_quota_us",
		"/sys/fs/cgroup":     "cpu.max",
	}
	var why error
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, "lapse-test-"+strconv.Itoa(os.Getpid())+"-"+t.Name())
		if err := os.Mkdir(dir, 0o755); err != nil {
			why = errors.Join(why, err)
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		limit := filepath.Join(dir, limits[root])
		if _, err := os.Stat(limit); err != nil {
			why = errors.Join(why, err)
			continue
		}
		text := fmt.Sprint(quota.Microseconds())
		if limits[root] == "cpu.max" {
			text += " 100000"
		}
		if err := os.WriteFile(limit, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	t.Fatalf("this test needs a control group that limits CPU time, made in /sys/fs/cgroup/cpu or /sys/fs/cgroup with the cpu controller: %v\nhint: run the tests as root", why)
	return ""
}

// joinGroup puts a process into a control group.
func joinGroup(t *testing.T, dir string, pid int) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// leave puts a process back to where the test is.
func leave(t *testing.T, dir string, pid int) {
	t.Helper()
	own, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(own)) { // hierarchy:controllers:path
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if parts[1] == "cpu" || parts[1] == "cpu,cpuacct" || parts[1] == "" && filepath.Dir(dir) == "/sys/fs/cgroup" {
			joinGroup(t, filepath.Join(filepath.Dir(dir), parts[2]), pid)
			return
		}
	}
	t.Fatalf("this process is in no group of the cpu controller:\n%s", own)
}

// A sleeper notes when this process, and with it the server, did not run: then a request may have failed in truth.
type sleeper struct {
	mu   sync.Mutex
	late []faultserver.Span // of the wall clock
}

// watchOurselves watches until the test ends.
func watchOurselves(t *testing.T) *sleeper {
	t.Helper()
	s := &sleeper{}
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for asked := time.Now(); ; asked = time.Now() {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
				s.note(asked, time.Now())
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		watching.Wait()
	})
	return s
}

func (s *sleeper) note(from, to time.Time) {
	if to.Sub(from) < 60*time.Millisecond {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.late = append(s.late, faultserver.Span{From: time.Duration(from.UnixNano()), To: time.Duration(to.UnixNano())})
}

// slept reports whether the server did not run for a while between two instants of a run.
func (s *sleeper) slept(run *savedRun, from, to time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.late, func(wall faultserver.Span) bool {
		span := run.place(wall)
		return span.From <= to && from <= span.To
	})
}

// Done: the prober gets 3 ms of CPU in each 100 ms, while the service is well. A naive client sees timeouts and
// slow answers. Lapse: nothing failed, time is not observed, the run is inconclusive.
func TestTruthOfAStarvedProber(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	group, ourselves := cpuGroup(t, 3*time.Millisecond), watchOurselves(t)
	server := runtest.StartServer(t)
	p, release := startHeld(t, server.URL(), "--rate=200", "--baseline=0", "--timeout=400ms", "--fail-if=failed>0")
	runtest.WaitFor(t, "200 answers", func() bool { return server.Answered() >= 200 })
	joinGroup(t, group, p.cmd.Process.Pid)
	time.Sleep(1500 * time.Millisecond) // how long it starves is the scenario
	leave(t, group, p.cmd.Process.Pid)
	release()
	code := p.wait(t)
	s := loadSaved(t, p.dir)
	s.check(t, code, p.stdout.Bytes())
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range s.judged() {
		t.Logf("%s: %v, late %d, coverage %.3f", target.Name, target.Classes, target.Late, target.Coverage)
		for _, q := range s.failures(target.Name) {
			if !ourselves.slept(&s, q.Sent, q.Done) {
				t.Errorf("%s: request %d, sent %v and done %v, is %s, though the server answered all it was asked", target.Name, q.Seq, q.Sent, q.Done, q.Class)
			}
		}
	}
	if want := map[bool]int{true: verdict.ExitInconclusive, false: verdict.ExitGateFailed}[s.tl.Verdict.Failed == 0]; code != want {
		t.Errorf("exit code %d, want %d", code, want)
	}
	if s.tl.Verdict.Coverage >= model.MinCoverage || s.tl.Verdict.Validity.Stalls == 0 {
		t.Errorf("coverage %v, %d stalls", s.tl.Verdict.Coverage, s.tl.Verdict.Validity.Stalls)
	}
}

// Done: the service stalls for 2 s, while the prober gets 30 ms of CPU in each 100 ms, or less where others want it
// too. Lapse: it is down meanwhile; the prober missed no more of that than the time for which it says that it did not
// run, and an answer is never invented.
func TestTruthOfAStallSeenByAStarvedProber(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	group := cpuGroup(t, 30*time.Millisecond)
	t0 := time.Now()
	server, err := faultserver.Start(faultserver.Config{T0: t0})
	if err != nil {
		t.Fatal(err)
	}
	const interval = 10 * time.Millisecond
	p, release := startHeld(t, server.URL(), "--rate=100", "--baseline=0", "--timeout=400ms", "--fail-if=failed>0")
	runtest.WaitFor(t, "20 answers", func() bool { return server.Answered() >= 20 })
	joinGroup(t, group, p.cmd.Process.Pid)
	answer := server.Stall()
	from := time.Since(t0)
	time.Sleep(2 * time.Second) // how long it stalls is the scenario
	to := time.Since(t0)
	answer()
	leave(t, group, p.cmd.Process.Pid)
	release()
	s := p.robbed(t, verdict.ExitGateFailed)
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	stalled := s.place(faultserver.Span{From: time.Duration(t0.Add(from).UnixNano()), To: time.Duration(t0.Add(to).UnixNano())})
	slept, stops := time.Duration(0), 0
	for _, e := range s.facts.run.Events {
		if length := within(stalled, e.Since, e.Seen); e.Kind == timeline.ProberStall && length > 0 {
			slept += length
			stops++
		}
	}
	due := int(100 * (to - from - slept).Seconds())
	for _, target := range s.judged() {
		unobserved := time.Duration(0)
		for _, u := range s.unobserved(target.Name) {
			unobserved += within(stalled, u.Start, u.End)
		}
		ok := s.good(target.Name, stalled.From, stalled.To)
		t.Logf("%s: %v, unobserved %v of the stall, stopped for %v of it", target.Name, target.Classes, unobserved, slept)
		// Of those due in the last 400 ms, the timeout, some are answered. After a stop many wait at once, and one
		// more has no slot.
		if ok > 0 || target.Failed < due/2 || target.Failed == 0 || target.Classes[timeline.TimeoutResponse.String()]+target.Classes[timeline.NoSlot.String()] != target.Failed {
			t.Errorf("%s: %v, %d answers within the stall, in which %d requests were due while the prober ran", target.Name, target.Classes, ok, due)
		}
		// Unobserved is a stop from the last request before it, which may be an interval earlier, to the first after
		// it.
		if unobserved > slept+time.Duration(stops)*interval+(to-from)/20 {
			t.Errorf("%s: %v of a stall of %v are unobserved, though the prober was stopped for only %v", target.Name, unobserved, to-from, slept)
		}
	}
}

// within returns how much of the time between two instants lies within a span.
func within(span faultserver.Span, from, to time.Duration) time.Duration {
	return max(0, min(to, span.To)-max(from, span.From))
}
