package cluster

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Workloads are the snapshots of Deployments, ReplicaSets, StatefulSets and DaemonSets, by NAMESPACE/KIND/NAME, each
// in the order in which they were taken.
type Workloads map[string][]*model.Event

// ReadWorkloads finds the snapshots among events.
func ReadWorkloads(events []model.Event) Workloads {
	all := Workloads{}
	for i := range events {
		if e := &events[i]; e.Kind == timeline.SnapshotTaken && !e.Object.IsZero() && e.Snapshot != nil &&
			e.Snapshot.Workload != nil {
			key := e.Object.Namespace + "/" + e.Object.Kind + "/" + e.Object.Name
			all[key] = append(all[key], e)
		}
	}
	return all
}

// Of returns the snapshots of a workload, KIND/NAME.
func (w Workloads) Of(namespace, workload string) []*model.Event { return w[namespace+"/"+workload] }

// At returns what a workload was at an instant, as far as was seen by then; nil if nothing was.
func (w Workloads) At(namespace, workload string, at time.Duration) *timeline.Workload {
	var last *timeline.Workload
	for _, e := range w.Of(namespace, workload) {
		if e.Seen > at && last != nil {
			break
		}
		last = e.Snapshot.Workload
	}
	return last
}

// Top returns the workload that somebody scales and rolls out, KIND/NAME: a Pod's controller, or the owner of its
// ReplicaSet; "" if the Pod has none. Only of a ReplicaSet that was not watched, the owner is guessed by its name.
func (w Workloads) Top(p *model.Pod) string {
	name, of := strings.CutPrefix(p.Owner, "ReplicaSet/")
	if !of {
		return p.Owner
	}
	if known := w.Of(p.Namespace, p.Owner); len(known) > 0 {
		if owner := known[0].Snapshot.Workload.Owner; owner != "" {
			return owner
		}
		return p.Owner
	}
	// Nothing else is known of it. A Deployment names its ReplicaSets by its own name and a hash:
	// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
	if i := strings.LastIndexByte(name, '-'); i > 0 && (len(w.Of(p.Namespace, "Deployment/"+name[:i])) > 0 ||
		hashed(name[i+1:])) {
		return "Deployment/" + name[:i]
	}
	return p.Owner
}

// WorkloadWords returns KIND/NAME as people write it.
func WorkloadWords(workload string) string { return strings.Replace(workload, "/", " ", 1) }

// hashed reports whether the last part of a name is a hash: it has only the characters of hashes, which make no words.
func hashed(part string) bool {
	return len(part) >= 6 && len(part) <= 10 && strings.Trim(part, "bcdfghjklmnpqrstvwxz2456789") == ""
}

// scaledLately is how long after a change of replicas the controller's deletions of Pods count as its effect.
const scaledLately = 10 * time.Second

// Scaled returns the last change of a workload's replicas shortly before an event was seen, and from how many to how
// many; nil if there was none. A DaemonSet is not scaled: it wants as many Pods as it has nodes.
func (w Workloads) Scaled(namespace, workload string, by *model.Event) (change *model.Event, before, after int) {
	if strings.HasPrefix(workload, "DaemonSet/") {
		return nil, 0, 0
	}
	for i, e := range w.Of(namespace, workload) {
		if e.At.Earliest > by.At.Latest {
			break
		}
		n := e.Snapshot.Workload.Replicas
		if i > 0 && n != after {
			change, before = e, after
		}
		after = n
	}
	if change == nil || change.At.Latest+scaledLately < by.At.Earliest {
		return nil, 0, 0
	}
	return change, before, after
}

// ChangedBefore returns the last change of a workload's spec before an event was seen, nil if there was none in the
// run.
func (w Workloads) ChangedBefore(namespace, workload string, by *model.Event) (change *model.Event) {
	for _, e := range w.Of(namespace, workload) {
		if e.At.Earliest <= by.At.Latest && e.To == timeline.SnapshotChanged {
			change = e
		}
	}
	return change
}

// Autoscaled reports whether an autoscaler is known to set how many replicas a workload wants.
func (w Workloads) Autoscaled(namespace, workload string) bool {
	return slices.ContainsFunc(w.Of(namespace, workload), func(e *model.Event) bool {
		return e.Snapshot.Workload.Autoscaled
	})
}
