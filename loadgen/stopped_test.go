//go:build unix

package loadgen

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"

	"lapse/internal/layer"
	"lapse/loadgen/faultserver"
	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// childURL, in the environment, makes the test binary a prober in a process of its own, which can be stopped.
const childURL = "LAPSE_TEST_PROBE"

// childTimeout, in the environment, is its requests' timeout.
const childTimeout = "LAPSE_TEST_PROBE_TIMEOUT"

func TestMain(m *testing.M) {
	if url := os.Getenv(childURL); url != "" {
		probeAsChild(url)
		return
	}
	if scheme := os.Getenv(childServer); scheme != "" {
		serveAsChild(scheme)
		return
	}
	faultserver.Prioritize()
	os.Exit(m.Run())
}

// probeAsChild probes until stdin is closed and writes every fact to stdout.
func probeAsChild(url string) {
	timeout, err := time.ParseDuration(os.Getenv(childTimeout))
	if err != nil {
		panic(err)
	}
	var requests []timeline.Request
	stalls := 0
	p := New(Config{Clock: timeline.StartClock(), Sink: func(fact timeline.Fact) {
		switch fact := fact.(type) {
		case timeline.Batch:
			requests = append(requests, fact.Requests...)
		case timeline.Event:
			stalls++
		}
	}})
	for id, kind := range []timeline.TargetKind{timeline.New, timeline.Reused} {
		probe := probe(timeline.TargetID(id+1), kind, url, 100)
		probe.Timeout = timeout
		if err := p.Start(probe); err != nil {
			panic(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { _ = p.Run(ctx) })
	_, _ = os.Stdin.Read(make([]byte, 1))
	cancel()
	wg.Wait()
	if err := json.NewEncoder(os.Stdout).Encode(childResult{requests, stalls}); err != nil {
		panic(err)
	}
}

type childResult struct {
	Requests []timeline.Request
	Stalls   int
}

// probeInChild runs a prober in another process, calls during with its process, and returns what it measured.
func probeInChild(t *testing.T, url string, timeout time.Duration, during func(*os.Process)) childResult {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), childURL+"="+url, childTimeout+"="+timeout.String())
	child.Stderr = os.Stderr
	input, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	during(child.Process)
	_ = input.Close()
	var result childResult
	if err := json.NewDecoder(output).Decode(&result); err != nil {
		t.Error(err)
	}
	if err := child.Wait(); err != nil {
		t.Fatal(err)
	}
	return result
}

// stopFor stops a process for a while: how long is the scenario.
func stopFor(t *testing.T, p *os.Process, d time.Duration) {
	t.Helper()
	if err := p.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(p.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("it did not stop: %v, %v", status, err)
	}
	time.Sleep(d)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// What a stop of the prober does to each class of error is in TestFailureIsOursOnlyWhereAStopMayHaveMadeIt and its
// neighbours, in virtual time. The two tests here are about what no virtual time has: a process that is really
// stopped, and sockets that are not.

// A server answers after 100 ms. While the prober is stopped, for longer than its timeout, the answers to open
// requests arrive and wait. Nothing of that is the server's failure.
func TestSIGSTOPIsNeverBookedAsDowntime(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	s := loadtest.Serve(t, faultserver.Config{Faults: []faultserver.Fault{
		{Kind: faultserver.Slow, To: time.Hour, Delay: 100 * time.Millisecond},
	}})
	const timeout = 2 * time.Second // much longer than this machine lets the server wait
	result := probeInChild(t, s.URL(), timeout, func(p *os.Process) {
		loadtest.WaitFor(t, "20 answers", func() bool { return s.Answered() >= 20 })
		stopFor(t, p, timeout+timeout/4)
		enough := s.Count(faultserver.Slow) + 40
		loadtest.WaitFor(t, "40 more answers", func() bool { return s.Answered() >= enough })
	})
	loadtest.Close(t, s)
	n := classes(result.Requests)
	t.Logf("%v, %d stalls", n, result.Stalls)
	if failed(result.Requests) > 0 || n[timeline.OK] == 0 {
		t.Errorf("classes %v", n)
	}
	if n[timeline.NotSent] == 0 || result.Stalls == 0 {
		t.Errorf("%d requests not sent, %d stalls", n[timeline.NotSent], result.Stalls)
	}
}

// A server that does not answer at all is down, whether or not the prober was stopped meanwhile.
func TestSIGSTOPHidesNoStallOfTheService(t *testing.T) {
	layer.Real(t)
	t.Parallel()
	s := loadtest.Serve(t, faultserver.Config{Faults: []faultserver.Fault{{Kind: faultserver.Stall, To: time.Hour}}})
	result := probeInChild(t, s.URL(), 300*time.Millisecond, func(p *os.Process) {
		loadtest.WaitFor(t, "20 requests", func() bool { return s.Count(faultserver.Stall) >= 20 })
		stopFor(t, p, 600*time.Millisecond)
		enough := s.Count(faultserver.Stall) + 60
		loadtest.WaitFor(t, "60 more requests", func() bool { return s.Count(faultserver.Stall) >= enough })
	})
	loadtest.Close(t, s)
	n := classes(result.Requests)
	t.Logf("%v, %d stalls", n, result.Stalls)
	// no_slot: after a stop many wait at once
	if n[timeline.OK] > 0 || failed(result.Requests) != n[timeline.TimeoutResponse]+n[timeline.NoSlot] ||
		n[timeline.TimeoutResponse] == 0 {
		t.Errorf("classes %v", n)
	}
	// requests that waited for their answer throughout the stop, and were reported as unanswered all the same
	stopped := 0
	for _, r := range result.Requests {
		if r.Class == timeline.TimeoutResponse && r.Done-r.Sent > 600*time.Millisecond {
			stopped++
		}
	}
	if stopped == 0 {
		t.Errorf("the stop excused all requests that were under way: %v", n)
	}
}
