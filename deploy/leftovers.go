package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// A Leftover is what remains of a run whose Job is gone. Objects that [Create] made in the Job's namespace are deleted
// with the Job. The ClusterRole and its binding remain, because no Job can own them, and so do objects that somebody
// applied from YAML.
type Leftover struct {
	Run       string
	Namespace string
	Created   time.Time // of the oldest object
	Kinds     []string
}

// Leftovers returns what remains of runs in the namespace, oldest first. unseen are kinds that the user may not list.
func Leftovers(ctx context.Context, cluster Cluster, namespace string) (left []Leftover, unseen []string, err error) {
	objects, hidden, err := found(ctx, cluster.Client, mayRemain(), namespace, RunLabel)
	for _, k := range hidden {
		unseen = append(unseen, k.name)
	}
	if err != nil {
		return nil, unseen, err
	}
	jobs := map[string]bool{}
	for _, o := range objects {
		if o.kind.name == "Job" {
			jobs[o.GetLabels()[RunLabel]] = true
		}
	}
	byRun := map[string]*Leftover{}
	for _, o := range objects {
		run := o.GetLabels()[RunLabel]
		if jobs[run] {
			continue
		}
		if byRun[run] == nil {
			byRun[run] = &Leftover{Run: run, Namespace: namespace, Created: o.GetCreationTimestamp().Time}
		}
		l := byRun[run]
		l.Kinds = append(l.Kinds, o.kind.name)
		if at := o.GetCreationTimestamp().Time; at.Before(l.Created) {
			l.Created = at
		}
	}
	for _, l := range byRun {
		left = append(left, *l)
	}
	slices.SortFunc(left, func(a, b Leftover) int { return a.Created.Compare(b.Created) })
	return left, unseen, nil
}

// Remove deletes everything with the run's label in the namespace, and its ClusterRole and ClusterRoleBinding, whether
// or not its Job exists. If nothing exists, the error is a [NoRunError].
func Remove(ctx context.Context, cluster Cluster, namespace, run string) error {
	objects, unseen, err := found(ctx, cluster.Client, mayRemain(), namespace, RunLabel+"="+run)
	if err != nil {
		return err
	}
	if len(objects) == 0 && len(unseen) == 0 {
		return noRun(namespace, run)
	}
	var errs []error
	for _, o := range objects {
		errs = append(errs, o.remove(ctx, cluster.Client))
		if role, ok := o.Object.(*rbacv1.Role); ok {
			errs = append(errs, deleteKeys(ctx, cluster.Client, namespace, run, role))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	// A user who may not even list ClusterRoles has created none.
	if unseen = slices.DeleteFunc(unseen, func(k kind) bool { return k.cluster }); len(unseen) > 0 {
		return hint.Errorf("let somebody who may do it: `lapse delete -n "+namespace+" "+run+"`",
			"no right to list %s in namespace %s: some of run %s may be left", unseen, namespace, run)
	}
	if len(objects) == 0 {
		return noRun(namespace, run)
	}
	return nil
}

// sweep deletes ClusterRoles, and so their bindings, of earlier runs whose Job is certainly gone: a workstation has
// crashed. It keeps those that somebody applied from YAML, because their Job may come later. It ignores errors.
func sweep(ctx context.Context, cluster Cluster) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	ofRuns := metav1.ListOptions{LabelSelector: managedLabel + "=lapse," + RunLabel, Limit: 100}
	roles, err := cluster.Client.ClusterRoles().List(ctx, ofRuns)
	if err != nil {
		return
	}
	for _, role := range roles.Items {
		namespace, run, job := role.Labels[NamespaceLabel], role.Labels[RunLabel], role.Annotations[jobAnnotation]
		if namespace == "" || job == "" {
			continue
		}
		found, err := cluster.Client.Jobs(namespace).Get(ctx, run, metav1.GetOptions{})
		if !apierrors.IsNotFound(err) && (err != nil || string(found.UID) == job) {
			continue
		}
		if err := cluster.Client.ClusterRoles().Delete(ctx, role.Name, exactly(role.UID)); err == nil {
			log := cluster.logger()
			log.Warn("removed the ClusterRole of a run whose Job is gone", "name", role.Name, "namespace", namespace)
		}
	}
}

// exactly returns options to delete the object with this UID only.
func exactly(uid types.UID) metav1.DeleteOptions {
	options := inBackground()
	options.Preconditions = &metav1.Preconditions{UID: &uid}
	return options
}

// An owned object is an object of a run, with its kind.
type owned struct {
	metav1.Object
	kind kind
}

func (o owned) remove(ctx context.Context, client kube.Client) error {
	err := o.kind.delete(ctx, client, o.GetNamespace(), o.GetName(), exactly(o.GetUID()))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete %s %s: %w", o.kind.name, o.GetName(), err)
	}
	return nil
}

// mayRemain returns the kinds of which objects may remain when a run's Job is gone, in the order of deletion.
func mayRemain() []kind {
	return slices.DeleteFunc(deletionOrder(), func(k kind) bool { return !k.outlives })
}

// found returns the objects that the selector matches: those in the namespace, and those outside namespaces that belong
// to a run or a guard in it. unseen are the kinds that the user may not list.
func found(
	ctx context.Context, client kube.Client, kinds []kind, namespace, selector string,
) (objects []owned, unseen []kind, err error) {
	bound := map[string]string{} // namespace, by the name of a ClusterRole
	for _, k := range kinds {
		list, err := k.list(ctx, client, namespace, metav1.ListOptions{LabelSelector: selector})
		if apierrors.IsForbidden(err) {
			unseen = append(unseen, k)
			continue
		}
		if err != nil {
			return nil, unseen, fmt.Errorf("list what is there: %s: %w", k.name, err)
		}
		items, err := meta.ExtractList(list)
		if err != nil {
			return nil, unseen, fmt.Errorf("list what is there: %s: %w", k.name, err)
		}
		for _, item := range items {
			object := owned{item.(metav1.Object), k}
			if binding, ok := item.(*rbacv1.ClusterRoleBinding); ok && len(binding.Subjects) > 0 {
				bound[binding.RoleRef.Name] = binding.Subjects[0].Namespace
			}
			if of := namespaceOf(object, bound); of == namespace || of == "" {
				objects = append(objects, object)
			}
		}
	}
	return objects, unseen, nil
}

// namespaceOf returns the namespace of an object's run. Objects outside that namespace have a label with its name.
// Without the label, as from YAML, it is the namespace of the bound ServiceAccount.
func namespaceOf(object owned, bound map[string]string) string {
	if labelled := object.GetLabels()[NamespaceLabel]; labelled != "" {
		return labelled
	}
	if !object.kind.cluster {
		return object.GetNamespace()
	}
	if binding, ok := object.Object.(*rbacv1.ClusterRoleBinding); ok {
		return bound[binding.RoleRef.Name]
	}
	return bound[object.GetName()]
}
