package watcher

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
)

// What others write on a node before they take it away is recorded when it comes and when it goes.
func TestMarksOfNodesComeAndGo(t *testing.T) {
	with := func(kind, key, value string) *corev1.Node {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "node1"}}
		switch kind {
		case "condition":
			node.Status.Conditions = []corev1.NodeCondition{
				{Type: corev1.NodeConditionType(key), Status: corev1.ConditionStatus(value), LastTransitionTime: at(7)},
			}
		case "label":
			node.Labels = map[string]string{key: value}
		case "annotation":
			node.Annotations = map[string]string{key: value}
		}
		return node
	}
	marks := marksOf([]string{
		"label retire=soon", "condition Ready=False", "condition DrainInProgress", "label retire", "annotation reboot",
	})
	for _, test := range []struct{ kind, key, value, mark, stamp string }{
		{"condition", "DrainInProgress", "True", "condition DrainInProgress", " stamp=07"},
		{"condition", "DrainInProgress", "False", "", ""},
		{"condition", "DrainInProgress", "Unknown", "", ""},
		{"condition", "Ready", "False", "condition Ready=False", " stamp=07"},
		{"condition", "Ready", "True", "", ""},
		{"label", "retire", "", "label retire", ""},
		{"label", "retire", "later", "label retire", ""},
		{"label", "retire", "soon", "label retire=soon", ""},
		{"label", "retire", "false", "", ""},
		{"label", "reboot", "true", "", ""},
		{"annotation", "reboot", "2026-11-26T06:00:00Z", "annotation reboot", ""},
		{"annotation", "reboot", "false", "", ""},
	} {
		plain, marked := with("", "", ""), with(test.kind, test.key, test.value)
		var first, comes, goes []string
		if test.mark != "" {
			first = append(first, "node-mark node1 >present"+test.stamp+" ("+test.mark+")")
			comes = append(comes, "node-mark node1 absent>present"+test.stamp+" ("+test.mark+")")
			goes = append(goes, "node-mark node1 present>absent ("+test.mark+")")
		}
		checkLines(t, diffPresent(timeline.NodeMarked, nil, marked, marks), first...)
		checkLines(t, diffPresent(timeline.NodeMarked, plain, marked, marks), comes...)
		checkLines(t, diffPresent(timeline.NodeMarked, marked, plain, marks), goes...)
		checkLines(t, diffPresent(timeline.NodeMarked, marked, marked, marks))
	}
	checkLines(t, diffPresent(timeline.NodeMarked, with("label", "retire", "later"), with("label", "retire", "soon"), marks),
		"node-mark node1 present>absent (label retire)", "node-mark node1 absent>present (label retire=soon)")
}
