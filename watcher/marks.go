package watcher

import (
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// marksOf returns what gives those marks of a node that are to be recorded, see [Config.NodeMarks], and since when each
// is there, if that is known. Of several with one key it is the first.
func marksOf(recorded []string) func(*corev1.Node) map[string]time.Time {
	return func(node *corev1.Node) map[string]time.Time {
		all, keys := map[string]time.Time{}, map[string]bool{}
		for _, mark := range recorded {
			key, value, exact := strings.Cut(mark, "=")
			has, since, ok := valueOf(node, key)
			if ok && !keys[key] && (has == value || !exact && means(key, has)) {
				all[mark], keys[key] = since, true
			}
		}
		return all
	}
}

// valueOf returns what a condition, a label or an annotation of a node is, such as of "label KEY".
func valueOf(node *corev1.Node, what string) (value string, since time.Time, ok bool) {
	switch kind, key, _ := strings.Cut(what, " "); kind {
	case "condition":
		for _, c := range node.Status.Conditions {
			if string(c.Type) == key {
				return string(c.Status), c.LastTransitionTime.Time, true
			}
		}
	case "label":
		value, ok = node.Labels[key]
	case "annotation":
		value, ok = node.Annotations[key]
	}
	return value, since, ok
}

// means reports whether a value says that what is named is so.
func means(what, value string) bool {
	if strings.HasPrefix(what, "condition ") {
		return value == string(corev1.ConditionTrue)
	}
	return value != "false"
}
