package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/cmd/lapse/internal/selftest"
	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/record"
	"lapse/run"
	"lapse/timeline"
)

// A proof is `lapse selftest`: known outages, measured as any other.
type proof struct {
	seed     uint64
	rate     float64
	duration time.Duration
	out      string

	resolution time.Duration

	format string
}

func newSelftest() *cobra.Command {
	var p proof
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure known outages on this machine, and print our own error",
		Long: `Measure known outages on this machine, and print our own error.

A built-in server fails on schedule: nobody listens, connections are reset or closed, answers are cut off, late, a 503 or
missing, for all requests or for a share at random, from 2 ms to 5 s. Lapse measures it over the loopback interface as
` + "`lapse run`" + ` would, and compares what it found with what the server did. Then it stops a prober for a while, which has to
say that it did not look.

Exit codes: 0 every promise was kept, 3 one was broken, 4 inconclusive: the machine did not let us observe 99.9 % of the time,
or too little was seen to tell. The outages follow from --seed, --rate and --duration: the same ones can be had again.`,
		Example: `  lapse selftest
  lapse selftest --rate 1000 --duration 2m --seed 7 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return run.Refuse("to measure a target: `lapse run`", "the selftest measures a server of its own, not %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			return p.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.Uint64Var(&p.seed, "seed", 1, "which outages there are, when and for how long")
	f.Float64Var(&p.rate, "rate", 200, "requests per second, for each of new and reused")
	f.DurationVar(&p.duration, "duration", time.Minute, "how long to measure outages; the stopped prober takes 5s more")
	f.DurationVar(&p.resolution, "resolution", 0, resolutionUsage+" (default 50ms or 10 intervals, whichever is longer)")
	f.StringVar(&p.out, "out", "", "keep the recording, timeline.json and selftest.json in this directory")
	f.StringVarP(&p.format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

func (p *proof) check() error {
	switch {
	case !(p.rate >= selftest.MinRate):
		return run.Refuse("at a lower rate too few requests meet an outage to say anything", "rate %v: at least %v requests per second", p.rate, selftest.MinRate)
	case p.rate > loadgen.MaxRate || math.IsInf(p.rate, 0):
		return run.Refuse("", "rate %v: at most %d requests per second", p.rate, loadgen.MaxRate)
	case p.duration < selftest.MinDuration:
		return run.Refuse("each kind of outage needs its time", "duration %v: must be at least %v", p.duration, selftest.MinDuration)
	case p.format != "table" && p.format != "json":
		return run.Refuse("one of: json, table", "unknown output format %q", p.format)
	}
	if err := run.CheckResolution(p.resolution, false); err != nil {
		return err
	}
	// In a stall every request of both targets stays open, at both ends.
	return run.CheckFiles(fmt.Sprintf("rate %v", p.rate), 4*p.rate*selftest.Timeout.Seconds()+2*run.FewFiles, "--rate")
}

// run measures, compares and prints.
func (p *proof) run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	dir, clean, err := p.directory()
	if err != nil {
		return err
	}
	defer clean()
	trial, err := p.measure(ctx, dir, signals, stderr)
	if err != nil {
		return err
	}
	if trial.Starved, err = starve(ctx, filepath.Join(dir, "starved"), p.rate, p.resolution, signals, stderr); err != nil {
		return err
	}
	r := selftest.Judge(trial)
	return run.ExitWith(r.ExitCode, p.deliver(stdout, dir, r))
}

// directory is where the recording goes, and how to remove it unless it is to be kept.
func (p *proof) directory() (dir string, clean func(), err error) {
	if p.out != "" {
		return p.out, func() {}, run.CreateDir(p.out)
	}
	dir, err = os.MkdirTemp("", "lapse-selftest-")
	if err != nil {
		return "", nil, fmt.Errorf("a place for the recording: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

func (p *proof) deliver(stdout io.Writer, dir string, r *selftest.Report) error {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	document = append(document, '\n')
	if p.out != "" {
		if err := os.WriteFile(filepath.Join(dir, "selftest.json"), document, 0o644); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	if p.format == "json" {
		_, err := stdout.Write(document)
		return err
	}
	return r.WriteTable(stdout)
}

// measure runs the plan: the very measurement of `lapse run`, of a server whose clock is the run's.
func (p *proof) measure(ctx context.Context, dir string, signals <-chan os.Signal, stderr io.Writer) (selftest.Trial, error) {
	t := selftest.Trial{Seed: p.seed, Rate: p.rate, Duration: p.duration, Plan: selftest.NewPlan(p.seed, p.rate, p.duration)}
	clock := timeline.StartClock()
	server, err := faultserver.Start(faultserver.Config{T0: clock.T0(), Seed: p.seed, Faults: t.Plan.Faults()})
	if err != nil {
		return t, err
	}
	tl, err := p.measureServer(ctx, server.URL(), clock, dir, signals, stderr)
	if err := errors.Join(err, server.Close()); err != nil {
		return t, err
	}
	if tl.Run.Aborted != "" {
		return t, run.Stopped("the selftest was not finished: %s", tl.Run.Aborted)
	}
	t.Live, t.Truths = tl, selftest.Truths(t.Plan, server.Outages())
	t.Books = selftest.NewBooks(t.Truths, server.Acts(), server.Answered())
	if err := run.WriteTimeline(dir, tl); err != nil {
		return t, err
	}
	return t, readAgain(dir, &t)
}

func (p *proof) measureServer(ctx context.Context, url string, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o := defaults()
	o.Rate, o.Timeout, o.Slow, o.Join, o.Resolution = p.rate, selftest.Timeout, selftest.SlowBar, selftest.Join, p.resolution
	o.Baseline, o.Duration = time.Second, p.duration-time.Second
	if err := o.Check([]string{url}, nil); err != nil {
		return nil, err
	}
	return o.MeasureOn(ctx, clock, dir, signals, stderr)
}

// defaults are the options of a `lapse run` without flags.
func defaults() *run.Options {
	var o run.Options
	runFlags(&o, &cobra.Command{})
	return &o
}

// readAgain enters the recording into the books, and judges it again: as it was, and with another --join.
func readAgain(dir string, t *selftest.Trial) error {
	if err := enterAll(filepath.Join(dir, run.FactsFile), t.Books); err != nil {
		return err
	}
	again, err := run.Load(dir, correlate.Options{}, nil)
	if err != nil {
		return err
	}
	said, err := json.Marshal(t.Live)
	if err != nil {
		return err
	}
	says, err := json.Marshal(again)
	if err != nil {
		return err
	}
	t.Again = bytes.Equal(said, says)
	t.Wide, err = run.Load(dir, correlate.Options{Join: selftest.Wide}, nil)
	return err
}

// enterAll enters what is on record into the books.
func enterAll(path string, books *selftest.Books) error {
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
		books.Count(target)
	}
	for batch, err := range run.Batches {
		if err != nil {
			return err
		}
		for _, q := range batch.Requests {
			books.Add(q)
		}
	}
	return nil
}
