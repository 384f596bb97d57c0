package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/internal/run/spec"
	"lapse/internal/selftest"
	"lapse/internal/trials"
	"lapse/loadgen"
)

// selftestFlags are the flags of `lapse selftest`.
type selftestFlags struct {
	trials.Settings // of these, check fills in Protocol
	protocol        string

	out    string
	format string
}

func newSelftest() *cobra.Command {
	f := selftestFlags{Settings: trials.Settings{Defaults: defaults}}
	cmd := &cobra.Command{
		Use:   "selftest",
		Short: "Measure known outages on this machine, and print how far the results were off",
		Long: `Measure known outages on this machine, and print how far the results were off.

A built-in server fails on schedule, for 2 ms to 5 s, for all requests or for a random share: it stops
listening, resets or closes connections, truncates or delays answers, sends a 503, or sends nothing. Over UDP
it loses, delays or replaces replies. Over WebSocket and TCP its error is a close frame or a different text.
Lapse measures it over the loopback interface as "lapse run" does, and compares what it found with what the
server did. Then it stops a prober for a second: that run must be inconclusive. At last it holds connections
to a server that cuts some of them.

Exit codes: 0 every promise was kept, 3 one was broken, 4 inconclusive: less than 99.9 % of the time was
observed, or too little was found to judge. The outages are a function of --seed, --rate and --duration.`,
		Example: `  lapse selftest
  lapse selftest --protocol wss
  lapse selftest --rate 1000 --duration 2m --seed 7 -o json`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) > 0 {
				return exit.Usagef("to measure a target: `lapse run`",
					"the selftest measures a server of its own, not %q", args[0])
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
	flags.StringVar(&f.protocol, "protocol", selftest.HTTP.Name, "what is measured: "+trials.Names())
	flags.Uint64Var(&f.Seed, "seed", 1, "which outages there are, when and for how long")
	flags.Float64Var(&f.Rate, "rate", 200, "requests per second, for each of new and reused")
	flags.DurationVar(&f.Duration, "duration", time.Minute,
		"how long to measure outages; the stopped prober and the held connections take 11s more")
	flags.DurationVar(&f.Resolution, "resolution", 0,
		resolutionUsage+" (default 50ms or 10 intervals, whichever is longer)")
	flags.StringVar(&f.out, "out", "", "keep the recording, timeline.json and selftest.json in this directory")
	flags.StringVarP(&f.format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

func (f *selftestFlags) check() error {
	i := slices.IndexFunc(trials.Protocols, func(p trials.Protocol) bool { return p.Name == f.protocol })
	if i < 0 {
		return exit.Usagef("one of: "+trials.Names(), "no known outages of protocol %q", f.protocol)
	}
	f.Protocol = trials.Protocols[i]
	switch {
	case !(f.Rate >= selftest.MinRate):
		return exit.Usagef("at a lower rate too few requests meet an outage to say anything",
			"rate %v: at least %v requests per second", f.Rate, selftest.MinRate)
	case f.Rate > loadgen.MaxRate || math.IsInf(f.Rate, 0):
		return exit.Usagef("", "rate %v: at most %d requests per second", f.Rate, loadgen.MaxRate)
	case f.Duration < selftest.MinDuration:
		return exit.Usagef("each kind of outage needs its time",
			"duration %v: must be at least %v", f.Duration, selftest.MinDuration)
	case f.format != "table" && f.format != "json":
		return exit.Usagef("one of: json, table", "unknown output format %q", f.format)
	}
	if err := judging.CheckResolution(f.Resolution, false); err != nil {
		return err
	}
	// In a stall every request of both targets stays open, at both ends.
	files := 4*f.Rate*selftest.Timeout.Seconds() + 2*spec.FewFiles
	return spec.CheckFileLimit(fmt.Sprintf("rate %v", f.Rate), files, "--rate")
}

// run measures, compares and prints.
func (f *selftestFlags) run(ctx context.Context, stdout, stderr io.Writer) error {
	signals, stop := takeSignals()
	defer stop()
	dir, clean, err := f.directory()
	if err != nil {
		return err
	}
	defer clean()
	trial, err := f.Measure(ctx, dir, signals.C, stderr)
	if err != nil {
		return err
	}
	r := selftest.Judge(trial)
	return exit.With(r.ExitCode, f.deliver(stdout, dir, r))
}

// directory returns where the recording goes, and a function that removes it unless it is to be kept.
func (f *selftestFlags) directory() (dir string, clean func(), err error) {
	if f.out != "" {
		clean, err = saved.ClaimDir(f.out)
		return f.out, clean, err
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

// defaults returns the options of `lapse run` without flags.
func defaults() *spec.Options {
	var o spec.Options
	runFlags(&o, &cobra.Command{})
	return &o
}
