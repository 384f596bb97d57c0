package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// guardKinds are the kinds of a guard's objects, in the order of deletion: first what would make Pods again. A binding
// says whose its role is, and comes before it.
var guardKinds = []kind{
	{name: "Deployment", requests: requestsTo(kube.Client.Deployments)},
	{name: "PodDisruptionBudget", requests: requestsTo(kube.Client.PodDisruptionBudgets)},
	{name: "Service", requests: requestsTo(kube.Client.Services)},
	{name: "ConfigMap", requests: requestsTo(kube.Client.ConfigMaps)},
	{name: "RoleBinding", requests: requestsTo(kube.Client.RoleBindings)},
	{name: "Role", requests: requestsTo(kube.Client.Roles)},
	{name: "ClusterRoleBinding", cluster: true, requests: requestsTo(anywhere(kube.Client.ClusterRoleBindings))},
	{name: "ClusterRole", cluster: true, requests: requestsTo(anywhere(kube.Client.ClusterRoles))},
	{name: "ServiceAccount", requests: requestsTo(kube.Client.ServiceAccounts)},
}

// ErrNoGuard is the error of [RemoveGuard] where there is none.
var ErrNoGuard = errors.New("no guard")

// RemoveGuard deletes all objects of the guard in a namespace, and waits until its Pods are gone. A claim for its runs
// and a Secret with its token stay: they are not its own. If there is no guard, the error is [ErrNoGuard].
func RemoveGuard(ctx context.Context, cluster Cluster, namespace string) error {
	labels := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: guardLabels()})
	objects, unseen, err := found(ctx, cluster.Client, guardKinds, namespace, labels)
	if err != nil {
		return err
	}
	var errs []error
	for _, o := range objects {
		errs = append(errs, o.remove(ctx, cluster.Client))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// A user who may not even list ClusterRoles has created none.
	if unseen = slices.DeleteFunc(unseen, func(k kind) bool { return k.cluster }); len(unseen) > 0 {
		return hint.Errorf("let somebody who may do it: `lapse delete guard -n "+namespace+"`",
			"no right to list %s in namespace %s: some of the guard may be left", unseen, namespace)
	}
	if err := awaitGone(ctx, cluster.Client, namespace, labels); err != nil {
		return err
	}
	err = cluster.Client.Leases(namespace).Delete(ctx, GuardName, metav1.DeleteOptions{}) // its Pods have made it
	switch {
	case err == nil || apierrors.IsNotFound(err) && len(objects) > 0:
		return nil
	case apierrors.IsNotFound(err):
		return hint.Errorf("name another namespace with -n", "namespace %s has %w", namespace, ErrNoGuard)
	}
	return fmt.Errorf("delete Lease %s: %w", GuardName, err)
}

// awaitGone waits until no Pod with these labels is left.
func awaitGone(ctx context.Context, client kube.Client, namespace, labels string) error {
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		pods, err := client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: labels})
		return err == nil && len(pods.Items) == 0, err
	})
	if ctx.Err() != nil {
		return fmt.Errorf("wait for the guard's Pods to go: %w", context.Cause(ctx))
	}
	return err
}
