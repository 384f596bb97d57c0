package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"lapse/correlate"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// cpuGroup makes a control group whose processes share quota of every 100 ms of one CPU; "" if this machine lets us make none.
// Nothing is in it. It is removed when the test ends.
func cpuGroup(t *testing.T, quota time.Duration) (dir string) {
	t.Helper()
	limits := map[string]string{ // by where the cpu controller is mounted: version 1, version 2
		"/sys/fs/cgroup/cpu": "cpu.cfs_quota_us",
		"/sys/fs/cgroup":     "cpu.max",
	}
	for _, root := range []string{"/sys/fs/cgroup/cpu", "/sys/fs/cgroup"} {
		dir := filepath.Join(root, "lapse-test-"+strconv.Itoa(os.Getpid())+"-"+t.Name())
		if err := os.Mkdir(dir, 0o755); err != nil {
			continue
		}
		t.Cleanup(func() { _ = os.Remove(dir) })
		limit := filepath.Join(dir, limits[root])
		if _, err := os.Stat(limit); err != nil {
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
	t.Skip("this test needs the right to make a control group that limits CPU time")
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

// lateness keeps the time by which this process, and with it the server, was woken too late at most, until the test ends.
func lateness(t *testing.T) *atomic.Int64 {
	t.Helper()
	var most atomic.Int64
	over := make(chan struct{})
	var watching sync.WaitGroup
	watching.Go(func() {
		for asked := time.Now(); ; asked = time.Now() {
			select {
			case <-over:
				return
			case <-time.After(10 * time.Millisecond):
				most.Store(max(most.Load(), int64(time.Since(asked)-10*time.Millisecond)))
			}
		}
	})
	t.Cleanup(func() {
		close(over)
		watching.Wait()
	})
	return &most
}

// Done: the prober gets 3 ms of CPU in each 100 ms, while the service is well. A naive client sees timeouts and
// slow answers. Lapse: nothing failed, time is not observed, the run is inconclusive.
func TestTruthOfAStarvedProber(t *testing.T) {
	t.Parallel()
	group, late := cpuGroup(t, 3*time.Millisecond), lateness(t)
	server := startServer(t)
	p := startProcess(t, server, "--rate=200", "--baseline=300ms", "--duration=3s", "--timeout=400ms", "--fail-if=failed>0")
	waitFor(t, "200 answers", func() bool { return server.Answered() >= 200 })
	joinGroup(t, group, p.cmd.Process.Pid)
	time.Sleep(1500 * time.Millisecond) // how long it starves is the scenario
	leave(t, group, p.cmd.Process.Pid)
	code := p.wait(t)
	s := loadSaved(t, p.dir)
	s.check(t, code, p.stdout.Bytes())
	if most := time.Duration(late.Load()); most > 200*time.Millisecond {
		t.Skipf("the server itself was late by %v: this machine has no CPU time to spare", most)
	}
	if code != correlate.ExitInconclusive {
		t.Errorf("exit code %d", code)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	for _, target := range s.judged() {
		t.Logf("%s: %v, late %d, coverage %.3f", target.Name, target.Classes, target.Late, target.Coverage)
		if target.Failed > 0 {
			t.Errorf("%s: %v, though the server answered all it was asked", target.Name, target.Classes)
		}
	}
	if s.tl.Verdict.Coverage >= correlate.MinCoverage || s.tl.Verdict.Validity.Stalls == 0 {
		t.Errorf("coverage %v, %d stalls", s.tl.Verdict.Coverage, s.tl.Verdict.Validity.Stalls)
	}
}

// Done: the service stalls for 2 s, while the prober gets 30 ms of CPU in each 100 ms, or less where others want it too. Lapse: it
// is down meanwhile; the prober missed no more of that than the time for which it says that it did not run, and an answer is
// never invented.
func TestTruthOfAStallSeenByAStarvedProber(t *testing.T) {
	t.Parallel()
	group, late := cpuGroup(t, 30*time.Millisecond), lateness(t)
	from, to := 1500*time.Millisecond, 3500*time.Millisecond
	t0 := time.Now()
	server, err := faultserver.Start(faultserver.Config{T0: t0, Faults: []faultserver.Fault{{Kind: faultserver.Stall, From: from, To: to}}})
	if err != nil {
		t.Fatal(err)
	}
	p := startProcess(t, server, "--rate=100", "--baseline=300ms", "--duration=4s", "--timeout=400ms", "--fail-if=failed>0")
	waitFor(t, "20 answers", func() bool { return server.Answered() >= 20 })
	joinGroup(t, group, p.cmd.Process.Pid)
	s := p.robbed(t, correlate.ExitGateFailed)
	if most := time.Duration(late.Load()); most > 200*time.Millisecond {
		t.Skipf("the server itself was late by %v: this machine has no CPU time to spare", most)
	}
	if err := server.Close(); err != nil {
		t.Fatal(err)
	}
	stalled := s.place(faultserver.Span{From: time.Duration(t0.Add(from).UnixNano()), To: time.Duration(t0.Add(to).UnixNano())})
	slept := time.Duration(0)
	for _, e := range s.facts.run.Events {
		if e.Kind == timeline.ProberStall {
			slept += within(stalled, e.Since, e.Seen)
		}
	}
	due := int(100 * (to - from - slept).Seconds())
	for _, target := range s.judged() {
		dark := time.Duration(0)
		for _, u := range s.unobserved(target.Name) {
			dark += within(stalled, u.Start, u.End)
		}
		ok := s.good(target.Name, stalled.From, stalled.To)
		t.Logf("%s: %v, unobserved %v of the stall, stopped for %v of it", target.Name, target.Classes, dark, slept)
		// Of those due in the last 400 ms, the timeout, some are answered.
		if ok > 0 || target.Failed < due/2 || target.Failed == 0 || target.Classes[timeline.TimeoutResponse.String()] != target.Failed {
			t.Errorf("%s: %v, %d answers within the stall, in which %d requests were due while the prober ran", target.Name, target.Classes, ok, due)
		}
		if dark > slept+(to-from)/20 {
			t.Errorf("%s: %v of a stall of %v are unobserved, though the prober was stopped for only %v", target.Name, dark, to-from, slept)
		}
	}
}

// within is how much of the time between two instants lies within a span.
func within(span faultserver.Span, from, to time.Duration) time.Duration {
	return max(0, min(to, span.To)-max(from, span.From))
}
