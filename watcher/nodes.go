package watcher

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/timeline"
)

// nodes watches all nodes: whether they are ready, and whether Pods may come to them, or stay.
func (w *watcher) nodes() *reflector[*corev1.Node] {
	client := w.Client.Nodes()
	return &reflector[*corev1.Node]{
		kind: "Node", resource: "nodes", w: w,
		list:   func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch:  func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
		change: func(old, new *corev1.Node, _ origin) []timeline.Event { return diffNode(old, new) },
	}
}

// diffNode tells what changed from a node's old state to its new one; either may be nil.
func diffNode(old, new *corev1.Node) []timeline.Event {
	if new == nil {
		return []timeline.Event{{Kind: timeline.NodeGone, Object: nodeObject(old), Writer: apiserver}}
	}
	var from, schedulable string
	if old != nil {
		from, _ = nodeReady(old)
		schedulable = strconv.FormatBool(!old.Spec.Unschedulable)
	}
	var events []timeline.Event
	if to, since := nodeReady(new); to != from {
		events = append(events, timeline.Event{Kind: timeline.NodeReady, From: from, To: to, Stamp: since, Object: nodeObject(new), Writer: apiserver})
	}
	if to := strconv.FormatBool(!new.Spec.Unschedulable); to != schedulable {
		events = append(events, timeline.Event{Kind: timeline.NodeSchedulable, From: schedulable, To: to, Object: nodeObject(new), Writer: apiserver})
	}
	return append(events, diffTaints(old, new)...)
}

// diffTaints sees taints come and go. What a node is tainted with when it is first seen has no state before.
func diffTaints(old, new *corev1.Node) []timeline.Event {
	var before map[string]time.Time
	var none string
	if old != nil {
		before, none = taints(old), "absent"
	}
	after := taints(new)
	var events []timeline.Event
	for _, taint := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[taint]; !still {
			events = append(events, timeline.Event{Kind: timeline.NodeTaint, From: "present", To: "absent", Detail: taint, Object: nodeObject(new), Writer: apiserver})
		}
	}
	for _, taint := range slices.Sorted(maps.Keys(after)) {
		if _, already := before[taint]; !already {
			events = append(events, timeline.Event{Kind: timeline.NodeTaint, From: none, To: "present", Detail: taint, Stamp: after[taint], Object: nodeObject(new), Writer: apiserver})
		}
	}
	return events
}

// taints are a node's, with when they were added where they say. That of a cordon is left out.
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

func nodeObject(node *corev1.Node) timeline.Object {
	return timeline.Object{Kind: "Node", Name: node.Name, UID: string(node.UID), Node: node.Name}
}
