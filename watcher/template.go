package watcher

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// newTemplate returns a snapshot of a Pod's template if it was not recorded yet.
func (n *namespace) newTemplate(pod *corev1.Pod, how origin) []timeline.Event {
	t := snapshot.Template(pod)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.interest.templates[t.ID] {
		return nil
	}
	n.interest.templates[t.ID] = true
	to := timeline.SnapshotCreated
	if how == listed {
		to = timeline.SnapshotFound
	}
	e := snapshotEvent("Pod", pod, to, "Pod template", timeline.Snapshot{Template: &t})
	if c := metav1.GetControllerOf(pod); c != nil {
		e.Object.Kind, e.Object.Name, e.Object.UID = c.Kind, c.Name, string(c.UID)
	}
	return []timeline.Event{e}
}
