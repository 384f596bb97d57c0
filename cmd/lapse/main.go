// Lapse tells exactly when, for how long and why a Kubernetes Service dropped requests during a
// drain, rollout, upgrade or crash.
//
// This package turns flags into verbs, and owns the one loop in which the parts meet: probes
// (loadgen) and the cluster's events (watcher) become facts, facts are recorded (record), judged
// (correlate), shown (dashboard) and reported (report). Installed as kubectl-lapse it is also the
// kubectl plugin `kubectl lapse`.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"lapse/correlate/verdict"
)

// Set by the linker; a build without it says so.
var (
	version = "dev"
	image   = "lapse:dev" // of the Job, where no other is asked for
)

func main() {
	os.Exit(lapse(context.Background(), os.Args, os.Stdout, os.Stderr))
}

// lapse runs the command line args[1:] and returns the exit code.
func lapse(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	root := newRoot(filepath.Base(args[0]), stdout, stderr)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	tell(stderr, err)
	return codeOf(err)
}

// tell says what went wrong, and what to do about it.
func tell(stderr io.Writer, err error) {
	if e, ok := errors.AsType[exitCode](err); ok {
		err = e.trouble
	}
	if err == nil {
		return
	}
	fmt.Fprintf(stderr, "lapse: %v\n", err)
	if hint := hintOf(err); hint != "" {
		for line := range strings.SplitSeq(hint, "\n") {
			fmt.Fprintf(stderr, "hint: %s\n", line)
		}
	}
}

// codeOf is the exit code of a verb that ended with err.
func codeOf(err error) int {
	if err == nil {
		return 0
	}
	if e, ok := errors.AsType[exitCode](err); ok {
		return e.code
	}
	if _, ok := errors.AsType[stoppedError](err); ok {
		return verdict.ExitAborted
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	return exitInternal
}

func newRoot(name string, stdout, stderr io.Writer) *cobra.Command {
	use := "lapse"
	if strings.HasPrefix(name, "kubectl-") {
		use = "kubectl lapse"
	}
	root := &cobra.Command{
		Use:           use,
		Short:         "When, for how long and why did a Service drop requests?",
		Long:          rootHelp,
		Version:       version,
		Args:          noSuchVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: use},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return refuse("see `"+cmd.CommandPath()+" --help`", "%w", err)
	})
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.HiddenDefaultCmd = true
	root.AddCommand(
		newRun(), newReport(), newServe(), newDiff(), newExport(),
		newSelftest(), newCalibrate(),
		newGen(), newStatus(), newAttach(), newStop(), newRetrieve(), newDelete(),
		newSchema(),
	)
	return root
}

// noSuchVerb refuses what is no verb.
func noSuchVerb(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	hint := "see `" + cmd.CommandPath() + " --help`"
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "?"
	}
	return refuse(hint, "unknown verb %q", args[0])
}

const rootHelp = `Lapse sends a steady stream of requests to a Service, watches the Service's Pods and endpoints on the
same clock, and says when requests failed, for how long, how sure it is, and what caused it.

Exit codes:
  0  passed, or nothing was asked to fail on
  1  something broke; or not all of the run is on disk
  2  nothing was measured: the arguments, the Service, the rights or the cluster's rules do not allow it
  3  a gate (--fail-if) failed
  4  inconclusive: too little was observed, or the error bars cannot decide a gate
  5  the wrapped command failed
  6  aborted`
