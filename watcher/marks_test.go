package watcher

import (
	"encoding/json"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/timeline"
)

// The conditions that Kubernetes 1.37 names, on a node as the API server writes it after kubectl patch
// --subresource=status: each is a mark while it is True.
func TestConditionsOfMaintenanceAreMarks(t *testing.T) {
	written := func(planned, drain, shutdown corev1.ConditionStatus) *corev1.Node {
		const text = `{
			"kind": "Node", "apiVersion": "v1",
			"metadata": {"name": "node1", "uid": "node1", "resourceVersion": "7", "creationTimestamp": "2000-01-01T00:00:00Z"},
			"status": {"conditions": [
				{"type": "Ready", "status": "True", "lastHeartbeatTime": "2000-01-01T00:00:09Z", "lastTransitionTime": "2000-01-01T00:00:01Z", "reason": "KubeletReady", "message": "kubelet is posting ready status"},
				{"type": "MaintenancePlanned", "status": "PLANNED", "lastHeartbeatTime": null, "lastTransitionTime": "2000-01-01T00:00:05Z", "reason": "KernelUpgrade", "message": "tonight"},
				{"type": "DrainInProgress", "status": "DRAIN", "lastHeartbeatTime": null, "lastTransitionTime": "2000-01-01T00:00:06Z", "reason": "KernelUpgrade", "message": ""},
				{"type": "GracefulNodeShutdownInProgress", "status": "SHUTDOWN", "lastHeartbeatTime": null, "lastTransitionTime": "2000-01-01T00:00:07Z", "reason": "KernelUpgrade", "message": ""}
			]}
		}`
		node := new(corev1.Node)
		is := strings.NewReplacer("PLANNED", string(planned), "DRAIN", string(drain), "SHUTDOWN", string(shutdown))
		if err := json.Unmarshal([]byte(is.Replace(text)), node); err != nil {
			t.Fatal(err)
		}
		return node
	}
	of := func(c corev1.NodeConditionType) string { return "condition " + string(c) }
	marks := marksOf([]string{
		of(corev1.NodeMaintenancePlanned), of(corev1.NodeDrainInProgress), of(corev1.NodeGracefulNodeShutdownInProgress),
	})
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	diff := func(old, new *corev1.Node) []timeline.Event { return diffNode(old, new, marks) }
	checkLines(t, diff(written(no, no, no), written(yes, no, no)), "node-mark node1 absent>present stamp=05 (condition MaintenancePlanned)")
	checkLines(t, diff(written(yes, no, no), written(yes, yes, no)), "node-mark node1 absent>present stamp=06 (condition DrainInProgress)")
	checkLines(t, diff(written(yes, yes, no), written(no, yes, yes)),
		"node-mark node1 present>absent (condition MaintenancePlanned)",
		"node-mark node1 absent>present stamp=07 (condition GracefulNodeShutdownInProgress)")
	checkLines(t, diff(written(no, yes, yes), written(no, corev1.ConditionUnknown, no)),
		"node-mark node1 present>absent (condition DrainInProgress)", "node-mark node1 present>absent (condition GracefulNodeShutdownInProgress)")
}

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
