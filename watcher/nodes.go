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
	return &reflector[*corev1.Node]{
		kind:     "Node",
		resource: "nodes",
		source:   from(w.Client.Nodes()),
		change:   func(old, new *corev1.Node, _ origin) []timeline.Event { return diffNode(old, new) },
		w:        w,
	}
}

// diffNode returns an event for each change from a node's old state to its new one; either may be nil.
func diffNode(old, new *corev1.Node) []timeline.Event {
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
	return slices.Concat(events, diffTaints(old, new), diffMarks(old, new))
}

// diffTaints returns an event for each taint that came or went. The taints of a node that is new to us have no state
// before.
func diffTaints(old, new *corev1.Node) []timeline.Event {
	var before map[string]time.Time
	var none string
	if old != nil {
		before, none = taints(old), "absent"
	}
	after := taints(new)
	var events []timeline.Event
	add := func(e timeline.Event) {
		e.Kind = timeline.NodeTaint
		events = append(events, nodeEvent(new, e))
	}
	for _, taint := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[taint]; !still {
			add(timeline.Event{From: "present", To: "absent", Detail: taint})
		}
	}
	for _, taint := range slices.Sorted(maps.Keys(after)) {
		if _, already := before[taint]; !already {
			add(timeline.Event{From: none, To: "present", Detail: taint, Stamp: after[taint]})
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
