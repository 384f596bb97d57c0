// Package trials measures servers that fail on schedule, for [selftest.Judge]: outages of a plan, a prober that is
// stopped, and held connections that are cut. Each is measured as `lapse run` measures, over the loopback interface.
package trials

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"lapse/correlate/model"
	"lapse/internal/record"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/spec"
	"lapse/internal/selftest"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// Settings say what is measured, and how.
type Settings struct {
	Protocol   Protocol
	Seed       uint64        // of the plan
	Rate       float64       // requests per second, of each of new and reused
	Duration   time.Duration // of the outages
	Resolution time.Duration // see [spec.Spec]; 0 is the default

	Defaults func() *spec.Options // those of a `lapse run` without flags
}

// A console is where whoever runs the trials can end them, and sees how far they have come.
type console struct {
	signals <-chan os.Signal
	stderr  io.Writer
}

// Measure measures everything, keeps the recordings in dir and reports progress on stderr. An error says what could
// not be measured, or that a signal or ctx ended it.
func (s *Settings) Measure(
	ctx context.Context, dir string, signals <-chan os.Signal, stderr io.Writer,
) (trial selftest.Trial, err error) {
	c := console{signals, stderr}
	if err := s.Protocol.certify(dir); err != nil {
		return trial, err
	}
	if trial, err = s.measureOutages(ctx, dir, c); err != nil {
		return trial, err
	}
	if trial.Stalled, err = s.measureStalled(ctx, filepath.Join(dir, "stalled"), c); err != nil {
		return trial, err
	}
	trial.Held, err = s.measureHeld(ctx, filepath.Join(dir, "held"), c)
	return trial, err
}

// measureOutages measures a server that follows the plan, as `lapse run` does. The server's clock is the run's.
func (s *Settings) measureOutages(ctx context.Context, dir string, c console) (selftest.Trial, error) {
	t := selftest.Trial{
		Protocol: s.Protocol.Protocol, Seed: s.Seed, Rate: s.Rate, Duration: s.Duration,
		Plan: selftest.NewPlan(s.Protocol.Protocol, s.Seed, s.Rate, s.Duration),
	}
	clock := timeline.StartClock()
	server, url, err := s.Protocol.serve(faultserver.Config{T0: clock.T0(), Seed: s.Seed, Faults: t.Plan.Faults()})
	if err != nil {
		return t, err
	}
	tl, err := s.measureServer(ctx, url, clock, dir, c)
	if err := errors.Join(err, server.Close()); err != nil {
		return t, err
	}
	if tl.Run.Aborted != "" {
		return t, exit.Stopped("the selftest was not finished: %s", tl.Run.Aborted)
	}
	t.Run, t.Outages = tl, selftest.Outages(t.Plan, server.Outages())
	t.Ledger = selftest.NewLedger(t.Protocol, t.Outages, server.Acts(), server.Answered())
	if err := saved.WriteTimeline(dir, tl); err != nil {
		return t, err
	}
	return t, enterAll(filepath.Join(dir, saved.FactsFile), t.Ledger)
}

func (s *Settings) measureServer(
	ctx context.Context, url string, clock timeline.Clock, dir string, c console,
) (*model.Timeline, error) {
	o := s.Defaults()
	o.Rate, o.Resolution = s.Rate, s.Resolution
	o.Timeout, o.Slow, o.Join = selftest.Timeout, selftest.SlowBar, selftest.Join
	o.Echo, o.CAFile = s.Protocol.echo, s.Protocol.caFile
	o.Baseline, o.Duration = time.Second, s.Duration-time.Second
	if err := o.Check([]string{url}, nil); err != nil {
		return nil, err
	}
	place := coordinator.Place{Clock: clock, Dir: dir, Signals: c.signals, Stderr: c.stderr}
	return coordinator.MeasureOn(ctx, o, place)
}

// enterAll enters the recorded requests into the ledger.
func enterAll(path string, ledger *selftest.Ledger) error {
	f, err := record.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil {
		return err
	}
	for _, target := range run.Targets {
		ledger.Count(target)
	}
	for batch, err := range run.Batches {
		if err != nil {
			return err
		}
		for _, q := range batch.Requests {
			ledger.Add(q)
		}
	}
	return nil
}
