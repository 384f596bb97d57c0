package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"

	"lapse/deploy/agent"
	"lapse/hint"
	"lapse/kube"
)

// A Cluster is where a run takes place: a client, and the configuration it was made from, which the
// tunnel to the agent needs.
type Cluster struct {
	Client kube.Client
	REST   *rest.Config
	Logger *slog.Logger // optional
	Notify func(string) // optional: gets a sentence about what is being waited for; it must not block
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

// A Run is a run in the cluster, as seen from a workstation.
type Run struct {
	Cluster
	Namespace string
	Name      string
	Job       *batchv1.Job // as it was when created or found
	created   bool         // by [Create]: what is in the namespace goes with the Job
	outline   Config       // by [Create]: which objects there are; it has none of their contents
}

// Create creates the run's objects. The Job comes first, suspended, and owns what is made after it in its namespace: that goes
// with the Job, whoever or whatever deletes it, also if this program has crashed meanwhile. When all is there the Job begins.
// If something is refused, what was made before is deleted again.
func Create(ctx context.Context, cluster Cluster, config Config) (*Run, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = placed(ctx, cluster.Client, config)
	run := &Run{Cluster: cluster, Namespace: config.Namespace, Name: config.Name, created: true, outline: config.outline()}
	if err := run.create(ctx, config.Objects()); err != nil {
		if run.Job != nil || !apierrors.IsAlreadyExists(err) {
			run.undo(ctx)
		}
		return nil, err
	}
	if config.NodesAccess || config.severalNamespaces() {
		sweep(ctx, cluster)
	}
	return run, nil
}

func (r *Run) create(ctx context.Context, objects Objects) error {
	objects.Job.Spec.Suspend = new(true)
	for _, object := range objects.jobFirst() {
		created, err := kindOf(object).create(ctx, r.Client, object)
		if err != nil {
			return r.createError(object, err)
		}
		switch created := created.(type) {
		case *batchv1.Job:
			r.Job = created
			objects.belongTo(created)
		case *rbacv1.ClusterRole:
			objects.belongToRole(created)
		}
	}
	if objects.Canary != nil {
		if err := r.waitCanary(ctx); err != nil {
			return err
		}
	}
	return r.begin(ctx)
}

// begin lets the Job create its Pod.
func (r *Run) begin(ctx context.Context) error {
	job, err := r.Client.Jobs(r.Namespace).Patch(ctx, r.Name, types.StrategicMergePatchType, []byte(`{"spec":{"suspend":false}}`), metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("begin Job %s in namespace %s: %w", r.Name, r.Namespace, err)
	}
	r.Job = job
	return nil
}

func (r *Run) createError(object object, err error) error {
	kind, namespace := kindOf(object), cmp.Or(object.GetNamespace(), r.Namespace)
	wrapped := fmt.Errorf("create %s %s in namespace %s: %w", kind, object.GetName(), namespace, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return hint.Add(fmt.Sprintf("an earlier run has this name: `lapse delete -n %s %s` removes it", namespace, r.Name), wrapped)
	case apierrors.IsNotFound(err):
		return hint.Add("does the namespace exist?", wrapped)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return hint.Add(quotaHint(err.Error(), namespace), wrapped)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return hint.Add("the namespace is being deleted: nothing can be created in it any more", wrapped)
	case kind.name == "DaemonSet" && admissionDenied(err):
		return hint.Add("a policy of the cluster refuses the probers' DaemonSet: ask for an exception, or leave out --from to measure from the Job's node alone", wrapped)
	case apierrors.IsForbidden(err):
		return hint.Add(fmt.Sprintf("a policy of the cluster, or a missing right: kubectl auth can-i create %s -n %s", qualified(kind.resource(), kind.group), namespace), wrapped)
	}
	return wrapped
}

// admissionDenied reports whether a webhook or a ValidatingAdmissionPolicy has refused an object. Their status codes are of their own choosing.
// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go
func admissionDenied(err error) bool {
	return strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "denied request")
}

// undo deletes what an unfinished Create left, also if it was ctx that ended it.
func (r *Run) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.Delete(ctx); err != nil {
		r.logger().Warn("cannot clean up", "run", r.Name, "error", err)
	}
}

// placed completes the configuration by what can be read of the nodes; it stays as it is where nothing can.
func placed(ctx context.Context, client kube.Client, config Config) Config {
	config.SpareNodes = slices.Clone(config.SpareNodes)
	for _, selector := range config.Selectors {
		config.SpareNodes = append(config.SpareNodes, nodesOf(ctx, client, config.Namespace, selector)...)
	}
	slices.Sort(config.SpareNodes)
	config.SpareNodes = slices.Compact(config.SpareNodes)
	nodes, err := client.Nodes().List(ctx, metav1.ListOptions{})
	if err == nil && len(nodes.Items) > 0 {
		config.NoStorageRequest = config.NoStorageRequest || !slices.ContainsFunc(nodes.Items, countsStorage)
	}
	return config
}

// nodesOf lists the nodes on which the selected Pods run.
func nodesOf(ctx context.Context, client kube.Client, namespace string, selector map[string]string) []string {
	if len(selector) == 0 {
		return nil
	}
	pods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.Set(selector).String()})
	if err != nil {
		return nil
	}
	var nodes []string
	for _, pod := range pods.Items {
		if pod.Spec.NodeName != "" {
			nodes = append(nodes, pod.Spec.NodeName)
		}
	}
	return nodes
}

// countsStorage reports whether a Pod that requests ephemeral storage can be scheduled to the node. A kubelet
// with localStorageCapacityIsolation off offers none.
func countsStorage(node corev1.Node) bool {
	storage := node.Status.Allocatable[corev1.ResourceEphemeralStorage]
	return !storage.IsZero()
}

// A NoRunError says that there is no Job of a run's name.
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

// Delete deletes all of the run's objects that are there; none there is no error. The Pod is
// sent SIGTERM and goes soon after. Objects that only share the run's name are left alone.
func (r *Run) Delete(ctx context.Context) error {
	var errs []error
	for _, object := range r.parts() {
		kind := kindOf(object)
		err := kind.remove(ctx, r.Client, object.GetNamespace(), object.GetName(), metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		if !apierrors.IsForbidden(err) || !r.spares(kind) {
			errs = append(errs, err)
		}
	}
	if r.outline.Canary {
		errs = append(errs, r.endCanary(ctx))
	}
	return errors.Join(errs...)
}

// parts are the objects that the run may have, in the order in which to delete them. They have no contents.
func (r *Run) parts() []object {
	config := r.outline
	config.Name, config.Namespace, config.NodesAccess = r.Name, r.Namespace, true
	parts := config.Objects().jobFirst()
	slices.Reverse(parts[1:])
	return slices.DeleteFunc(parts, func(part object) bool { return kindOf(part).get == nil })
}

// spares reports whether objects of a kind need not be deleted by somebody who may not do it. The others go with the Job that Create has
// made, and who may not even look at ClusterRoles has created none.
func (r *Run) spares(k kind) bool { return k.cluster || r.created && k.name != "Job" }

// WaitGone waits until the run's Pods are gone after [Run.Delete], so that whatever is done to the cluster next does not
// meet it.
func (r *Run) WaitGone(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		pod, err := r.Pod(ctx)
		if pod != nil || err != nil {
			return false, err
		}
		if !r.outline.hasProbers() && !r.outline.Canary {
			return true, nil
		}
		others, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: r.selector()})
		return err == nil && len(others.Items) == 0, err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the Pods of run %s to go: %w", r.Name, context.Cause(ctx))
	}
	return err
}

// askAgain is how often something is asked that has no watch.
const askAgain = 100 * time.Millisecond

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

// AskStatus asks the run's agent how far it has come, again and again until ctx ends.
func (r *Run) AskStatus(ctx context.Context) (agent.Status, error) {
	client, err := r.Agent(ctx)
	if err != nil {
		return agent.Status{}, err
	}
	defer client.Close()
	return client.Status(ctx)
}

// Agent returns a client of the run's agent, if its Pod runs. If that has ended the error is a [agent.GoneError].
func (r *Run) Agent(ctx context.Context) (*agent.Client, error) {
	pod, err := r.Pod(ctx)
	switch {
	case err != nil:
		return nil, err
	case pod == nil:
		return nil, noPod(r)
	case agentEnding(pod) != nil:
		return nil, goneError(pod, ending(pod), true)
	case !isRunning(pod):
		return nil, fmt.Errorf("run %s does not measure yet: it waits for %s", r.Name, situation(pod))
	}
	tunnel, err := tunnelTo(r.REST, pod)
	if err != nil {
		return nil, err
	}
	return tunnel.Client(), nil
}

func (r *Run) selector() string { return RunLabel + "=" + r.Name }
