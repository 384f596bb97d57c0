package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/cmd/lapse/internal/selftest"
	"lapse/correlate/model"
	"lapse/loadgen"
	"lapse/loadgen/faultserver"
	"lapse/record"
	"lapse/run"
	"lapse/timeline"
)

// selftestFlags are those of `lapse selftest`.
type selftestFlags struct {
	seed     uint64
	rate     float64
	duration time.Duration
	out      string

	resolution time.Duration

	format string

	protocol string
	spoken   spoken // filled in by check
}

func newSelftest() *cobra.Command {
	var f selftestFlags
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure known outages on this machine, and print our own error",
		Long: `Measure known outages on this machine, and print our own error.

A built-in server fails on schedule: nobody listens, connections are reset or closed, answers are cut off, late, a 503 or
missing, for all requests or for a share at random, from 2 ms to 5 s; over UDP replies are lost, late or others, and of WebSocket
and TCP an error is a close frame or another text. Lapse measures it over the loopback interface as
` + "`lapse run`" + ` does, and compares what it found with what the server did. Then it stops a prober for a second: that run must
be inconclusive. At last it holds connections to a server that cuts some of them.

Exit codes: 0 every promise was kept, 3 one was broken, 4 inconclusive: less than 99.9 % of the time was observed, or too little
was found to judge. The outages are a function of --seed, --rate and --duration.`,
		Example: `  lapse selftest
  lapse selftest --protocol wss
  lapse selftest --rate 1000 --duration 2m --seed 7 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return run.Usagef("to measure a target: `lapse run`", "the selftest measures a server of its own, not %q", args[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	flags.StringVar(&f.protocol, "protocol", selftest.HTTP.Name, "what is measured: "+spokenNames())
	flags.Uint64Var(&f.seed, "seed", 1, "which outages there are, when and for how long")
	flags.Float64Var(&f.rate, "rate", 200, "requests per second, for each of new and reused")
	flags.DurationVar(&f.duration, "duration", time.Minute, "how long to measure outages; the stopped prober and the held connections take 11s more")
	flags.DurationVar(&f.resolution, "resolution", 0, resolutionUsage+" (default 50ms or 10 intervals, whichever is longer)")
	flags.StringVar(&f.out, "out", "", "keep the recording, timeline.json and selftest.json in this directory")
	flags.StringVarP(&f.format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

func (f *selftestFlags) check() error {
	i := slices.IndexFunc(spokenProtocols, func(p spoken) bool { return p.Name == f.protocol })
	if i < 0 {
		return run.Usagef("one of: "+spokenNames(), "no known outages of protocol %q", f.protocol)
	}
	f.spoken = spokenProtocols[i]
	switch {
	case !(f.rate >= selftest.MinRate):
		return run.Usagef("at a lower rate too few requests meet an outage to say anything", "rate %v: at least %v requests per second", f.rate, selftest.MinRate)
	case f.rate > loadgen.MaxRate || math.IsInf(f.rate, 0):
		return run.Usagef("", "rate %v: at most %d requests per second", f.rate, loadgen.MaxRate)
	case f.duration < selftest.MinDuration:
		return run.Usagef("each kind of outage needs its time", "duration %v: must be at least %v", f.duration, selftest.MinDuration)
	case f.format != "table" && f.format != "json":
		return run.Usagef("one of: json, table", "unknown output format %q", f.format)
	}
	if err := run.CheckResolution(f.resolution, false); err != nil {
		return err
	}
	// In a stall every request of both targets stays open, at both ends.
	return run.CheckFiles(fmt.Sprintf("rate %v", f.rate), 4*f.rate*selftest.Timeout.Seconds()+2*run.FewFiles, "--rate")
}

// run measures, compares and prints.
func (f *selftestFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	dir, clean, err := f.directory()
	if err != nil {
		return err
	}
	defer clean()
	if err := f.spoken.certify(dir); err != nil {
		return err
	}
	trial, err := f.measure(ctx, dir, signals, stderr)
	if err != nil {
		return err
	}
	if trial.Stalled, err = measureStalled(ctx, filepath.Join(dir, "stalled"), f.rate, f.resolution, f.spoken, signals, stderr); err != nil {
		return err
	}
	if trial.Held, err = measureHeld(ctx, filepath.Join(dir, "held"), signals, stderr); err != nil {
		return err
	}
	r := selftest.Judge(trial)
	return run.ExitWith(r.ExitCode, f.deliver(stdout, dir, r))
}

// directory is where the recording goes, and how to remove it unless it is to be kept.
func (f *selftestFlags) directory() (dir string, clean func(), err error) {
	if f.out != "" {
		return f.out, func() {}, run.CreateDir(f.out)
	}
	dir, err = os.MkdirTemp("", "lapse-selftest-")
	if err != nil {
		return "", nil, fmt.Errorf("a place for the recording: %w", err)
	}
	return dir, func() { os.RemoveAll(dir) }, nil
}

func (f *selftestFlags) deliver(stdout io.Writer, dir string, r *selftest.Report) error {
	document, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("write the result: %w", err)
	}
	document = append(document, '\n')
	if f.out != "" {
		if err := os.WriteFile(filepath.Join(dir, "selftest.json"), document, 0o644); err != nil {
			return fmt.Errorf("write the result: %w", err)
		}
	}
	if f.format == "json" {
		_, err := stdout.Write(document)
		return err
	}
	return r.WriteTable(stdout)
}

// measure runs the plan: the very measurement of `lapse run`, of a server whose clock is the run's.
func (f *selftestFlags) measure(ctx context.Context, dir string, signals <-chan os.Signal, stderr io.Writer) (selftest.Trial, error) {
	t := selftest.Trial{Protocol: f.spoken.Protocol, Seed: f.seed, Rate: f.rate, Duration: f.duration, Plan: selftest.NewPlan(f.spoken.Protocol, f.seed, f.rate, f.duration)}
	clock := timeline.StartClock()
	server, url, err := f.spoken.serve(faultserver.Config{T0: clock.T0(), Seed: f.seed, Faults: t.Plan.Faults()})
	if err != nil {
		return t, err
	}
	tl, err := f.measureServer(ctx, url, clock, dir, signals, stderr)
	if err := errors.Join(err, server.Close()); err != nil {
		return t, err
	}
	if tl.Run.Aborted != "" {
		return t, run.Stopped("the selftest was not finished: %s", tl.Run.Aborted)
	}
	t.Run, t.Outages = tl, selftest.Outages(t.Plan, server.Outages())
	t.Ledger = selftest.NewLedger(t.Protocol, t.Outages, server.Acts(), server.Answered())
	if err := run.WriteTimeline(dir, tl); err != nil {
		return t, err
	}
	return t, enterAll(filepath.Join(dir, run.FactsFile), t.Ledger)
}

func (f *selftestFlags) measureServer(ctx context.Context, url string, clock timeline.Clock, dir string, signals <-chan os.Signal, stderr io.Writer) (*model.Timeline, error) {
	o := defaults()
	o.Rate, o.Timeout, o.Slow, o.Join, o.Resolution = f.rate, selftest.Timeout, selftest.SlowBar, selftest.Join, f.resolution
	o.Echo, o.CAFile = f.spoken.echo, f.spoken.caFile
	o.Baseline, o.Duration = time.Second, f.duration-time.Second
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
