package watcher

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
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

// marks returns the marks of a node, and since when each is there, if that is known.
func marks(node *corev1.Node) map[string]time.Time {
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
