package watcher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
)

// templateEvent returns the snapshot of a Pod's template.
func templateEvent(pod *corev1.Pod, t timeline.PodTemplate, how origin) timeline.Event {
	to := timeline.SnapshotCreated
	if how == listed {
		to = timeline.SnapshotFound
	}
	e := snapshotEvent("Pod", pod, to, "Pod template", timeline.Snapshot{Template: &t})
	if c := metav1.GetControllerOf(pod); c != nil {
		e.Object.Kind, e.Object.Name, e.Object.UID = c.Kind, c.Name, string(c.UID)
	}
	return e
}
