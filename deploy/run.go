package deploy

import (
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
	probers   bool         // by [Create]: there is a DaemonSet, which goes sooner if it is deleted itself
	canary    bool         // by [Create]: there is a Service of the run's own
	elsewhere []string     // by [Create]: other namespaces that have a Role of the run
}

// Create creates the run's objects. The Job comes first, suspended, and owns what is made after it in its namespace: that goes
// with the Job, whoever or whatever deletes it, also if this program has crashed meanwhile. When all is there the Job begins.
// If something is refused, what was made before is deleted again.
func Create(ctx context.Context, cluster Cluster, config Config) (*Run, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = placed(ctx, cluster.Client, config)
	run := &Run{Cluster: cluster, Namespace: config.Namespace, Name: config.Name, created: true, probers: config.hasProbers(), canary: config.Canary, elsewhere: config.Namespaces}
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
	var none metav1.CreateOptions
	objects.Job.Spec.Suspend = new(true)
	job, err := r.Client.Jobs(r.Namespace).Create(ctx, objects.Job, none)
	if err != nil {
		return createError("Job", r, err)
	}
	r.Job = job
	objects.belongTo(job)
	if objects.Secret != nil {
		if _, err := r.Client.Secrets(r.Namespace).Create(ctx, objects.Secret, none); err != nil {
			return createError("Secret", r, err)
		}
	}
	if _, err := r.Client.ServiceAccounts(r.Namespace).Create(ctx, objects.ServiceAccount, none); err != nil {
		return createError("ServiceAccount", r, err)
	}
	if _, err := r.Client.Roles(r.Namespace).Create(ctx, objects.Role, none); err != nil {
		return createError("Role", r, err)
	}
	if _, err := r.Client.RoleBindings(r.Namespace).Create(ctx, objects.RoleBinding, none); err != nil {
		return createError("RoleBinding", r, err)
	}
	if objects.ClusterRole != nil {
		role, err := r.Client.ClusterRoles().Create(ctx, objects.ClusterRole, none)
		if err != nil {
			return createError("ClusterRole", r, err)
		}
		objects.ClusterRoleBinding.OwnerReferences = []metav1.OwnerReference{owner(rbacV1, "ClusterRole", role)}
		if _, err := r.Client.ClusterRoleBindings().Create(ctx, objects.ClusterRoleBinding, none); err != nil {
			return createError("ClusterRoleBinding", r, err)
		}
		if err := r.createElsewhere(ctx, objects.Elsewhere, owner(rbacV1, "ClusterRole", role)); err != nil {
			return err
		}
	}
	if objects.Probers != nil {
		if _, err := r.Client.DaemonSets(r.Namespace).Create(ctx, objects.Probers, none); err != nil {
			return createError("DaemonSet", r, err)
		}
	}
	if objects.Canary != nil {
		if _, err := r.Client.Deployments(r.Namespace).Create(ctx, objects.Canary, none); err != nil {
			return createError("Deployment", r, err)
		}
		for _, service := range []*corev1.Service{objects.CanaryService, objects.CanaryTwin} {
			if _, err := r.Client.Services(r.Namespace).Create(ctx, service, none); err != nil {
				return createError("Service", r, err)
			}
		}
		if err := r.waitCanary(ctx); err != nil {
			return err
		}
	}
	return r.begin(ctx)
}

// createElsewhere lets the agent read other namespaces, for as long as the owner exists.
func (r *Run) createElsewhere(ctx context.Context, grants []Grant, by metav1.OwnerReference) error {
	var none metav1.CreateOptions
	for _, g := range grants {
		there := &Run{Name: r.Name, Namespace: g.Role.Namespace}
		g.Role.OwnerReferences, g.RoleBinding.OwnerReferences = []metav1.OwnerReference{by}, []metav1.OwnerReference{by}
		if _, err := r.Client.Roles(there.Namespace).Create(ctx, g.Role, none); err != nil {
			return createError("Role", there, err)
		}
		if _, err := r.Client.RoleBindings(there.Namespace).Create(ctx, g.RoleBinding, none); err != nil {
			return createError("RoleBinding", there, err)
		}
	}
	return nil
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

// belongTo makes the job the owner of what is in its namespace. Nothing there can own what is outside of it; that
// remembers the job instead.
func (o Objects) belongTo(job *batchv1.Job) {
	owners := []metav1.OwnerReference{owner("batch/v1", "Job", job)}
	o.ServiceAccount.OwnerReferences, o.Role.OwnerReferences, o.RoleBinding.OwnerReferences = owners, owners, owners
	if o.Secret != nil {
		o.Secret.OwnerReferences = owners
	}
	if o.Probers != nil {
		o.Probers.OwnerReferences = owners
	}
	if o.Canary != nil {
		o.Canary.OwnerReferences, o.CanaryService.OwnerReferences, o.CanaryTwin.OwnerReferences = owners, owners, owners
	}
	if o.ClusterRole != nil {
		o.ClusterRole.Annotations = map[string]string{jobAnnotation: string(job.UID)}
	}
}

// owner is a reference that lets the garbage collector delete what has it once object is gone. It does not hold up the
// deletion of object (blockOwnerDeletion), for which more rights would be needed.
func owner(version, kind string, object metav1.Object) metav1.OwnerReference {
	return metav1.OwnerReference{APIVersion: version, Kind: kind, Name: object.GetName(), UID: object.GetUID()}
}

func createError(kind string, r *Run, err error) error {
	name := r.Name
	if kind == "DaemonSet" {
		name = ProbersName(name)
	}
	wrapped := fmt.Errorf("create %s %s in namespace %s: %w", kind, name, r.Namespace, err)
	switch {
	case apierrors.IsAlreadyExists(err):
		return hint.Add(fmt.Sprintf("an earlier run has this name: `lapse delete -n %s %s` removes it", r.Namespace, r.Name), wrapped)
	case apierrors.IsNotFound(err):
		return hint.Add("does the namespace exist?", wrapped)
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		return hint.Add(quotaHint(err.Error(), r.Namespace), wrapped)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return hint.Add("the namespace is being deleted: nothing can be created in it any more", wrapped)
	case kind == "DaemonSet" && admissionDenied(err):
		return hint.Add("a policy of the cluster refuses the probers' DaemonSet: ask for an exception, or leave out --from to measure from the Job's node alone", wrapped)
	case apierrors.IsForbidden(err):
		return hint.Add(fmt.Sprintf("a policy of the cluster, or a missing right: kubectl auth can-i create %s -n %s", kindsResource(kind), r.Namespace), wrapped)
	}
	return wrapped
}

// admissionDenied reports whether a webhook or a ValidatingAdmissionPolicy has refused an object. Their status codes are of their own choosing.
// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/webhook/errors/statuserror.go
func admissionDenied(err error) bool {
	return strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "denied request")
}

// kindsResource is how kubectl calls the objects of a kind of ours.
func kindsResource(kind string) string {
	resource := strings.ToLower(kind) + "s"
	switch kind {
	case "Job":
		return resource + ".batch"
	case "DaemonSet", "Deployment":
		return resource + ".apps"
	case "Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding":
		return resource + "." + rbacv1.GroupName
	}
	return resource
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

// ours reports whether object belongs to a run.
func ours(object metav1.Object) bool { return object.GetLabels()[RunLabel] != "" }

// Delete deletes all of the run's objects that are there; none there is no error. The Pod is
// sent SIGTERM and goes soon after. Objects that only share the run's name are left alone.
func (r *Run) Delete(ctx context.Context) error {
	background := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	errs := []error{remove(ctx, "Job", r.Name, r.Client.Jobs(r.Namespace), background)}
	inside := []error{
		remove(ctx, "RoleBinding", r.Name, r.Client.RoleBindings(r.Namespace), background),
		remove(ctx, "Role", r.Name, r.Client.Roles(r.Namespace), background),
		remove(ctx, "ServiceAccount", r.Name, r.Client.ServiceAccounts(r.Namespace), background),
	}
	if r.probers {
		inside = append(inside, remove(ctx, "DaemonSet", ProbersName(r.Name), r.Client.DaemonSets(r.Namespace), background))
	}
	if r.canary {
		inside = append(inside, r.deleteCanary(ctx)...)
	}
	for _, namespace := range r.elsewhere { // else these go with the ClusterRole
		inside = append(inside, remove(ctx, "RoleBinding", r.Name, r.Client.RoleBindings(namespace), background), remove(ctx, "Role", r.Name, r.Client.Roles(namespace), background))
	}
	outside := []error{
		remove(ctx, "ClusterRoleBinding", clusterName(r.Name), r.Client.ClusterRoleBindings(), background),
		remove(ctx, "ClusterRole", clusterName(r.Name), r.Client.ClusterRoles(), background),
	}
	for _, err := range inside {
		// Who may not delete them need not: they go with the Job.
		if !r.created || !apierrors.IsForbidden(err) {
			errs = append(errs, err)
		}
	}
	for _, err := range outside {
		// Who may not even look at ClusterRoles has created none.
		if !apierrors.IsForbidden(err) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// remove deletes one object if it is there and ours.
func remove[T metav1.Object, L any](ctx context.Context, kind, name string, objects kube.Objects[T, L], options metav1.DeleteOptions) error {
	object, err := objects.Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look up %s %s: %w", kind, name, err)
	}
	if !ours(object) {
		return nil
	}
	if err := objects.Delete(ctx, name, options); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", kind, name, err)
	}
	return nil
}

// WaitGone waits until the run's Pods are gone after [Run.Delete], so that whatever is done to the cluster next does not
// meet it.
func (r *Run) WaitGone(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		pod, err := r.Pod(ctx)
		if pod != nil || err != nil {
			return false, err
		}
		if !r.probers && !r.canary {
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
