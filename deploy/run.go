package deploy

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube"
)

// A Cluster is where a run takes place: a client, and its configuration for the tunnel to the agent.
type Cluster struct {
	Client kube.Client
	REST   *rest.Config
	Logger *slog.Logger // optional
	Notify func(string) // optional: gets a sentence about what a call waits for; it must not block

	// CreateWait is how long to wait until Pods are created and scheduled, for which an autoscaler may add a node; 0 is
	// no limit. A scheduled Pod may take as long as it needs to pull its image.
	CreateWait time.Duration
}

func (c Cluster) logger() *slog.Logger {
	if c.Logger == nil {
		return slog.New(slog.DiscardHandler)
	}
	return c.Logger
}

func (c Cluster) notify(what string) {
	if c.Notify != nil {
		c.Notify(what)
	}
}

// waiting begins a notice about what a run waits for.
const waiting = "waiting for "

// askAgain is the interval of polling where there is no watch.
const askAgain = 100 * time.Millisecond

// A Run is a run in the cluster, as seen from a workstation.
type Run struct {
	Cluster
	Namespace string
	Name      string
	Job       *batchv1.Job // as it was when created or found
	created   bool         // by [Create]: the Job owns the objects in its namespace
	outline   Config       // by [Create]: the objects, without their contents
}

// A NoRunError says that no run has that name.
type NoRunError struct{ Namespace, Run string }

func (e *NoRunError) Error() string {
	return fmt.Sprintf("namespace %s has no run %q", e.Namespace, e.Run)
}

func noRun(namespace, run string) error {
	return hint.Add("`lapse status -n "+namespace+"` lists the runs there are", &NoRunError{namespace, run})
}

// Find returns the run of that name, or a [NoRunError].
func Find(ctx context.Context, cluster Cluster, namespace, name string) (*Run, error) {
	job, err := cluster.Client.Jobs(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !ours(job) {
		return nil, noRun(namespace, name)
	}
	if err != nil {
		return nil, fmt.Errorf("find run %s: %w", name, err)
	}
	return &Run{Cluster: cluster, Namespace: namespace, Name: name, Job: job}, nil
}

// List returns the runs in the namespace (all namespaces if empty), oldest first.
func List(ctx context.Context, cluster Cluster, namespace string) ([]*Run, error) {
	jobs, err := cluster.Client.Jobs(namespace).List(ctx, metav1.ListOptions{LabelSelector: RunLabel})
	if err != nil {
		return nil, fmt.Errorf("list runs: %w", err)
	}
	var runs []*Run
	for i := range jobs.Items {
		job := &jobs.Items[i]
		runs = append(runs, &Run{Cluster: cluster, Namespace: job.Namespace, Name: job.Name, Job: job})
	}
	slices.SortFunc(runs, func(a, b *Run) int { return a.Job.CreationTimestamp.Compare(b.Job.CreationTimestamp.Time) })
	return runs, nil
}

func (r *Run) selector() string { return RunLabel + "=" + r.Name }

// owns reports whether the Pod belongs to this run's Job, and not to an earlier one of the same name.
func (r *Run) owns(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, r.Job) }

// Pod returns the run's Pod, the youngest if there are several, or nil if there is none.
func (r *Run) Pod(ctx context.Context) (*corev1.Pod, error) {
	pods, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.selector()})
	if err != nil {
		return nil, fmt.Errorf("find the Pod of run %s: %w", r.Name, err)
	}
	own := slices.DeleteFunc(pods.Items, func(pod corev1.Pod) bool { return !r.owns(&pod) })
	if len(own) == 0 {
		return nil, nil
	}
	youngest := slices.MaxFunc(own, func(a, b corev1.Pod) int {
		return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
	})
	return &youngest, nil
}

// AskStatus returns the status of the run's agent. It repeats failed requests until ctx ends.
func (r *Run) AskStatus(ctx context.Context) (agent.Status, error) {
	client, err := r.Agent(ctx)
	if err != nil {
		return agent.Status{}, err
	}
	defer client.Close()
	return client.Status(ctx)
}

// Agent returns a client of the run's agent, if its Pod runs. If the Pod has ended, the error is an [agent.GoneError].
func (r *Run) Agent(ctx context.Context) (*agent.Client, error) {
	pod, err := r.Pod(ctx)
	switch {
	case err != nil:
		return nil, err
	case r.isToStart(pod):
		return nil, &NotStartedError{Run: r.Name, WaitsFor: situation(pod)}
	case pod == nil:
		return nil, noPod(r)
	case !isRunning(pod):
		return nil, goneError(pod, ending(pod), true)
	}
	tunnel, err := tunnelTo(r.REST, pod)
	if err != nil {
		return nil, err
	}
	return tunnel.Client(), nil
}

// A NotStartedError says that a run's Pod does not exist yet, or does not run yet.
type NotStartedError struct{ Run, WaitsFor string }

func (e *NotStartedError) Error() string {
	return fmt.Sprintf("run %s has not started yet: it waits for %s", e.Run, e.WaitsFor)
}

// HasEnded reports whether the Pod of a run's Job has ended, so that nothing can be asked of it.
func HasEnded(job *batchv1.Job) bool {
	return job.Status.Active == 0 && job.Status.Succeeded+job.Status.Failed > 0
}

// isToStart reports whether the run's agent has not run yet, and still may. pod is the run's Pod, nil for none.
func (r *Run) isToStart(pod *corev1.Pod) bool {
	if pod == nil {
		return !HasEnded(r.Job)
	}
	begun := isRunning(pod) || agentEnding(pod) != nil
	ended := pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded
	return !begun && !ended && pod.DeletionTimestamp == nil
}

func noPod(run *Run) error {
	return hint.Errorf("its result is lost, unless somebody has fetched it", "run %s has no Pod any more", run.Name)
}
