package watcher

import (
	"fmt"
	"reflect"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// deployments, replicaSets, statefulSets and daemonSets watch the objects that make the Services' Pods.

func (n *namespace) deployments() restartable {
	client := from(n.Client.Deployments(n.name))
	return workloadReflector(n, "Deployment", "deployments.apps", client, snapshot.Deployment)
}

func (n *namespace) replicaSets() restartable {
	client := from(n.Client.ReplicaSets(n.name))
	return workloadReflector(n, "ReplicaSet", "replicasets.apps", client, snapshot.ReplicaSet)
}

func (n *namespace) statefulSets() restartable {
	client := from(n.Client.StatefulSets(n.name))
	return workloadReflector(n, "StatefulSet", "statefulsets.apps", client, snapshot.StatefulSet)
}

func (n *namespace) daemonSets() restartable {
	client := from(n.Client.DaemonSets(n.name))
	return workloadReflector(n, "DaemonSet", "daemonsets.apps", client, snapshot.DaemonSet)
}

// A readWorkload returns a workload's Pod template, and the rest of it.
type readWorkload[T object] func(T) (*corev1.PodTemplateSpec, timeline.Workload)

// workloadReflector returns a reflector of one kind of workload. There may be thousands of them: it keeps the names of
// those that are ours, and of the others only that they are there.
func workloadReflector[T object](n *namespace, kind, resource string, client source, read readWorkload[T]) restartable {
	s := &snapshots[T]{
		kind:     kind,
		words:    workloadWords,
		changed:  workloadChanges,
		recorded: map[types.UID]timeline.Snapshot{},
	}
	s.ours = func(o T) bool {
		template, _ := read(o)
		return n.makesOurs(o.GetNamespace(), template.Labels)
	}
	s.take = func(o T) timeline.Snapshot {
		_, w := read(o)
		w.Generation, w.Owner, w.Autoscaled = o.GetGeneration(), snapshot.Owner(o), snapshot.Autoscaled(o)
		return timeline.Snapshot{Workload: &w}
	}
	var of T
	other := empty(of)
	return &reflector[T]{
		kind:     kind,
		resource: resource,
		source:   client,
		services: n.keys(),
		in:       n.name,
		change: func(old, new T, how origin) []timeline.Event {
			var none T
			if any(new) == any(none) {
				if _, ours := s.recorded[old.GetUID()]; ours {
					n.lose(old.GetUID())
				}
				return s.change(old, new, how)
			}
			_, known := s.recorded[new.GetUID()]
			events := s.change(old, new, how)
			if _, ours := s.recorded[new.GetUID()]; ours && !known {
				events = append(events, n.about(new.GetUID())...)
			}
			return events
		},
		keep: func(o T) T {
			if _, ours := s.recorded[o.GetUID()]; !ours {
				return other
			}
			names := empty(o)
			names.SetNamespace(o.GetNamespace())
			names.SetName(o.GetName())
			names.SetUID(o.GetUID())
			return names
		},
		w: n.watcher,
	}
}

// empty returns an empty object of the same type.
func empty[T object](o T) T { return reflect.New(reflect.TypeOf(o).Elem()).Interface().(T) }

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
	if before.Generation == after.Generation {
		return nil
	}
	var all edits
	all.add("replicas", strconv.Itoa(before.Replicas), strconv.Itoa(after.Replicas))
	all.add("strategy", before.Strategy, after.Strategy)
	all.add("maxSurge", before.MaxSurge, after.MaxSurge)
	all.add("maxUnavailable", before.MaxUnavailable, after.MaxUnavailable)
	all.add("minReadySeconds", before.MinReady.String(), after.MinReady.String())
	all.add("partition", strconv.Itoa(before.Partition), strconv.Itoa(after.Partition))
	all.add("paused", strconv.FormatBool(before.Paused), strconv.FormatBool(after.Paused))
	if len(all) == 0 {
		all = append(all, "its Pod template, or another part of its spec")
	}
	return all
}
