package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"lapse/correlate"
	"lapse/deploy"
	"lapse/report"
)

func newGen() *cobra.Command {
	o := options{yaml: true}
	var readNodes bool
	cmd := &cobra.Command{
		Use:   "gen TARGET... [flags]",
		Short: "Print the Job and its rights as YAML, to apply by hand",
		Long: `Print what "lapse run svc/…" creates in the cluster, as YAML for kubectl apply -f.

The Job measures for --duration and then holds its result for --hold: fetch it with "lapse retrieve", and remove all of it with
"lapse delete". An hour after its end the Job goes by itself; ServiceAccount, Role and RoleBinding, and with --read-nodes ClusterRole
and ClusterRoleBinding, stay until "lapse delete". It goes where the scheduler puts it: name the nodes that will be drained meanwhile with --avoid-node, or the
drain ends the run.`,
		Example: "  lapse gen svc/web -n shop --duration 5m | kubectl apply -f -",
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() >= 0 || o.duration == 0 {
				return refuse("as in `lapse gen svc/web --duration 5m`", "a Job wraps no command: it measures for a --duration")
			}
			if err := o.check(args, nil); err != nil {
				return err
			}
			if o.services() == 0 {
				return refuse(targetHint, "only Services are measured by a Job")
			}
			o.tellNote(cmd.ErrOrStderr())
			o.id = newID()
			namespace, err := o.kube.meant()
			if err != nil {
				return err
			}
			config := o.jobConfig(namespace)
			config.NodesAccess = readNodes
			if err := config.Validate(); err != nil {
				return asUsage(err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the rights stay in the cluster when the Job is gone: `lapse delete -n %s %s` removes all of it\n", namespace, config.Name)
			return deploy.WriteYAML(cmd.OutOrStdout(), config.Objects().All()...)
		},
	}
	o.flags(cmd)
	cmd.Flags().BoolVar(&readNodes, "read-nodes", false, "also print a ClusterRole and its binding, which let the Job read nodes")
	return cmd
}

func newStatus() *cobra.Command {
	var kube kubeOptions
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the runs in the cluster",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.connect(cmd.Context())
			if err != nil {
				return err
			}
			return listRuns(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kube.flags(cmd.Flags())
	return cmd
}

// listRuns prints the runs in the cluster, and what is left of those whose Job is gone.
func listRuns(ctx context.Context, c *cluster, stdout, stderr io.Writer) error {
	left, unseen, err := deploy.Leftovers(ctx, c.deploy(nil), c.namespace)
	if err != nil {
		return err
	}
	runs, err := deploy.List(ctx, c.deploy(nil), c.namespace)
	if err != nil {
		return err
	}
	if len(runs)+len(left) == 0 {
		if err := c.namespaceExists(ctx); err != nil {
			return err
		}
		fmt.Fprintf(stderr, "no runs in namespace %s\n", c.namespace)
		tellUnseen(stderr, unseen)
		return nil
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "RUN\tCREATED\tSTATE")
	row := func(name string, created time.Time, state string) {
		fmt.Fprintf(table, "%s\t%s\t%s\n", name, created.UTC().Format("2006-01-02 15:04:05"), state)
	}
	for _, r := range runs {
		row(r.Name, r.Job.CreationTimestamp.Time, stateOf(r))
	}
	for _, l := range left {
		row(l.Run, l.Created, "its Job is gone; left behind: "+strings.Join(l.Kinds, ", "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if len(left) > 0 {
		fmt.Fprintf(stderr, "`lapse delete -n %s RUN` removes what is left behind\n", c.namespace)
	}
	tellUnseen(stderr, unseen)
	return nil
}

func tellUnseen(stderr io.Writer, kinds []string) {
	if len(kinds) > 0 {
		fmt.Fprintf(stderr, "not looked for, for want of the right to list them: %s\n", strings.Join(kinds, ", "))
	}
}

func stateOf(r *deploy.Run) string {
	switch s := r.Job.Status; {
	case s.Active > 0:
		return "running or holding its result"
	case s.Succeeded > 0:
		return "ended, exit code 0"
	case s.Failed > 0:
		return "ended, with another exit code"
	case r.Job.Spec.Suspend != nil && *r.Job.Spec.Suspend:
		return "suspended: it was not made whole, or somebody has suspended it"
	}
	return "waiting"
}

func newRetrieve() *cobra.Command {
	var kube kubeOptions
	var out, format string
	cmd := &cobra.Command{
		Use:     "retrieve RUN",
		Short:   "Fetch the result of a run in the cluster",
		Long:    "Fetch the result of a run in the cluster: its recording while the Pod holds it, else the timeline from the Pod's log, else the verdict.",
		Example: "  lapse retrieve lapse -n shop --out runs/nightly",
		Args:    exactly(1, "the RUN to fetch, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkFormat(format); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			run, err := kube.findRun(ctx, args[0], newLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			return retrieve(ctx, run, cmp.Or(out, filepath.Join("runs", args[0])), format, cmd.OutOrStdout())
		},
	}
	kube.flags(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "directory for what is fetched (default runs/RUN)")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+formatNames())
	return cmd
}

// retrieve fetches a run's result into dir, and prints it.
func retrieve(ctx context.Context, run *deploy.Run, dir, format string, stdout io.Writer) error {
	if err := createDir(dir); err != nil {
		return err
	}
	path := filepath.Join(dir, factsFile)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keep the recording: %w", err)
	}
	got, err := deploy.Retrieve(ctx, run, file)
	if closeErr := file.Close(); err == nil {
		err = closeErr
	}
	if got.Receipt.Length == 0 {
		os.Remove(path)
	}
	switch {
	case err != nil:
		os.Remove(dir) // only if nothing came into it
		return err
	case got.From == deploy.FromAgent:
		tl, err := load(dir, correlate.Options{}, nil)
		if err != nil {
			return err
		}
		return deliver(stdout, dir, format, tl)
	case got.From == deploy.FromLog:
		tl, err := report.ReadJSON(bytes.NewReader(got.Timeline))
		if err != nil {
			return err
		}
		return deliver(stdout, dir, format, tl)
	}
	fmt.Fprintf(stdout, "%s\n", got.Verdict)
	return exitWith(verdictCode(got.Verdict), fmt.Errorf("only the verdict of run %s could be had: the Pod was gone before its result was fetched", run.Name))
}

// verdictCode is the exit code that a run's verdict names, else that of something broken.
func verdictCode(verdict json.RawMessage) int {
	var v struct{ ExitCode *int }
	if err := json.Unmarshal(verdict, &v); err != nil || v.ExitCode == nil {
		return exitInternal
	}
	return *v.ExitCode
}

func newDelete() *cobra.Command {
	var kube kubeOptions
	cmd := &cobra.Command{
		Use:   "delete RUN",
		Short: "Remove a run's Job and rights from the cluster",
		Long: `Remove all that carries the run's label from the cluster: its Job and Pod, ServiceAccount, Role, ClusterRole and their bindings; also what
is left of a run whose Job is gone already.`,
		Args: exactly(1, "the RUN to remove, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := kube.connect(cmd.Context())
			if err != nil {
				return err
			}
			return c.noRun(cmd.Context(), deploy.Remove(cmd.Context(), c.deploy(nil), c.namespace, args[0]))
		},
	}
	kube.flags(cmd.Flags())
	return cmd
}
