package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/correlate/verdict"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen"
	"lapse/loadgen/hey"
	"lapse/timeline"
)

// defaultRate is the default of --rate.
const defaultRate = 200

// calibrateFlags are the flags of `lapse calibrate`.
type calibrateFlags struct {
	request  spec.Options // the request to be sent: its method, headers and host
	duration time.Duration
	workers  int
	format   string
}

func newCalibrate() *cobra.Command {
	c := calibrateFlags{request: spec.Options{Spec: spec.Spec{Scheme: "http"}}}
	cmd := &cobra.Command{
		Use:   "calibrate URL",
		Short: "Find out what a target can answer, and a --rate that costs it 1 % of that",
		Long: `Load a URL to its limit for some seconds, and suggest a --rate at which probes cost it at most 1 % of
what it can answer.

This is a load test: it uses all capacity of the target. Each worker sends its next request when the
last one has ended. Lapse doubles the number of workers until the throughput no longer rises, then
repeats the best step: the median is the capacity. The load comes from this machine, by rakyll/hey, for
at most --duration.

Exit code 4: the target failed in some of the repetitions, so there is no rate to suggest.`,
		Example: "  lapse calibrate http://127.0.0.1:8080/",
		Args:    exactly(1, "a URL"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.run(cmd.Context(), args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.DurationVar(&c.duration, "duration", 30*time.Second, "the longest it may take")
	f.IntVar(&c.workers, "max-workers", 256, "the most requests at once")
	f.StringArrayVarP(&c.request.Headers, "header", "H", nil, "a request `HEADER`, 'Name: value' (repeatable)")
	f.StringVar(&c.request.Method, "method", "GET", "request method; what it changes, it changes thousands of times")
	f.StringVar(&c.request.Host, "host", "", "Host header, where it differs from the URL's")
	f.StringVarP(&c.format, "output", "o", "table", "result on standard output: json, table")
	return cmd
}

// config checks the arguments.
func (c *calibrateFlags) config(arg string) (hey.CalibrateConfig, error) {
	var config hey.CalibrateConfig
	s, err := spec.ParseTarget(arg)
	switch {
	case err != nil:
		return config, err
	case s.Service != "":
		hint := fmt.Sprintf("where it answers, give its URL, as in `lapse calibrate http://%s.NAMESPACE.svc%s` in a "+
			"Pod of the cluster; a port-forward would measure itself", s.Service, s.Path)
		return config, exit.Usagef(hint, "target %s: a Service is not loaded from here", s)
	case s.URL.Scheme != "http" && s.URL.Scheme != "https":
		const hint = "as in `lapse calibrate http://127.0.0.1:8080/`"
		return config, exit.Usagef(hint, "target %s: only http and https can be calibrated", s)
	case c.format != "table" && c.format != "json":
		return config, exit.Usagef("one of: json, table", "unknown output format %q", c.format)
	}
	if err := c.request.CheckRequest(); err != nil {
		return config, err
	}
	config = hey.CalibrateConfig{
		Probe: loadgen.Probe{
			Target: timeline.Target{URL: s.URL.String()},
			Method: c.request.Method, Host: c.request.Host, Header: c.request.Header,
		},
		Duration: c.duration, Workers: c.workers,
	}
	if err := config.Check(); err != nil {
		return config, exit.Usagef("see `lapse calibrate --help`", "%w", err)
	}
	return config, nil
}

func (c *calibrateFlags) run(ctx context.Context, arg string, stdout, stderr io.Writer) error {
	config, err := c.config(arg)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	u, _ := url.Parse(config.Probe.URL)
	_, requests := config.Bound()
	fmt.Fprintf(stderr, "lapse: loading %s to its limit from here: at most %v, %d requests at once, %d in all. "+
		"Not for production at its peak.\n", u.Redacted(), config.Duration, config.Workers, requests)
	config.Progress = func(s hey.Step) { fmt.Fprintln(stderr, "lapse: "+s.String()) }
	found, err := hey.Calibrate(ctx, config)
	switch {
	case ctx.Err() != nil:
		return exit.Stopped("calibrate %s: stopped", u.Redacted())
	case err != nil:
		const hint = "is the address right, and does it answer a plain request well? --header, --host and --method " +
			"say how to ask"
		return exit.Usagef(hint, "calibrate %s: %w", u.Redacted(), err)
	}
	if hey.IsThisMachine(u.Hostname()) {
		found.Notes = append(found.Notes, noteThisMachine)
	}
	found.Notes = append(found.Notes, noteHey)
	result := calibrated{SchemaVersion: 2, URL: u.Redacted(), Calibration: found}
	if err := c.print(stdout, result); err != nil {
		return err
	}
	return result.verdict()
}

func (c *calibrateFlags) print(stdout io.Writer, result calibrated) error {
	if c.format == "json" {
		encoder := json.NewEncoder(stdout)
		encoder.SetIndent("", "  ")
		return encoder.Encode(result)
	}
	return result.Print(stdout, result.URL, defaultRate, terminal.StyleOf(stdout).Unicode)
}

const (
	noteThisMachine = "the target is on this machine: it and the load share its processors, " +
		"alone it may answer more"
	noteHey = "hey retries silently, accepts truncated bodies and skips certificate checks: " +
		"successes are an upper bound"
)

// calibrated is the result. Lengths of time are in nanoseconds.
type calibrated struct {
	SchemaVersion int    `json:"schemaVersion"`
	URL           string `json:"url"`
	hey.Calibration
}

// verdict is inconclusive if no rate can be suggested.
func (c calibrated) verdict() error {
	if len(c.Suggestions) == 0 {
		return exit.With(verdict.ExitInconclusive, nil)
	}
	return nil
}
