// Package precheck is `lapse preflight`: it predicts what will go wrong with Services, and prints that.
package precheck

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2/maybe"

	"lapse/correlate/quantity"
	"lapse/internal/hint"
	"lapse/internal/hint/input"
	"lapse/internal/preflight"
	"lapse/internal/preflight/cluster"
	"lapse/internal/preflight/manifest"
	"lapse/internal/preflight/output"
	"lapse/internal/preflight/rules"
	"lapse/internal/preflight/service"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/terminal"
	"lapse/internal/run/version"
)

// Verb predicts what will go wrong with Services.
type Verb struct {
	access.Kube
	Manifests      []string // files, directories or "-"; none: the cluster is asked
	Validation     string   // what becomes of fields that do not exist
	Node           string   // that will be drained
	Format         string
	Rules, Skip    []string      // by ID or name
	FailOn         string        // the least severity that fails
	Baseline       string        // a file; "": none
	WriteBaseline  string        // a file; "": none
	RouteLag       time.Duration // as measured; 0: it is assumed
	LongestRequest time.Duration // 0: not known
	RequestTimeout time.Duration // of each request to the API server
}

// Run prints what is predicted of the Services and workloads that args name, or without any of all Services. The error
// has the exit code.
func (o *Verb) Run(ctx context.Context, args []string, in io.Reader, stdout io.Writer) error {
	start := time.Now()
	targets, err := o.check(args)
	if err != nil {
		return exit.AsUsage(err)
	}
	chosen, err := preflight.Choose(o.Rules, o.Skip)
	if err != nil {
		return exit.AsUsage(hint.Add("`lapse preflight --help` lists them", err))
	}
	var baseline preflight.Baseline
	if o.Baseline != "" {
		if baseline, err = preflight.ReadBaseline(o.Baseline); err != nil {
			return exit.AsUsage(err)
		}
	}
	report, trouble := o.judge(ctx, targets, chosen, in)
	if report == nil {
		return trouble
	}
	report.Accept(baseline)
	report.Tool = preflight.Tool{Name: "lapse", Version: version.Version}
	report.At, report.Took = start, time.Since(start)
	report.Conclude(preflight.Threshold(o.FailOn))
	if o.WriteBaseline != "" && trouble == nil {
		return o.writeBaseline(report, stdout)
	}
	format := output.Formats[slices.IndexFunc(output.Formats, o.isFormat)]
	if o.Format != "table" || len(report.Services) > 0 { // what is wrong with the files is on standard error
		if err := format.Write(stdout, report, terminal.StyleOf(stdout).Screen); err != nil {
			return err
		}
	}
	switch report.Verdict.Result {
	case preflight.Unreadable:
		return exit.With(exit.Usage, trouble)
	case preflight.Unknown:
		const advice = "add what makes these Pods with another -f, " +
			"or accept it: the annotation " + preflight.IgnoreAnnotation + ", --baseline, or --skip LP00"
		of := quantity.Count(report.Verdict.Unknown, "Service")
		return exit.With(report.Verdict.ExitCode, hint.Errorf(advice, "nothing is known of the Pods behind %s", of))
	}
	return exit.With(report.Verdict.ExitCode, nil)
}

// judge reads what is asked for and asks the rules. What could not be read is in the report, and the error; without a
// report nothing could be asked.
func (o *Verb) judge(
	ctx context.Context, targets []service.Target, chosen preflight.Choice, in io.Reader,
) (*preflight.Report, error) {
	var states []*service.State
	var m *manifest.Manifests
	var trouble error
	if len(o.Manifests) > 0 {
		m = manifest.Read(o.Manifests, in, manifest.Validation(o.Validation), preflight.Ignored)
		states, trouble = o.fromManifests(m, targets)
	} else {
		var err error
		if states, err = o.fromCluster(ctx, targets); err != nil {
			return nil, err
		}
	}
	for _, s := range states {
		if o.RouteLag > 0 {
			s.RouteLag = service.Lag{Most: o.RouteLag}
		}
		s.Node, s.LongestRequest = o.Node, o.LongestRequest
		if err := s.CheckNode(); err != nil {
			return nil, exit.AsUsage(err)
		}
	}
	report := preflight.JudgeAll(states, chosen)
	if m != nil {
		report.Locate(m)
		report.Problems = append(report.Problems, m.Problems...)
		report.Notes = append(report.Notes, m.Notes()...)
	}
	return report, trouble
}

// fromManifests returns what the manifests have of the targets. What is missing is a problem of the files as well.
func (o *Verb) fromManifests(m *manifest.Manifests, targets []service.Target) ([]*service.State, error) {
	states, err := m.States(o.Namespace, targets)
	trouble := m.Err()
	if err != nil { // it may be in a file that cannot be read
		problem := manifest.Problem{Place: manifest.Place{File: o.Manifests[0]}, Text: err.Error()}
		m.Problems = append(m.Problems, problem)
		trouble = hint.Add(cmp.Or(hint.Of(trouble), hint.Of(err)), joined(trouble, err))
	}
	return states, trouble
}

// fromCluster returns what the cluster has of the targets.
func (o *Verb) fromCluster(ctx context.Context, targets []service.Target) ([]*service.State, error) {
	c, err := o.Connect(ctx)
	if err != nil {
		return nil, err
	}
	asking := cluster.Asking{Timeout: o.RequestTimeout, Advise: true}
	states, err := cluster.States(ctx, c.Client, c.Namespace, targets, asking)
	if ctx.Err() != nil {
		return nil, exit.Stopped("stopped before the cluster was read")
	}
	return states, exit.AsUsage(err)
}

// joined are two errors in lines of their own.
func joined(a, b error) error {
	if a == nil {
		return b
	}
	return fmt.Errorf("%w\n%w", a, b)
}

// writeBaseline writes all that was found as accepted.
func (o *Verb) writeBaseline(report *preflight.Report, stdout io.Writer) error {
	text, err := report.Baseline()
	if err != nil {
		return err
	}
	if err := maybe.WriteFile(o.WriteBaseline, text, 0o644); err != nil {
		return fmt.Errorf("write baseline: %w", err)
	}
	n := 0
	for i := range report.Services {
		n += len(report.Services[i].Findings)
	}
	accepted := quantity.Count(n+report.Verdict.Accepted, "finding")
	const written = "%s: %s accepted, %d of them new: say why in each reason\n"
	_, err = fmt.Fprintf(stdout, written, o.WriteBaseline, accepted, n)
	return err
}

// check refuses what cannot be meant. Further files may follow the one after -f, as a shell makes of *.yaml.
func (o *Verb) check(args []string) (targets []service.Target, err error) {
	for _, arg := range args {
		if len(o.Manifests) > 0 && isPath(arg) {
			o.Manifests = append(o.Manifests, arg)
			continue
		}
		t, err := service.ParseTarget(arg)
		if err != nil {
			if isPath(arg) {
				err = hint.Errorf("lapse preflight -f "+arg, "%q is a file: name it with -f", arg)
			}
			return nil, err
		}
		targets = append(targets, t)
	}
	return targets, o.checkFlags()
}

// isFormat reports whether a format is the one that is asked for.
func (o *Verb) isFormat(f output.Format) bool { return f.Name == o.Format }

// checkFlags refuses values that do not exist, and flags that have no effect.
func (o *Verb) checkFlags() error {
	const askCluster = "leave -f out to ask the cluster"
	switch {
	case !slices.ContainsFunc(output.Formats, o.isFormat):
		return hint.Errorf("one of: "+Formats(), "unknown output format %q", o.Format)
	case !slices.Contains(preflight.Thresholds, preflight.Threshold(o.FailOn)):
		return hint.Errorf("one of: "+Thresholds(), "--fail-on: unknown severity %q", o.FailOn)
	case !slices.Contains(manifest.Validations, manifest.Validation(o.Validation)):
		return hint.Errorf("one of: "+Validations(), "--validate: unknown %q", o.Validation)
	case o.RequestTimeout <= 0:
		return fmt.Errorf("request-timeout %v: must be greater than 0", o.RequestTimeout)
	case len(o.Manifests) > 0 && (o.Kubeconfig != "" || o.Context != ""):
		return hint.Errorf(askCluster, "with -f the cluster is not asked: --kubeconfig and --context have no effect")
	case len(o.Manifests) > 0 && o.Node != "":
		return hint.Errorf(askCluster, "manifests do not say where Pods run: with -f, --node has no effect")
	case o.WriteBaseline != "":
		return input.CheckWritable("--write-baseline", o.WriteBaseline)
	}
	return nil
}

// isPath reports whether an argument is a file or a directory, and no target of the same spelling.
func isPath(arg string) bool {
	_, err := os.Stat(arg)
	return err == nil
}

// joinedNames lists the values of a flag.
func joinedNames[S ~string](all []S) string {
	var names []string
	for _, s := range all {
		names = append(names, string(s))
	}
	return strings.Join(names, ", ")
}

// Thresholds lists the values of --fail-on.
func Thresholds() string { return joinedNames(preflight.Thresholds) }

// Validations lists the values of --validate.
func Validations() string { return joinedNames(manifest.Validations) }

// Formats lists the values of --output.
func Formats() string { return output.FormatNames() }

// Rules lists the rules with what each looks for, for help and reference.
func Rules() string {
	var b strings.Builder
	for _, r := range rules.All() {
		fmt.Fprintf(&b, "    %s  %-20s %s\n", r.ID, r.Name, r.Doc)
	}
	return strings.TrimRight(b.String(), "\n")
}
