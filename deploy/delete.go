package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Delete deletes all objects of the run that exist. It is no error if none does. The Pod gets SIGTERM and ends soon
// after. Delete ignores objects that only share the run's name.
func (r *Run) Delete(ctx context.Context) error {
	var errs []error
	for _, object := range r.parts() {
		kind := kindOf(object)
		err := kind.remove(ctx, r.Client, object.GetNamespace(), object.GetName(), inBackground())
		if !apierrors.IsForbidden(err) || !r.spares(kind) {
			errs = append(errs, err)
		}
	}
	if r.outline.CanaryPods > 0 {
		errs = append(errs, r.endCanary(ctx))
	}
	return errors.Join(errs...)
}

// inBackground returns options to delete an object and, after it, what it owns.
func inBackground() metav1.DeleteOptions {
	return metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
}

// parts returns the objects that the run may have, without contents, in the order of deletion: the Job, then the others
// in the reverse order of creation.
func (r *Run) parts() []object {
	config := r.outline
	config.Name, config.Namespace, config.NodesAccess = r.Name, r.Namespace, true
	parts := config.Objects().jobFirst()
	slices.Reverse(parts[1:])
	return slices.DeleteFunc(parts, func(part object) bool { return kindOf(part).get == nil })
}

// spares reports whether it is no error that the user may not delete objects of a kind. Objects that Create made are
// deleted with the Job or, in other namespaces, with the ClusterRole. A user who may not read ClusterRoles has created
// none.
func (r *Run) spares(k kind) bool { return k.cluster || r.created && k.name != "Job" }

// endCanary deletes the Pods of the run's own Service, so that they do not serve on. Without that right they are
// deleted with the Job.
func (r *Run) endCanary(ctx context.Context) error {
	pods, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: CanarySelector(r.Name)})
	if apierrors.IsForbidden(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("list the canary's Pods: %w", err)
	}
	var errs []error
	for _, pod := range pods.Items {
		err := r.Client.Pods(r.Namespace).Delete(ctx, pod.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(1))})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			errs = append(errs, fmt.Errorf("delete Pod %s: %w", pod.Name, err))
		}
	}
	return errors.Join(errs...)
}

// WaitGone waits until the run's Pods are gone after [Run.Delete], so that the next change to the cluster does not
// meet them.
func (r *Run) WaitGone(ctx context.Context) error {
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		pod, err := r.Pod(ctx)
		if pod != nil || err != nil {
			return false, err
		}
		if !r.outline.hasProbers() && r.outline.CanaryPods == 0 {
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
