// Package snapshot reads objects of the API into what the timeline keeps of them. It is pure: it knows no clock and no
// client.
package snapshot

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/internal/kube/podspec"
	"lapse/timeline"
)

// Deployment returns the Pod template of a Deployment, and the rest of it.
func Deployment(d *appsv1.Deployment) (*corev1.PodTemplateSpec, timeline.Workload) {
	w := timeline.Workload{
		Replicas: replicas(d.Spec.Replicas),
		Strategy: string(d.Spec.Strategy.Type),
		MinReady: podspec.Seconds(d.Spec.MinReadySeconds),
		Paused:   d.Spec.Paused,
		Status: timeline.Replicas{
			Generation:  d.Status.ObservedGeneration,
			Existing:    int(d.Status.Replicas),
			Updated:     int(d.Status.UpdatedReplicas),
			Ready:       int(d.Status.ReadyReplicas),
			Available:   int(d.Status.AvailableReplicas),
			Terminating: whole(d.Status.TerminatingReplicas),
		},
	}
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
		w.MaxSurge, w.MaxUnavailable = Either(r.MaxSurge), Either(r.MaxUnavailable)
	}
	return &d.Spec.Template, w
}

// ReplicaSet returns the Pod template of a ReplicaSet, and the rest of it.
func ReplicaSet(r *appsv1.ReplicaSet) (*corev1.PodTemplateSpec, timeline.Workload) {
	return &r.Spec.Template, timeline.Workload{
		Replicas: replicas(r.Spec.Replicas),
		MinReady: podspec.Seconds(r.Spec.MinReadySeconds),
		Status: timeline.Replicas{
			Generation:  r.Status.ObservedGeneration,
			Existing:    int(r.Status.Replicas),
			Ready:       int(r.Status.ReadyReplicas),
			Available:   int(r.Status.AvailableReplicas),
			Terminating: whole(r.Status.TerminatingReplicas),
		},
	}
}

// StatefulSet returns the Pod template of a StatefulSet, and the rest of it.
func StatefulSet(s *appsv1.StatefulSet) (*corev1.PodTemplateSpec, timeline.Workload) {
	w := timeline.Workload{
		Replicas: replicas(s.Spec.Replicas),
		Strategy: string(s.Spec.UpdateStrategy.Type),
		MinReady: podspec.Seconds(s.Spec.MinReadySeconds),
		Status: timeline.Replicas{
			Generation: s.Status.ObservedGeneration,
			Existing:   int(s.Status.Replicas),
			Updated:    int(s.Status.UpdatedReplicas),
			Ready:      int(s.Status.ReadyReplicas),
			Available:  int(s.Status.AvailableReplicas),
		},
	}
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil {
		w.MaxUnavailable = Either(r.MaxUnavailable)
		if r.Partition != nil {
			w.Partition = int(*r.Partition)
		}
	}
	return &s.Spec.Template, w
}

// DaemonSet returns the Pod template of a DaemonSet, and the rest of it.
func DaemonSet(d *appsv1.DaemonSet) (*corev1.PodTemplateSpec, timeline.Workload) {
	w := timeline.Workload{
		Replicas: int(d.Status.DesiredNumberScheduled),
		Strategy: string(d.Spec.UpdateStrategy.Type),
		MinReady: podspec.Seconds(d.Spec.MinReadySeconds),
		Status: timeline.Replicas{
			Generation: d.Status.ObservedGeneration,
			Existing:   int(d.Status.CurrentNumberScheduled),
			Updated:    int(d.Status.UpdatedNumberScheduled),
			Ready:      int(d.Status.NumberReady),
			Available:  int(d.Status.NumberAvailable),
		},
	}
	if r := d.Spec.UpdateStrategy.RollingUpdate; r != nil {
		w.MaxSurge, w.MaxUnavailable = Either(r.MaxSurge), Either(r.MaxUnavailable)
	}
	return &d.Spec.Template, w
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

// Either returns a number or a percentage as text, "" for none.
func Either(v *intstr.IntOrString) string {
	if v == nil {
		return ""
	}
	return v.String()
}
