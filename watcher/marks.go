package watcher

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
)

// NodeMarks are what others write on a node that they are about to drain, reboot or remove, in addition to taints: a
// condition, a label or an annotation.
var NodeMarks = []string{
	// Kubernetes 1.37
	"condition " + string(corev1.NodeMaintenancePlanned),
	"condition " + string(corev1.NodeDrainInProgress),
	"condition " + string(corev1.NodeGracefulNodeShutdownInProgress),
	"condition VMEventScheduled",                      // AKS, node-problem-detector
	"label " + corev1.LabelNodeExcludeBalancers,       // cloud providers, before they remove the node
	"label cloud.google.com/active-node-maintenance",  // GKE
	"annotation weave.works/kured-reboot-in-progress", // kured; it may stand for hours
}

// diffMarks returns an event for each mark that came or went. The marks of a node that is new to us have no state
// before.
func diffMarks(old, new *corev1.Node) (events []timeline.Event) {
	var before map[string]time.Time
	var none string
	if old != nil {
		before, none = marksOf(old), "absent"
	}
	after := marksOf(new)
	add := func(e timeline.Event) {
		e.Kind = timeline.NodeMarked
		events = append(events, nodeEvent(new, e))
	}
	for _, mark := range slices.Sorted(maps.Keys(before)) {
		if _, still := after[mark]; !still {
			add(timeline.Event{From: "present", To: "absent", Detail: mark})
		}
	}
	for _, mark := range slices.Sorted(maps.Keys(after)) {
		if _, already := before[mark]; !already {
			add(timeline.Event{From: none, To: "present", Detail: mark, Stamp: after[mark]})
		}
	}
	return events
}

// marksOf returns the marks of a node, and since when each is there, if that is known.
func marksOf(node *corev1.Node) map[string]time.Time {
	all := map[string]time.Time{}
	for _, mark := range NodeMarks {
		kind, key, _ := strings.Cut(mark, " ")
		switch kind {
		case "condition":
			for _, c := range node.Status.Conditions {
				if string(c.Type) == key && c.Status == corev1.ConditionTrue {
					all[mark] = c.LastTransitionTime.Time
				}
			}
		case "label":
			if value, ok := node.Labels[key]; ok && value != "false" {
				all[mark] = time.Time{}
			}
		case "annotation":
			if value, ok := node.Annotations[key]; ok && value != "false" {
				all[mark] = time.Time{}
			}
		}
	}
	return all
}
