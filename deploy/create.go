package deploy

import (
	"cmp"
	"context"
	"fmt"
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

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// Create creates the run's objects. The Job comes first, suspended, and owns the other objects of its namespace: they
// are deleted with the Job, even if this program has crashed. The Job begins when all objects exist. If the API server
// refuses one, Create deletes the others.
func Create(ctx context.Context, cluster Cluster, config Config) (*Run, error) {
	if err := config.Validate(); err != nil {
		return nil, err
	}
	config = placed(ctx, cluster.Client, config)
	run := &Run{
		Cluster:   cluster,
		Namespace: config.Namespace,
		Name:      config.Name,
		created:   true,
		outline:   config.outline(),
	}
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
	resume := []byte(`{"spec":{"suspend":false}}`)
	jobs := r.Client.Jobs(r.Namespace)
	job, err := jobs.Patch(ctx, r.Name, types.StrategicMergePatchType, resume, metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("begin Job %s in namespace %s: %w", r.Name, r.Namespace, err)
	}
	r.Job = job
	return nil
}

const probersRefused = "a policy of the cluster refuses the probers' DaemonSet: ask for an exception, " +
	"or leave out --from to measure from the Job's node alone"

func (r *Run) createError(object object, err error) error {
	kind, namespace := kindOf(object), cmp.Or(object.GetNamespace(), r.Namespace)
	advice := ""
	switch {
	case apierrors.IsAlreadyExists(err):
		advice = fmt.Sprintf("an earlier run has this name: `lapse delete -n %s %s` removes it", namespace, r.Name)
	case apierrors.IsNotFound(err):
		advice = "does the namespace exist?"
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), "exceeded quota"):
		advice = quotaHint(err.Error(), namespace)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		advice = "the namespace is being deleted: nothing can be created in it any more"
	case kind.name == "DaemonSet" && admissionDenied(err):
		advice = probersRefused
	case apierrors.IsForbidden(err):
		ask := "kubectl auth can-i create " + qualified(kind.resource(), kind.group) + " -n " + namespace
		advice = "a policy of the cluster, or a missing right: " + ask
	}
	return hint.Add(advice, fmt.Errorf("create %s %s in namespace %s: %w", kind, object.GetName(), namespace, err))
}

// undo deletes the objects of an unfinished Create, even if ctx has ended.
func (r *Run) undo(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
	defer cancel()
	if err := r.Delete(ctx); err != nil {
		r.logger().Warn("cannot clean up", "run", r.Name, "error", err)
	}
}

// placed returns the configuration with what the user may know of the nodes.
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

// nodesOf returns the nodes on which the selected Pods run.
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

// countsStorage reports whether a Pod that requests ephemeral storage fits on the node. A kubelet
// without localStorageCapacityIsolation offers none.
func countsStorage(node corev1.Node) bool {
	storage := node.Status.Allocatable[corev1.ResourceEphemeralStorage]
	return !storage.IsZero()
}
