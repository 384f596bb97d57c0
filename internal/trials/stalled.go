package trials

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/truth"
	"lapse/internal/run/exit"
	"lapse/internal/selftest"
	"lapse/loadgen/faultserver"
)

// measureStalled runs `lapse run` as a process of its own against a server without faults, and stops that process for
// longer than the timeout. Answers take 30 ms, so that some requests are in flight when it is stopped.
func (s *Settings) measureStalled(ctx context.Context, dir string, c console) (*selftest.StalledProber, error) {
	ctx, release := exit.Interruptible(ctx, c.signals)
	defer release()
	slow := faultserver.Fault{Kind: faultserver.Slow, To: time.Hour, Delay: 30 * time.Millisecond}
	server, url, err := s.Protocol.serve(faultserver.Config{Faults: []faultserver.Fault{slow}})
	if err != nil {
		return nil, err
	}
	defer func() { _ = server.Close() }() // it has no outages
	var stdout bytes.Buffer
	cmd, err := proberCommand(ctx, url, dir, min(s.Rate, 200), s.Resolution)
	if err != nil {
		return nil, err
	}
	cmd.Args = append(cmd.Args, s.Protocol.flags()...)
	cmd.Stdout, cmd.Stderr = &stdout, io.Discard
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start a prober to be stopped: %w", err)
	}
	standstills := watchStandstills()
	var first time.Time
	fmt.Fprintln(c.stderr, "stopping a prober for a second")
	ready := func() bool { return readyToStop(server.Answered(), time.Now(), &first) }
	from, to, stopErr := stopForASecond(ctx, cmd.Process, ready)
	err = cmd.Wait()
	still := standstills()
	if _, exited := errors.AsType[*exec.ExitError](err); exited {
		err = nil // the exit code tells
	}
	if ctx.Err() != nil {
		return nil, exit.StoppedOr(ctx, ctx.Err())
	}
	if err := errors.Join(stopErr, err); err != nil {
		return nil, fmt.Errorf("a prober that is stopped: %w", err)
	}
	var tl model.Timeline
	if err := json.Unmarshal(stdout.Bytes(), &tl); err != nil {
		return nil, fmt.Errorf("a prober that was stopped, exit code %d: %w", cmd.ProcessState.ExitCode(), err)
	}
	stopped := spanOf(from, to, tl.T0)
	stalled := &selftest.StalledProber{
		From: stopped.From, To: stopped.To, Run: &tl, ExitCode: cmd.ProcessState.ExitCode(),
	}
	for _, at := range still {
		stalled.Standstills = append(stalled.Standstills, spanOf(at.from, at.to, tl.T0))
	}
	return stalled, nil
}

// spanOf returns the time between two readings of the clock on the clock of the run that began at zero.
func spanOf(from, to, zero time.Time) truth.Span {
	return truth.Span{From: from.Round(0).Sub(zero), To: to.Round(0).Sub(zero)}
}

// A standstill is a time in which this process did not run.
type standstill struct{ from, to time.Time }

// watchStandstills notes when this process does not run for 0.1 s or longer, until the function it returns is called.
func watchStandstills() (ended func() []standstill) {
	var all []standstill
	over, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := time.NewTicker(10 * time.Millisecond)
		defer ticks.Stop()
		for last := time.Now(); ; {
			select {
			case <-over:
				return
			case <-ticks.C:
			}
			now := time.Now()
			if now.Sub(last) > 100*time.Millisecond {
				all = append(all, standstill{last, now})
			}
			last = now
		}
	}()
	return func() []standstill {
		close(over)
		<-done
		return all
	}
}

// proberCommand returns this program as a process that measures.
func proberCommand(ctx context.Context, url, dir string, rate float64, resolution time.Duration) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this program: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, "run", url, "--rate", strconv.FormatFloat(rate, 'f', -1, 64),
		"--baseline=500ms", "--duration=3s", "--fail-if=failed>0", "--out", dir, "-o=json")
	if resolution > 0 {
		cmd.Args = append(cmd.Args, "--resolution="+resolution.String())
	}
	cmd.Args[0] = filepath.Join(filepath.Dir(self), "lapse")
	cmd.SysProcAttr = ownGroup // the terminal's signals are for us
	return cmd, nil
}

// readyToStop reports whether a prober has sent enough to be stopped, by how many requests were answered: 200, or,
// where that takes long at its rate or on a machine that stands still, those of 1.5 s. It measures for 3.5 s. first
// is kept between calls.
func readyToStop(answered int, now time.Time, first *time.Time) bool {
	if answered > 0 && first.IsZero() {
		*first = now
	}
	return answered >= 200 || answered > 0 && now.Sub(*first) >= 1500*time.Millisecond
}

// stopForASecond stops a process for a second, once it is ready to be, and returns when that was.
func stopForASecond(ctx context.Context, p *os.Process, ready func() bool) (from, to time.Time, err error) {
	for begun := time.Now(); !ready(); {
		if time.Since(begun) > time.Minute {
			return from, to, errors.Join(errors.New("it sent no requests within a minute"), p.Kill())
		}
		sleep(ctx, 5*time.Millisecond)
	}
	if err := p.Signal(stop); err != nil {
		return from, to, err
	}
	sleep(ctx, 20*time.Millisecond) // until all its threads stand still
	from = time.Now()
	sleep(ctx, time.Second)
	to = time.Now()
	return from, to, p.Signal(goOn)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
