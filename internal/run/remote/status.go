// Package remote lists the runs in a cluster, ends them and fetches their results. It measures nothing.
package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/run/access"
	"lapse/timeline"
)

// List prints the runs in the cluster, and the leftovers of runs without a Job.
func List(ctx context.Context, c *access.Cluster, stdout, stderr io.Writer) error {
	left, unseen, err := deploy.Leftovers(ctx, c.Deploy(nil), c.Namespace)
	if err != nil {
		return err
	}
	runs, err := deploy.List(ctx, c.Deploy(nil), c.Namespace)
	if err != nil {
		return err
	}
	if len(runs)+len(left) == 0 {
		if err := c.NamespaceExists(ctx); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "no runs in namespace %s\n", c.Namespace)
		printNotListed(stderr, unseen)
		return nil
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RUN\tCREATED\tSTATE")
	row := func(name string, created time.Time, state string) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, created.UTC().Format("2006-01-02 15:04:05"), state)
	}
	states := make([]string, len(runs))
	var asking sync.WaitGroup
	for i, r := range runs {
		asking.Go(func() { states[i] = stateOf(ctx, r) })
	}
	asking.Wait()
	for i, r := range runs {
		row(r.Name, r.Job.CreationTimestamp.Time, states[i])
	}
	for _, l := range left {
		row(l.Run, l.Created, "its Job is gone; left behind: "+strings.Join(l.Kinds, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintf(stderr, "`lapse delete -n %s RUN` removes what is left behind\n", c.Namespace)
	}
	printNotListed(stderr, unseen)
	return nil
}

func printNotListed(stderr io.Writer, kinds []string) {
	if len(kinds) > 0 {
		fmt.Fprintf(stderr, "not looked for, for want of the right to list them: %s\n", strings.Join(kinds, ", "))
	}
}

// stateOf returns the state of a run. It asks the Pod, if that runs.
func stateOf(ctx context.Context, r *deploy.Run) string {
	switch s := r.Job.Status; {
	case s.Active > 0:
		ctx, cancel := context.WithTimeout(ctx, statusTimeout)
		defer cancel()
		status, err := r.AskStatus(ctx)
		return stateOfPod(status, err)
	case s.Succeeded > 0:
		return "ended, exit code 0" + left(ctx, r)
	case s.Failed > 0:
		return "ended, with another exit code" + left(ctx, r)
	case r.Job.Spec.Suspend != nil && *r.Job.Spec.Suspend:
		return "suspended: it was not made whole, or somebody has suspended it"
	}
	return "not started yet: it waits for the Job to create its Pod"
}

// statusTimeout is how long a run's Pod may take to answer.
const statusTimeout = 3 * time.Second

// stateOfPod returns the state of a run by its Pod's answer.
func stateOfPod(status agent.Status, err error) string {
	gone, isGone := errors.AsType[*agent.GoneError](err)
	waits, isWaiting := errors.AsType[*deploy.NotStartedError](err)
	switch {
	case isWaiting:
		return "not started yet: it waits for " + waits.WaitsFor
	case isGone:
		return "its Pod " + gone.Detail
	case err != nil:
		return "its Pod runs, and does not answer: it begins, or ends" // the error is of the tunnel, and long
	case status.Phase == timeline.PhaseEnded && status.Detail != "":
		return "ended (" + status.Detail + "), holds its result"
	case status.Phase == timeline.PhaseEnded:
		return "ended, holds its result"
	}
	return fmt.Sprintf("%s, for %s so far", status.Phase, quantity.Span(status.Now.Round(time.Second)))
}

// left returns a notice that the Pod of an ended run is gone, or "".
func left(ctx context.Context, r *deploy.Run) string {
	if pod, err := r.Pod(ctx); err == nil && pod == nil {
		return "; its Pod is gone, with what was not fetched"
	}
	return ""
}

// Stop asks the run behind client to settle, if it has not ended.
func Stop(ctx context.Context, client *agent.Client, run *deploy.Run, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the Pod does not answer"))
	defer cancel()
	status, err := client.Status(ctx)
	if err == nil && status.Phase != timeline.PhaseEnded {
		err = client.Settle(ctx, "stopped by `lapse stop`")
	}
	if err != nil {
		return fmt.Errorf("stop run %s: %w", run.Name, err)
	}
	said := "settles and ends"
	if status.Phase == timeline.PhaseEnded {
		said = "had ended already"
	}
	fmt.Fprintf(stderr, "run %s %s; `lapse retrieve -n %s %[1]s` fetches its result\n", run.Name, said, run.Namespace)
	return nil
}
