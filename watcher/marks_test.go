package watcher

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
)

// What others write on a node before they take it away is recorded when it comes and when it goes, as each of them
// writes it.
func TestMarksOfNodesComeAndGo(t *testing.T) {
	plain := func() *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node1", UID: "node1", Labels: map[string]string{}, Annotations: map[string]string{}}}
	}
	for _, mark := range NodeMarks {
		marked := plain()
		stamp := ""
		switch kind, key, _ := strings.Cut(mark, " "); kind {
		case "condition":
			stamp = " stamp=07"
			marked.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeConditionType(key), Status: corev1.ConditionTrue, LastTransitionTime: at(7)}}
		case "label":
			marked.Labels[key] = ""
		case "annotation":
			marked.Annotations[key] = "2026-11-26T06:00:00Z"
		default:
			t.Fatalf("what is %q?", mark)
		}
		checkLines(t, diffPresent(timeline.NodeMarked, nil, marked, marks), "node-mark node1 >present"+stamp+" ("+mark+")")
		checkLines(t, diffPresent(timeline.NodeMarked, plain(), marked, marks), "node-mark node1 absent>present"+stamp+" ("+mark+")")
		checkLines(t, diffPresent(timeline.NodeMarked, marked, plain(), marks), "node-mark node1 present>absent ("+mark+")")
		checkLines(t, diffPresent(timeline.NodeMarked, marked, marked, marks))
	}
	not := plain()
	not.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeDrainInProgress, Status: corev1.ConditionFalse}}
	not.Labels["cloud.google.com/active-node-maintenance"] = "false"
	checkLines(t, diffPresent(timeline.NodeMarked, plain(), not, marks))
}
