package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	batchv1 "k8s.io/api/batch/v1"

	"lapse/correlate"
	"lapse/deploy"
	"lapse/record"
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

// hasEnded reports whether the run's Pod has ended, so that nothing can be asked of it.
func hasEnded(job *batchv1.Job) bool {
	return job.Status.Active == 0 && job.Status.Succeeded+job.Status.Failed > 0
}

// stateOf says how far a run has come: of one whose Pod runs, as the Pod says.
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
	return "waiting"
}

// statusTimeout is how long the Pod of a run has to say how far that has come.
const statusTimeout = 3 * time.Second

// stateOfPod says how far a run has come whose Pod answered so.
func stateOfPod(status deploy.Status, err error) string {
	gone, isGone := errors.AsType[*deploy.GoneError](err)
	switch {
	case isGone:
		return "its Pod " + gone.Detail
	case err != nil:
		return "its Pod does not answer: it begins, or ends" // the error is of the tunnel, and long
	case status.Phase == deploy.PhaseEnded && status.Detail != "":
		return "ended (" + status.Detail + "), holds its result"
	case status.Phase == deploy.PhaseEnded:
		return "ended, holds its result"
	}
	return fmt.Sprintf("%s, for %v so far", status.Phase, status.Now.Round(time.Second))
}

// left says whether the Pod of a run that has ended is still there.
func left(ctx context.Context, r *deploy.Run) string {
	if pod, err := r.Pod(ctx); err == nil && pod == nil {
		return "; its Pod is gone, with what was not fetched"
	}
	return ""
}

func newRetrieve() *cobra.Command {
	var kube kubeOptions
	var out, format string
	cmd := &cobra.Command{
		Use:   "retrieve RUN",
		Short: "Fetch the result of a run in the cluster",
		Long: `Fetch the result of a run in the cluster: its recording while the Pod holds it, else the timeline from the Pod's log, else the verdict.

A run that goes on is followed to its end; "lapse stop" ends it now. What has come is kept, whatever happens to the rest, as facts.partial.lapse:
the same command goes on from there.`,
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
			run.Notify = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
			return retrieve(ctx, run, deploy.Retrieve, cmp.Or(out, filepath.Join("runs", args[0])), format, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kube.flags(cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "directory for what is fetched (default runs/RUN)")
	cmd.Flags().StringVarP(&format, "output", "o", "table", "format: "+formatNames())
	return cmd
}

// A fetcher brings a run's result home as [deploy.Retrieve] does.
type fetcher func(ctx context.Context, run *deploy.Run, have io.Reader, w io.Writer) (deploy.Retrieved, error)

// retrieve fetches a run's result into dir, and prints it. What it fetched it keeps, also if the rest does not come.
func retrieve(ctx context.Context, run *deploy.Run, fetch fetcher, dir, format string, stdout, stderr io.Writer) error {
	if err := createDir(dir); err != nil {
		return err
	}
	part, err := openPart(dir, run)
	if err != nil {
		return err
	}
	got, err := fetch(ctx, run, part.have, part)
	if closeErr := part.file.Close(); err == nil {
		err = closeErr
	}
	kept := part.keep()
	switch {
	case isOther(err) && part.have != nil:
		return withHint("remove it, and try again", "%s is damaged, or a part of another run: %w", part.path, err)
	case err != nil && kept > 0:
		fmt.Fprintf(stderr, "kept the %d bytes that came, in %s: `lapse report` shows them, and `lapse retrieve -n %s %s --out %s` fetches the rest\n",
			kept, part.path, run.Namespace, run.Name, dir)
		return stoppedOr(ctx, err)
	case err != nil:
		os.Remove(dir) // only if nothing else is in it
		return stoppedOr(ctx, err)
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

// isOther reports whether what was fetched is not the Pod's recording.
func isOther(err error) bool {
	_, other := errors.AsType[*deploy.ChecksumError](err)
	refusal, refused := errors.AsType[*deploy.AgentError](err)
	return other || refused && refusal.Status == http.StatusRequestedRangeNotSatisfiable
}

// A part is the recording of a run while it is fetched. It has another name than a whole one, and what an earlier try has fetched is
// continued.
type part struct {
	path string
	file *os.File
	have io.Reader // what was there before; nil: nothing
}

// openPart opens the part of the run's recording in dir, or begins one.
func openPart(dir string, run *deploy.Run) (*part, error) {
	p := &part{path: filepath.Join(dir, partialFile)}
	have, err := os.ReadFile(p.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("continue the recording: %w", err)
	}
	if id, ok := idOf(p.path); ok && id != run.Name {
		return nil, refuse("give another --out", "%s is a part of run %s, not of %s", p.path, id, run.Name)
	}
	if len(have) > 0 {
		p.have = bytes.NewReader(have)
	}
	if p.file, err = os.OpenFile(p.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
		return nil, fmt.Errorf("keep the recording: %w", err)
	}
	return p, nil
}

// idOf is the ID of the run whose recording begins the file at path, if that can be read.
func idOf(path string) (id string, ok bool) {
	f, err := record.Open(path)
	if err != nil {
		return "", false
	}
	defer f.Close()
	run, err := f.Run()
	if err != nil && !isDamage(err) || run.Meta.ID == "" {
		return "", false
	}
	return run.Meta.ID, true
}

func (p *part) Write(b []byte) (int, error) { return p.file.Write(b) }

// Sync makes the whole recording safe, under its name: the Pod is told after that.
func (p *part) Sync() error {
	if err := syncFile(p.file); err != nil {
		return err
	}
	return renameFile(p.path, filepath.Join(filepath.Dir(p.path), factsFile))
}

// keep returns how many bytes are there of a recording that is not whole. A part of nothing is removed.
func (p *part) keep() int64 {
	info, err := os.Stat(p.path)
	if err != nil {
		return 0
	}
	if info.Size() == 0 {
		os.Remove(p.path)
	}
	return info.Size()
}

func newStop() *cobra.Command {
	var kube kubeOptions
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "End a run in the cluster early, with its result kept",
		Long: `End a run that goes on in the cluster, such as one whose workstation has crashed. It settles as it would have after its command, and then
holds its result for --hold: fetch it with "lapse retrieve". A command that still runs on a workstation is not touched.`,
		Example: "  lapse stop lapse-20261121-101500-ab3d -n shop",
		Args:    exactly(1, "the RUN to end, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			run, err := kube.findRun(ctx, args[0], newLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			agent, err := run.Agent(ctx)
			if err != nil {
				return err
			}
			defer agent.Close()
			return stopRun(ctx, agent, run, cmd.ErrOrStderr())
		},
	}
	kube.flags(cmd.Flags())
	return cmd
}

// stopRun tells the run behind agent to settle, if it goes on.
func stopRun(ctx context.Context, agent *deploy.Agent, run *deploy.Run, stderr io.Writer) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the Pod does not answer"))
	defer cancel()
	status, err := agent.Status(ctx)
	if err == nil && status.Phase != deploy.PhaseEnded {
		err = agent.Settle(ctx, "stopped by `lapse stop`")
	}
	if err != nil {
		return fmt.Errorf("stop run %s: %w", run.Name, err)
	}
	said := "is told to settle and end"
	if status.Phase == deploy.PhaseEnded {
		said = "had ended already"
	}
	fmt.Fprintf(stderr, "run %s %s; `lapse retrieve -n %s %s` fetches its result\n", run.Name, said, run.Namespace, run.Name)
	return nil
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
