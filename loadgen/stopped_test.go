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

	"lapse/loadgen/faultserver"
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
		probe := probe(uint16(id+1), kind, url, 100)
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
	time.Sleep(d)
	if err := p.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
}

// A server answers after 100 ms. While the prober is stopped for 600 ms, beyond the timeout of 300 ms, the
// answers to open requests arrive and wait. Nothing of that is the server's failure.
func TestSIGSTOPIsNeverBookedAsDowntime(t *testing.T) {
	t.Parallel()
	s := serve(t, faultserver.Config{Faults: []faultserver.Fault{
		{Kind: faultserver.Slow, To: time.Hour, Delay: 100 * time.Millisecond},
	}})
	result := probeInChild(t, s.URL(), 300*time.Millisecond, func(p *os.Process) {
		for range 3 {
			time.Sleep(400 * time.Millisecond)
			stopFor(t, p, 600*time.Millisecond)
		}
		time.Sleep(300 * time.Millisecond)
	})
	closeServer(t, s)
	n := classes(result.Requests)
	t.Logf("%v, %d stalls", n, result.Stalls)
	if failed(result.Requests) > 0 || n[timeline.OK] == 0 {
		t.Errorf("classes %v", n)
	}
	if n[timeline.NotSent] == 0 || result.Stalls < 3 {
		t.Errorf("%d requests not sent, %d stalls", n[timeline.NotSent], result.Stalls)
	}
}

// A prober that is told to end while it is stopped does not pass over that time.
func TestSIGSTOPUntilTheEndIsNotSent(t *testing.T) {
	t.Parallel()
	s := serve(t, faultserver.Config{})
	var resume sync.WaitGroup
	result := probeInChild(t, s.URL(), 300*time.Millisecond, func(p *os.Process) {
		time.Sleep(300 * time.Millisecond)
		if err := p.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		resume.Go(func() { // by then it has been told to end
			time.Sleep(600 * time.Millisecond)
			if err := p.Signal(syscall.SIGCONT); err != nil {
				t.Error(err)
			}
		})
	})
	resume.Wait()
	closeServer(t, s)
	if n := classes(result.Requests); failed(result.Requests) > 0 || n[timeline.NotSent] < 80 || result.Stalls == 0 {
		t.Errorf("classes %v, %d stalls", n, result.Stalls)
	}
}

// A server that does not answer at all is down, whether or not the prober was stopped meanwhile.
func TestSIGSTOPHidesNoStallOfTheService(t *testing.T) {
	t.Parallel()
	s := serve(t, faultserver.Config{Faults: []faultserver.Fault{{Kind: faultserver.Stall, To: time.Hour}}})
	result := probeInChild(t, s.URL(), 300*time.Millisecond, func(p *os.Process) {
		time.Sleep(300 * time.Millisecond)
		stopFor(t, p, 600*time.Millisecond)
		time.Sleep(300 * time.Millisecond)
	})
	closeServer(t, s)
	n := classes(result.Requests)
	t.Logf("%v, %d stalls", n, result.Stalls)
	// Those whose connection was not known to stand when the prober was stopped are few.
	if n[timeline.OK] > 0 || n[timeline.TimeoutResponse] < 20 || n[timeline.Local] > 4 {
		t.Errorf("classes %v", n)
	}
}

// A server answers after 100 ms, and the prober is stopped for 600 ms, far less than the timeout. Answers that lay there
// meanwhile are not slow ones.
func TestSIGSTOPMakesNoAnswerSlow(t *testing.T) {
	t.Parallel()
	const stopped = 600 * time.Millisecond
	s := serve(t, faultserver.Config{Faults: []faultserver.Fault{
		{Kind: faultserver.Slow, To: time.Hour, Delay: 100 * time.Millisecond},
	}})
	result := probeInChild(t, s.URL(), 10*time.Second, func(p *os.Process) {
		time.Sleep(400 * time.Millisecond)
		stopFor(t, p, stopped)
		time.Sleep(300 * time.Millisecond)
	})
	closeServer(t, s)
	n := classes(result.Requests)
	t.Logf("%v, %d stalls", n, result.Stalls)
	if failed(result.Requests) > 0 || n[timeline.OK] == 0 || n[timeline.Local] == 0 {
		t.Errorf("classes %v", n)
	}
	for _, r := range result.Requests {
		if r.Class == timeline.OK && r.Done-r.Sent >= stopped {
			t.Errorf("ok after %v", r.Done-r.Sent)
		}
	}
}
