package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/internal/guard"
	"lapse/internal/run/access"
	"lapse/internal/run/exit"
	"lapse/internal/run/remote"
	"lapse/internal/run/resolve"
	"lapse/internal/run/saved"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
)

func newGen() *cobra.Command {
	o := spec.Options{YAML: true}
	var readNodes bool
	cmd := &cobra.Command{
		Use:   "gen TARGET... [flags]",
		Short: "Print the Job and its rights as YAML, to apply by hand",
		Long: `Print what "lapse run svc/…" creates in the cluster, as YAML for kubectl apply -f.

The Job measures for --duration and then holds its result for --hold: fetch it with "lapse retrieve".
An hour after its end the Job goes by itself; its rights stay until "lapse delete". With --from it also
prints the DaemonSet of the probers, which the Job deletes when it has measured, an empty Secret that it
puts their keys into, and the right to read nodes. The scheduler chooses the Job's node: name with
--avoid-node the nodes that will be drained, or the drain ends the run.`,
		Example: `  lapse gen svc/web -n shop --duration 5m | kubectl apply -f -
  lapse gen svc/web -n shop --duration 5m --from all | kubectl apply -f -`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.ArgsLenAtDash() >= 0 || o.Duration == 0 && !o.Armed {
				return exit.Usagef("as in `lapse gen svc/web --duration 5m`",
					"a Job wraps no command: it measures for a --duration, or waits --armed")
			}
			if err := check(&o, cmd, args, nil); err != nil {
				return err
			}
			if o.CountServices() == 0 {
				return exit.Usagef(spec.TargetHint, "only Services are measured by a Job")
			}
			o.PrintNotes(cmd.ErrOrStderr())
			o.ID = spec.NewID()
			namespace, err := o.Kube.NamespaceOrDefault()
			if err != nil {
				return err
			}
			config, err := resolve.PrintedJob(cmd.Context(), &o, namespace, readNodes)
			if err != nil {
				return exit.AsUsage(err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the rights stay in the cluster when the Job is gone: "+
				"`lapse delete -n %s %s` removes all of it\n", namespace, config.Name)
			return deploy.WriteYAML(cmd.OutOrStdout(), config.Objects().All()...)
		},
	}
	runFlags(&o, cmd)
	cmd.Flags().BoolVar(&readNodes, "read-nodes", false,
		"also print a ClusterRole and its binding, which let the Job read nodes")
	cmd.AddCommand(newGenGuard())
	return cmd
}

func newStatus() *cobra.Command {
	var kube access.Kube
	cmd := &cobra.Command{
		Use:   "status",
		Short: "List the runs in the cluster",
		Args:  exactly(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := kube.Connect(cmd.Context())
			if err != nil {
				return err
			}
			return remote.List(cmd.Context(), c, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kubeFlags(&kube, cmd.Flags())
	return cmd
}

func newRetrieve() *cobra.Command {
	var kube access.Kube
	var out string
	var as saved.Output
	cmd := &cobra.Command{
		Use:   "retrieve RUN|guard",
		Short: "Fetch the result of a run in the cluster, or all runs of a guard",
		Long: `Fetch the result of a run in the cluster: its recording while the Pod holds it, else the timeline from
the Pod's log, else the verdict.

If the run is still in progress, the command waits for its end; "lapse stop" ends it now. If the
transfer breaks, the received part is kept as facts.partial.lapse. Run the same command again to
continue.

"lapse retrieve guard" fetches the runs of the guard in the namespace of -n (default "lapse") into --out
(default runs): those that are not there. Of runs that are gone it fetches the lines of history.`,
		Example: "  lapse retrieve lapse -n shop --out runs/nightly\n  lapse retrieve guard && lapse serve runs",
		Args:    exactly(1, "the RUN to fetch, as `lapse status -n NAMESPACE` lists it, or \"guard\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := as.Check(); err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if args[0] == guardArg {
				return retrieveGuard(ctx, cmd, kube, cmp.Or(out, "runs"))
			}
			job, err := kube.FindRun(ctx, args[0], terminal.NewLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			job.Notify = func(what string) { fmt.Fprintln(cmd.ErrOrStderr(), what) }
			dir := cmp.Or(out, filepath.Join("runs", args[0]))
			return remote.Retrieve(ctx, job, deploy.Retrieve, dir, as, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kubeFlags(&kube, cmd.Flags())
	cmd.Flags().StringVar(&out, "out", "", "directory for what is fetched (default runs/RUN)")
	outputFlags(&as, cmd.Flags())
	return cmd
}

// retrieveGuard fetches the runs of a guard in the cluster.
func retrieveGuard(ctx context.Context, cmd *cobra.Command, kube access.Kube, dir string) error {
	client, err := statusClient(ctx, kube)
	if err != nil {
		return err
	}
	some := false
	err = guard.Fetch(ctx, client, guard.DefaultPrivate, dir, func(run string) {
		some = true
		fmt.Fprintln(cmd.OutOrStdout(), filepath.Join(dir, run))
	})
	if !some {
		err = exit.AsUsage(err)
	}
	return exit.StoppedOr(ctx, err)
}

func newStop() *cobra.Command {
	var kube access.Kube
	cmd := &cobra.Command{
		Use:   "stop RUN",
		Short: "End a run in the cluster early, with its result kept",
		Long: `End a run in progress, such as one whose workstation has crashed. It settles as it would have after its
command, and then holds its result for --hold: fetch it with "lapse retrieve". A command that still runs
on a workstation is not touched.`,
		Example: "  lapse stop lapse-20261121-101500-ab3d -n shop",
		Args:    exactly(1, "the RUN to end, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			job, err := kube.FindRun(ctx, args[0], terminal.NewLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			agent, err := job.Agent(ctx)
			if err != nil {
				return err
			}
			defer agent.Close()
			return remote.Stop(ctx, agent, job, cmd.ErrOrStderr())
		},
	}
	kubeFlags(&kube, cmd.Flags())
	return cmd
}

func newDelete() *cobra.Command {
	var kube access.Kube
	cmd := &cobra.Command{
		Use:   "delete RUN|guard",
		Short: "Remove a run's Job and rights, or a guard, from the cluster",
		Long: `Delete all objects with the run's label: the Job and its Pod, probers, ServiceAccount, Role, ClusterRole
and their bindings. This also works if the Job is already gone.

"lapse delete guard" deletes what "lapse gen guard" printed from the namespace of -n (default "lapse"),
and its Lease. A claim for its runs and a Secret with its token stay.`,
		Args: exactly(1, "the RUN to remove, as `lapse status -n NAMESPACE` lists it, or \"guard\""),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == guardArg {
				return deleteGuard(cmd, kube)
			}
			c, err := kube.Connect(cmd.Context())
			if err != nil {
				return err
			}
			return c.NoRun(cmd.Context(), deploy.Remove(cmd.Context(), c.Deploy(nil), c.Namespace, args[0]))
		},
	}
	kubeFlags(&kube, cmd.Flags())
	return cmd
}

func deleteGuard(cmd *cobra.Command, kube access.Kube) error {
	namespace := cmp.Or(kube.Namespace, deploy.GuardNamespace)
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	c, err := kube.Connect(ctx)
	if err != nil {
		return err
	}
	err = deploy.RemoveGuard(ctx, c.Deploy(nil), namespace)
	if errors.Is(err, deploy.ErrNoGuard) {
		return exit.AsUsage(err)
	}
	return exit.StoppedOr(ctx, err)
}
