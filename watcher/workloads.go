package watcher

import (
	"context"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/internal/kube"
	"lapse/timeline"
)

// deployments, replicaSets and statefulSets watch what makes the Services' Pods.

func (n *namespace) deployments() restartable {
	return workloadReflector(n, "Deployment", "deployments.apps", n.Client.Deployments(n.name), func(d *appsv1.Deployment) (*corev1.PodTemplateSpec, timeline.Workload) {
		w := timeline.Workload{Replicas: replicas(d.Spec.Replicas), Strategy: string(d.Spec.Strategy.Type), MinReady: seconds(d.Spec.MinReadySeconds)}
		if r := d.Spec.Strategy.RollingUpdate; r != nil {
			w.MaxSurge, w.MaxUnavailable = orNil(r.MaxSurge), orNil(r.MaxUnavailable)
		}
		s := d.Status
		w.Status = timeline.Replicas{Existing: int(s.Replicas), Updated: int(s.UpdatedReplicas), Ready: int(s.ReadyReplicas), Available: int(s.AvailableReplicas), Terminating: whole(s.TerminatingReplicas)}
		return &d.Spec.Template, w
	})
}

func (n *namespace) replicaSets() restartable {
	return workloadReflector(n, "ReplicaSet", "replicasets.apps", n.Client.ReplicaSets(n.name), func(r *appsv1.ReplicaSet) (*corev1.PodTemplateSpec, timeline.Workload) {
		s := r.Status
		return &r.Spec.Template, timeline.Workload{
			Replicas: replicas(r.Spec.Replicas), MinReady: seconds(r.Spec.MinReadySeconds),
			Status: timeline.Replicas{Existing: int(s.Replicas), Ready: int(s.ReadyReplicas), Available: int(s.AvailableReplicas), Terminating: whole(s.TerminatingReplicas)},
		}
	})
}

func (n *namespace) statefulSets() restartable {
	return workloadReflector(n, "StatefulSet", "statefulsets.apps", n.Client.StatefulSets(n.name), func(s *appsv1.StatefulSet) (*corev1.PodTemplateSpec, timeline.Workload) {
		w := timeline.Workload{Replicas: replicas(s.Spec.Replicas), Strategy: string(s.Spec.UpdateStrategy.Type), MinReady: seconds(s.Spec.MinReadySeconds)}
		if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
			w.MaxUnavailable = orNil(r.MaxUnavailable)
		}
		is := s.Status
		w.Status = timeline.Replicas{Existing: int(is.Replicas), Updated: int(is.UpdatedReplicas), Ready: int(is.ReadyReplicas), Available: int(is.AvailableReplicas)}
		return &s.Spec.Template, w
	})
}

// workloadReflector watches one kind of workload. read returns its template, of which only the labels are kept, and the
// rest.
func workloadReflector[T object, L runtime.Object](n *namespace, kind, resource string, client kube.Objects[T, L], read func(T) (*corev1.PodTemplateSpec, timeline.Workload)) restartable {
	s := &snapshots[T]{kind: kind, recorded: map[types.UID]timeline.Snapshot{}, words: workloadWords, changed: workloadChanges}
	s.ours = func(o T) bool {
		template, _ := read(o)
		return n.makesOurs(o.GetNamespace(), template.Labels)
	}
	s.take = func(o T) timeline.Snapshot {
		_, w := read(o)
		w.Generation, w.Owner, w.Autoscaled = o.GetGeneration(), ownerOf(o), autoscaled(o)
		return timeline.Snapshot{Workload: &w}
	}
	return &reflector[T]{
		kind: kind, resource: resource, in: n.name, services: n.keys(), w: n.watcher,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
		change: func(old, new T, how origin) []timeline.Event {
			var none T
			if any(new) == any(none) {
				return s.change(old, new, how)
			}
			template, _ := read(new)
			template.Spec = corev1.PodSpec{} // there may be thousands, and their Pods tell
			events := s.change(old, new, how)
			new.SetManagedFields(nil)
			if _, ours := s.recorded[new.GetUID()]; ours {
				events = append(events, n.about(new.GetUID())...)
			}
			return events
		},
	}
}

func replicas(n *int32) int {
	if n == nil {
		return 1
	}
	return int(*n)
}

func whole(n *int32) *int {
	if n == nil {
		return nil
	}
	return new(int(*n))
}

func orNil(v *intstr.IntOrString) string {
	if v == nil {
		return ""
	}
	return v.String()
}

func workloadWords(s timeline.Snapshot) string {
	w := s.Workload
	text := fmt.Sprintf("%d of %d ready", w.Status.Ready, w.Replicas)
	if w.Status.Terminating != nil && *w.Status.Terminating > 0 {
		text += fmt.Sprintf(", %d terminating", *w.Status.Terminating)
	}
	return text
}

func workloadChanges(old, new timeline.Snapshot) []string {
	before, after := old.Workload, new.Workload
	var all edits
	all.add("replicas", strconv.Itoa(before.Replicas), strconv.Itoa(after.Replicas))
	all.add("strategy", before.Strategy, after.Strategy)
	all.add("maxSurge", before.MaxSurge, after.MaxSurge)
	all.add("maxUnavailable", before.MaxUnavailable, after.MaxUnavailable)
	all.add("minReadySeconds", before.MinReady.String(), after.MinReady.String())
	if len(all) == 0 && before.Generation != after.Generation {
		all = append(all, "its Pod template, or another part of its spec")
	}
	return all
}
