package cluster

import (
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Workloads are the snapshots of Deployments, ReplicaSets and StatefulSets, by NAMESPACE/KIND/NAME, each in the order
// in which they were taken.
type Workloads map[string][]*model.Event

// ReadWorkloads finds the snapshots among events.
func ReadWorkloads(events []model.Event) Workloads {
	all := Workloads{}
	for i := range events {
		if e := &events[i]; e.Kind == timeline.SnapshotTaken && e.Object != nil && e.Snapshot != nil && e.Snapshot.Workload != nil {
			key := e.Object.Namespace + "/" + e.Object.Kind + "/" + e.Object.Name
			all[key] = append(all[key], e)
		}
	}
	return all
}

// Of are the snapshots of a workload, KIND/NAME.
func (w Workloads) Of(namespace, workload string) []*model.Event { return w[namespace+"/"+workload] }

// At is what a workload was at an instant, as far as was seen by then; nil if nothing was.
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

// Top is the workload that somebody scales and rolls out, KIND/NAME: a Pod's controller, or the Deployment of its
// ReplicaSet. It is empty if the Pod has none.
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
	// Its name is that of the Deployment and a hash:
	// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
	if i := strings.LastIndexByte(name, '-'); i > 0 && (len(w.Of(p.Namespace, "Deployment/"+name[:i])) > 0 || hashed(name[i+1:])) {
		return "Deployment/" + name[:i]
	}
	return p.Owner
}

// WorkloadWords writes KIND/NAME as people do.
func WorkloadWords(workload string) string { return strings.Replace(workload, "/", " ", 1) }

// hashed reports whether a name's last part is of the characters of hashes, which make no words.
func hashed(part string) bool {
	return len(part) >= 6 && len(part) <= 10 && strings.Trim(part, "bcdfghjklmnpqrstvwxz2456789") == ""
}

// scaledLately is for how long after a change of a workload's replicas its controller is taken to delete Pods for it.
const scaledLately = 10 * time.Second

// replicas are how many were asked for before they were last changed, shortly before an event was seen, and then.
// Where they were not changed lately both are the same, and 0 where that is not known.
func (w Workloads) replicas(namespace, workload string, by *model.Event) (before, after int) {
	known := false
	var changed time.Duration
	for _, e := range w.Of(namespace, workload) {
		if e.At.Earliest > by.At.Latest {
			break
		}
		n := e.Snapshot.Workload.Replicas
		switch {
		case !known:
			before, after, known = n, n, true
		case n != after:
			before, after, changed = after, n, e.At.Latest
		}
	}
	if changed+scaledLately < by.At.Earliest {
		before = after
	}
	return before, after
}
