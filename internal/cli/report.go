package cli

import (
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/correlate/model"
	"lapse/internal/report"
	"lapse/internal/run/exit"
	"lapse/internal/run/judging"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
)

// reportFlags are the flags with which a saved run is judged again.
type reportFlags struct {
	join  time.Duration
	slow  time.Duration
	gates []string

	resolution time.Duration
	coverage   string

	nodeCoverage string

	changed func(flag string) bool // whether a flag was given
}

func (f *reportFlags) add(cmd *cobra.Command) {
	set := cmd.Flags()
	f.changed = set.Changed
	set.DurationVar(&f.join, "join", 0,
		"failures less than this apart are one window (default: as the run was judged)")
	set.DurationVar(&f.slow, "slow", 0, slowUsage+" (default: as the run was judged)")
	set.DurationVar(&f.resolution, "resolution", 0, resolutionUsage+" (default: as the run was judged)")
	set.StringVar(&f.coverage, "min-coverage", "", minCoverageUsage+" (default: as the run was judged)")
	set.StringVar(&f.nodeCoverage, "min-node-coverage", "", minNodeCoverageUsage+" (default: as the run was judged)")
	set.StringArrayVar(&f.gates, "fail-if", nil, "a gate `EXPR`, instead of the run's own (repeatable)")
}

func (f *reportFlags) load(path string) (*model.Timeline, error) {
	switch {
	case f.join <= 0 && f.changed("join"):
		return nil, exit.Usagef(judging.JoinHint, "join %v: must be greater than 0", f.join)
	case f.slow <= 0 && f.changed("slow"):
		return nil, exit.Usagef("", "slow %v: must be greater than 0", f.slow)
	}
	if err := judging.CheckResolution(f.resolution, f.changed("resolution")); err != nil {
		return nil, err
	}
	o := correlate.Options{Join: f.join, Slow: f.slow, Resolution: f.resolution}
	if f.changed("min-coverage") {
		share, err := judging.ParseCoverage(f.coverage)
		if err != nil {
			return nil, err
		}
		o.MinCoverage = share
	}
	share, err := judging.ParseNodeCoverage(f.nodeCoverage)
	if err != nil {
		return nil, err
	}
	o.MinNodeCoverage = share
	if _, err := judging.ParseGates(f.gates); err != nil {
		return nil, err
	}
	return saved.Load(path, o, f.gates)
}

func newReport() *cobra.Command {
	var flags reportFlags
	var as saved.Output
	cmd := &cobra.Command{
		Use:     "report [DIR]",
		Short:   "Judge and print a saved run again",
		Long:    "Report judges a saved run again and prints it. Without a DIR it takes the newest run below runs/.",
		Example: "  lapse report runs/lapse-20261121-101500-ab3d --join 500ms -o json",
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := as.Check(); err != nil {
				return err
			}
			dir, err := oneRun(cmd, args)
			if err != nil {
				return err
			}
			tl, err := flags.load(dir)
			if err != nil {
				return err
			}
			if err := saved.Print(cmd.OutOrStdout(), dir, as, tl); err != nil {
				return err
			}
			return exit.With(tl.Verdict.ExitCode, nil)
		},
	}
	flags.add(cmd)
	outputFlags(&as, cmd.Flags())
	return cmd
}

// oneRun returns the run that is named, or the newest one.
func oneRun(cmd *cobra.Command, args []string) (dir string, err error) {
	switch len(args) {
	case 0:
		return saved.Newest("runs")
	case 1:
		return args[0], nil
	}
	verb := cmd.CommandPath()
	return "", exit.Usagef("see `"+verb+" --help`",
		"%s takes the DIR of one run, such as runs/… (got %d)", verb, len(args))
}

func newServe() *cobra.Command {
	var flags reportFlags
	var addr string
	cmd := &cobra.Command{
		Use:   "serve DIR [DIR]",
		Short: "Serve the page on a saved run, on two to compare them, or on a folder of runs",
		Example: `  lapse serve runs/lapse-20261121-101500-ab3d --dashboard 127.0.0.1:8080
  lapse serve runs/before runs/after
  lapse serve runs`,
		Args: oneOrTwo,
		RunE: func(cmd *cobra.Command, args []string) error {
			folder, several, err := screen.Several(args, flags.load)
			if err != nil {
				return err
			}
			var tl *model.Timeline
			if !several {
				if tl, err = flags.load(args[0]); err != nil {
					return err
				}
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			address, err := screen.Listen(addr)
			if err != nil {
				return err
			}
			defer address.Close()
			if several {
				return address.ServeFolder(ctx, cmd.ErrOrStderr(), folder)
			}
			p, closePage := address.Serve(ctx, cmd.ErrOrStderr())
			defer closePage()
			p.Show(tl, tl.Run.Duration)
			<-ctx.Done()
			return nil
		},
	}
	flags.add(cmd)
	cmd.Flags().StringVar(&addr, "dashboard", "127.0.0.1:8080", "address to serve on")
	return cmd
}

func newSchema() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of timeline.json",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			schema, err := report.Schema()
			if err != nil {
				return err
			}
			_, err = cmd.OutOrStdout().Write(schema)
			return err
		},
	}
}

// oneOrTwo wants a run, a folder of runs, or two runs.
func oneOrTwo(cmd *cobra.Command, args []string) error {
	if len(args) == 2 {
		return nil
	}
	const what = "the DIR of the run to show, such as runs/…, of a folder of runs, or two DIRs to compare"
	return exactly(1, what)(cmd, args)
}

// exactly demands n arguments; what describes them.
func exactly(n int, what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != n {
			verb := cmd.CommandPath()
			return exit.Usagef("see `"+verb+" --help`", "%s needs %s (got %d arguments)", verb, what, len(args))
		}
		return nil
	}
}
