package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	{name: "DaemonSet", requests: requestsTo(kube.Client.DaemonSets)},
	{name: "PodDisruptionBudget", requests: requestsTo(kube.Client.PodDisruptionBudgets)},
	{name: "Service", requests: requestsTo(kube.Client.Services)},
	{name: "ConfigMap", requests: requestsTo(kube.Client.ConfigMaps)},
	{name: "RoleBinding", requests: requestsTo(kube.Client.RoleBindings)},
	{name: "Role", requests: requestsTo(kube.Client.Roles)},
	{name: "ClusterRoleBinding", cluster: true, requests: requestsTo(anywhere(kube.Client.ClusterRoleBindings))},
	{name: "ClusterRole", cluster: true, requests: requestsTo(anywhere(kube.Client.ClusterRoles))},
	{name: "ServiceAccount", requests: requestsTo(kube.Client.ServiceAccounts)},
}

// guardPods selects all Pods of a guard.
const guardPods = nameLabel + " in (" + GuardName + "," + GuardProbers + ")," + managedLabel + "=lapse"

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
	if len(objects) == 0 {
		if err := ofHelm(ctx, cluster.Client, namespace); err != nil {
			return err
		}
	}
	var errs []error
	if slices.ContainsFunc(objects, func(o owned) bool { return o.GetName() == GuardProbers }) {
		errs = append(errs, removeGuardKeys(ctx, cluster.Client, namespace))
	}
	for _, o := range objects {
		errs = append(errs, o.remove(ctx, cluster.Client))
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if !slices.ContainsFunc(objects, guardsAll) { // nothing of it is outside of its namespace
		unseen = slices.DeleteFunc(unseen, func(k kind) bool { return k.cluster })
	}
	if len(unseen) > 0 {
		return hint.Errorf("let somebody who may do it: `lapse delete guard -n "+namespace+"`",
			"no right to list %s: some of the guard in namespace %s may be left", unseen, namespace)
	}
	if err := awaitGone(ctx, cluster.Client, namespace, guardPods); err != nil {
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

// ofHelm returns an error that says so if Helm has installed the guard of a namespace: it changes a label of objects.
func ofHelm(ctx context.Context, client kube.Client, namespace string) error {
	deployment, err := client.Deployments(namespace).Get(ctx, GuardName, metav1.GetOptions{})
	if err != nil || deployment.Labels[managedLabel] != "Helm" {
		return nil // it is not there, or may not be read
	}
	release := cmp.Or(deployment.Annotations["meta.helm.sh/release-name"], "RELEASE")
	return hint.Errorf("`helm -n "+namespace+" uninstall "+release+"`, or set guard.enabled=false",
		"Helm has installed the guard in namespace %s", namespace)
}

// guardsAll reports whether an object is the Deployment of a guard of all namespaces.
func guardsAll(o owned) bool {
	deployment, ok := o.Object.(*appsv1.Deployment)
	return ok && slices.ContainsFunc(deployment.Spec.Template.Spec.Containers, func(c corev1.Container) bool {
		return slices.Contains(c.Args, allNamespaces)
	})
}

// removeGuardKeys deletes the Secret of the probers. It is not listed with the other objects: to list Secrets is to
// read them.
func removeGuardKeys(ctx context.Context, client kube.Client, namespace string) error {
	err := client.Secrets(namespace).Delete(ctx, GuardProbers, metav1.DeleteOptions{})
	if err == nil || apierrors.IsNotFound(err) {
		return nil
	}
	return hint.Errorf("`kubectl -n "+namespace+" delete secret "+GuardProbers+"`, by somebody who may do it",
		"delete the keys of the probers, Secret %s: %w", GuardProbers, err)
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
