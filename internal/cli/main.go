// Package cli turns the command line into verbs: a file for each, from flags to one call. What they start is in
// package run and its neighbours. Package cmd/lapse is its main.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"runtime/debug"
	"strings"

	"lapse/internal/hint"
	"lapse/internal/run/exit"
	"lapse/internal/run/version"

	"github.com/spf13/cobra"
)

// Main runs the command line args[1:] and returns the exit code.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer) (code int) {
	defer func() {
		if bug := recover(); bug != nil {
			tellBug(stderr, bug, debug.Stack())
			code = 1
		}
	}()
	root := newRoot(filepath.Base(args[0]), stdout, stderr)
	root.SetArgs(args[1:])
	err := root.ExecuteContext(ctx)
	tell(stderr, err)
	return exit.CodeOf(err)
}

// tell says what went wrong, and what to do about it.
func tell(stderr io.Writer, err error) {
	if e, ok := errors.AsType[exit.Code](err); ok {
		err = e.Trouble
	}
	if err == nil {
		return
	}
	fmt.Fprintf(stderr, "lapse: %v\n", err)
	if hint := hint.Of(err); hint != "" {
		for line := range strings.SplitSeq(hint, "\n") {
			fmt.Fprintf(stderr, "hint: %s\n", line)
		}
	}
}

// bugHints says what to send to the maintainers of this version, and where the measurement is.
const bugHints = "hint: please report it, with the text above, the command line and the version (%s), " +
	"and if you can with the recording\n" +
	"hint: what was measured is kept: `lapse report DIR` shows it; " +
	"`lapse status -n NAMESPACE` lists a run that is still in the cluster\n"

// tellBug says that Lapse has panicked, and what to do about it.
func tellBug(stderr io.Writer, bug any, stack []byte) {
	fmt.Fprintf(stderr, "lapse: this is a bug in Lapse: %v\n\n%s\n", bug, stack)
	fmt.Fprintf(stderr, bugHints, version.Version)
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
		Version:       version.Version,
		Args:          noSuchVerb,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		SilenceErrors: true,
		SilenceUsage:  true,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: use},
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(flagError)
	root.SuggestionsMinimumDistance = 2
	root.CompletionOptions.DisableDefaultCmd = true // newCompletion is it
	root.AddCommand(
		newRun(), newPreflight(), newReport(), newExplain(), newServe(), newDiff(), newTrend(), newExport(),
		newDoctor(), newSelftest(), newCalibrate(), newVersion(), newCompletion(),
		newImage(), newGen(), newStatus(), newAttach(), newStop(), newRetrieve(), newDelete(),
		newGuard(), newGate(), newRoutes(), newSchema(), newProbe(), newCanary(), newMan(),
	)
	nameExamples(root, use)
	groupHelp(root)
	addCompletions(root)
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
	return exit.Usagef(hint, "unknown verb %q", args[0])
}

const rootHelp = `Lapse sends requests to a Service at a constant rate and watches the Service's Pods and endpoints on
the same clock. It reports when requests failed, for how long (with error bars), and the likely cause.`

const exitCodes = `The exit codes of every verb:
  0  passed, or no gate (--fail-if) was set
  1  internal error, or part of the run could not be written to disk
  2  nothing was measured: bad arguments, no such Service, missing rights, or the cluster did not start the Job
  3  a gate (--fail-if) failed, or preflight has findings
  4  inconclusive: too little was observed, the error bars cannot decide a gate, the command changed no
     endpoint, or its rollout did not finish
  5  the wrapped command failed
  6  aborted`
