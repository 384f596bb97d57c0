package watcher

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
)

// nodes watches all nodes: whether they are ready and schedulable, their taints, and their marks.
func (w *watcher) nodes() *reflector[*corev1.Node] {
	marks := marksOf(w.NodeMarks)
	return &reflector[*corev1.Node]{
		kind:     "Node",
		resource: "nodes",
		source:   from(w.Client.Nodes()),
		change:   func(old, new *corev1.Node, _ origin) []timeline.Event { return diffNode(old, new, marks) },
		w:        w,
	}
}

// diffNode returns an event for each change from a node's old state to its new one; either may be nil.
func diffNode(old, new *corev1.Node, marks func(*corev1.Node) map[string]time.Time) []timeline.Event {
	if new == nil {
		return []timeline.Event{nodeEvent(old, timeline.Event{Kind: timeline.NodeGone})}
	}
	var from, schedulable string
	if old != nil {
		from, _ = nodeReady(old)
		schedulable = strconv.FormatBool(!old.Spec.Unschedulable)
	}
	var events []timeline.Event
	add := func(e timeline.Event) { events = append(events, nodeEvent(new, e)) }
	if to, since := nodeReady(new); to != from {
		add(timeline.Event{Kind: timeline.NodeReady, From: from, To: to, Stamp: since})
	}
	if to := strconv.FormatBool(!new.Spec.Unschedulable); to != schedulable {
		add(timeline.Event{Kind: timeline.NodeSchedulable, From: schedulable, To: to})
	}
	return slices.Concat(events, diffPresent(timeline.NodeTaint, old, new, taints),
		diffPresent(timeline.NodeMarked, old, new, marks))
}

// diffPresent returns an event of a kind for each thing that came to a node or went, such as a taint. of returns what a
// node has, and since when, if it says so. What a node has that is new to us has no state before.
func diffPresent(kind timeline.EventKind, old, new *corev1.Node, of func(*corev1.Node) map[string]time.Time) (
	events []timeline.Event,
) {
	var before map[string]time.Time
	var none string
	if old != nil {
		before, none = of(old), "absent"
	}
	after := of(new)
	add := func(e timeline.Event) {
		e.Kind = kind
		events = append(events, nodeEvent(new, e))
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[name]; !still {
			add(timeline.Event{From: "present", To: "absent", Detail: name})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(after)) {
		if _, already := before[name]; !already {
			add(timeline.Event{From: none, To: "present", Detail: name, Stamp: after[name]})
		}
	}
	return events
}

// taints returns a node's taints and when each was added, if it says so. It leaves out the taint of a cordon.
func taints(node *corev1.Node) map[string]time.Time {
	all := map[string]time.Time{}
	for _, t := range node.Spec.Taints {
		if t.Key == corev1.TaintNodeUnschedulable {
			continue
		}
		var added time.Time
		if t.TimeAdded != nil {
			added = t.TimeAdded.Time
		}
		all[t.ToString()] = added
	}
	return all
}

func nodeReady(node *corev1.Node) (status string, since time.Time) {
	for _, c := range node.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return strings.ToLower(string(c.Status)), c.LastTransitionTime.Time
		}
	}
	return "unknown", time.Time{}
}

// nodeEvent completes an event about a node.
func nodeEvent(node *corev1.Node, e timeline.Event) timeline.Event {
	e.Object = timeline.Object{Kind: "Node", Name: node.Name, UID: string(node.UID), Node: node.Name}
	e.Writer = apiserver
	return e
}
