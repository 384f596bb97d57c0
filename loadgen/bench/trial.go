package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/gob"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"lapse/correlate/verdict"
)

// A bench is what all scenarios share.
type bench struct {
	self       string // this program
	lapse      string // the lapse binary, built for this
	lapseUsual string // the same, but its threads ask for no short slice
	root       string // of the repository
	scratch    string
	runs       int           // of each tool in each scenario
	length     time.Duration // of a run
	talk       io.Writer     // what is going on
	profile    string        // where CPU profiles of the engine go; "" for none
	trials     int
}

// A trial is one run of one tool against a server of its own.
type trial struct {
	tool   tool
	load   load
	record bool
	plan   serverPlan
}

// A result is what came out of a trial.
type result struct {
	outcome
	server serverReport
	cpu    time.Duration // user and system time of the tool's process, from its start to its end
	memory memory
	bytes  int64         // of what it recorded
	length time.Duration // how long it was to run
}

// cpuPerRequest is in microseconds, over all requests that arrived.
func (r *result) cpuPerRequest() float64 {
	return float64(r.cpu.Nanoseconds()) / 1000 / float64(max(1, len(r.server.Arrivals)))
}

// memory is a process's resident memory, in bytes.
type memory struct {
	after20s int64 // the last sample until 20 s after its start
	peak     int64
	samples  []memorySample
}

type memorySample struct {
	at    time.Duration
	bytes int64
}

// run makes a trial.
func (b *bench) run(ctx context.Context, t trial) (result, error) {
	r, err := b.try(ctx, t)
	if err != nil {
		return r, fmt.Errorf("%s: %w", t.tool.name, err)
	}
	return r, nil
}

func (b *bench) try(ctx context.Context, t trial) (r result, err error) {
	r.length = t.load.For
	s, err := b.startServer(ctx, t.plan)
	if err != nil {
		return r, err
	}
	b.trials++
	scheme := "http"
	if t.plan.GRPC {
		scheme = "grpc"
	}
	t.load.URL = scheme + "://" + s.addr.String() + "/"
	t.record = t.record && !t.tool.silent
	if t.record {
		t.load.Record = fmt.Sprintf("%s/record-%d", b.scratch, b.trials)
	}
	if b.profile != "" {
		t.load.Profile = fmt.Sprintf("%s/cpu-%d.pprof", b.profile, b.trials)
	}
	toolErr := b.drive(ctx, t, &r)
	r.server, err = s.end()
	if err := errors.Join(toolErr, err); err != nil {
		return r, err
	}
	if t.record {
		info, err := os.Stat(t.tool.recording(t.load))
		if err != nil {
			return r, err
		}
		r.bytes = info.Size()
		_ = os.RemoveAll(t.load.Record)
	}
	return r, nil
}

// drive runs the tool's process to its end.
func (b *bench) drive(ctx context.Context, t trial, r *result) error {
	cmd, err := t.tool.start(ctx, *b, t.load)
	if err != nil {
		return err
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	sampled := make(chan memory)
	go func() { sampled <- watchMemory(cmd.Process.Pid, ended) }()
	err = cmd.Wait()
	close(ended)
	r.memory = <-sampled
	if err != nil && !inconclusive(err) {
		return fmt.Errorf("%w\n%s", err, stderr.String())
	}
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	r.outcome, err = t.tool.outcome(stdout.Bytes())
	return err
}

// inconclusive tells a run of lapse that says it could not measure well from one that broke: its figures are as good
// as they are.
func inconclusive(err error) bool {
	exit, ok := errors.AsType[*exec.ExitError](err)
	return ok && exit.ExitCode() == verdict.ExitInconclusive
}

// watchMemory samples a process's resident memory until it has ended.
func watchMemory(pid int, ended <-chan struct{}) (m memory) {
	begun := time.Now()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ended:
			return m
		case <-tick.C:
		}
		status, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
		if err != nil {
			continue
		}
		now := statusField(string(status), "VmRSS")
		if now == 0 {
			continue // it has just ended
		}
		m.peak = max(m.peak, statusField(string(status), "VmHWM"))
		at := time.Since(begun)
		if at <= 20*time.Second {
			m.after20s = now
		}
		if n := len(m.samples); n == 0 || at-m.samples[n-1].at >= time.Second {
			m.samples = append(m.samples, memorySample{at, now})
		}
	}
}

// statusField reads an amount of memory, in bytes, from the text of /proc/PID/status. What is not there is 0.
func statusField(status, name string) int64 {
	kib, err := strconv.ParseInt(strings.TrimSuffix(procField(status, name), " kB"), 10, 64)
	if err != nil {
		return 0
	}
	return kib << 10
}

// A serverProcess is a server at work.
type serverProcess struct {
	cmd   *exec.Cmd
	stdin io.Closer
	out   *bufio.Reader
	addr  netip.AddrPort
}

func (b *bench) startServer(ctx context.Context, plan serverPlan) (*serverProcess, error) {
	text, err := json.Marshal(plan)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, b.self, "--role", "server", "--plan", string(text))
	cmd.Stderr = b.talk
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &serverProcess{cmd: cmd, stdin: stdin, out: bufio.NewReader(stdout)}
	line, err := s.out.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &s.addr)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("start the server: %w", err), cmd.Cancel(), cmd.Wait())
	}
	return s, nil
}

// end stops the server and returns what it saw.
func (s *serverProcess) end() (report serverReport, err error) {
	_ = s.stdin.Close()
	if err := gob.NewDecoder(s.out).Decode(&report); err != nil {
		return report, errors.Join(fmt.Errorf("the server's report: %w", err), s.cmd.Wait())
	}
	return report, s.cmd.Wait()
}
