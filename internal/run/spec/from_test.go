package spec

import (
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Nodes are chosen by all of them, a number, names or labels; what names none is refused with what there is.
func TestNodesToMeasureFrom(t *testing.T) {
	node := func(name, zone string) corev1.Node {
		return corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelTopologyZone: zone}}}
	}
	nodes := []corev1.Node{node("n4", "b"), node("n1", "a"), node("n2", "a"), node("n3", "b")}
	windows := node("n0", "a")
	windows.Labels[corev1.LabelOSStable] = "windows"
	mixed := append(slices.Clone(nodes), windows)
	for _, test := range []struct {
		from    string
		nodes   []corev1.Node
		drained []string
		want    string // names, or a part of the error
	}{
		{"all", nodes, nil, "n1 n2 n3 n4"},
		{"2", nodes, nil, "n1 n3"},
		{"2", nodes, []string{"n4"}, "n4 n1"},
		{"n3,node/n1,n3", nodes, nil, "n1 n3"},
		{"zone=a", nodes[1:3], nil, "n1 n2"},
		{"zone=c", nil, nil, `from "zone=c": no node has these labels`},
		{"5", nodes, nil, "the cluster has 4 nodes"},
		{"n9", nodes, nil, `there is no node "n9"`},
		{"all", nil, nil, "the cluster has no nodes"},
		{"all", mixed, nil, "n1 n2 n3 n4"},
		{"2", mixed, []string{"n0"}, "n1 n3"},
		{"zone=a", mixed[4:], nil, `from zone=a: no prober can run on n0`},
		{"n0,n1", mixed, nil, "from n0,n1: no prober can run on n0"},
	} {
		got, err := ChosenNodes(test.from, slices.Clone(test.nodes), test.drained)
		if err == nil && strings.Join(got, " ") != test.want || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("--from %s, draining %v: %q, %v; want %q", test.from, test.drained, got, err, test.want)
		}
	}
}

// What --from cannot mean, and a drain that would stop at the probers' own Pods, is refused before anything starts.
func TestFromIsCheckedBeforeTheRun(t *testing.T) {
	for _, test := range []struct {
		from, command string
		wait          time.Duration
		want          string // a part of the error; empty: none
	}{
		{"all", "kubectl drain node1 --ignore-daemonsets", time.Minute, ""},
		{"all", "kubectl drain node1", time.Minute, "refuses nodes with Pods of a DaemonSet"},
		{"", "kubectl drain node1", time.Minute, ""},
		{"all", "kubectl rollout restart deployment/web", time.Minute, ""},
		{"0", "true", time.Minute, "at least one node"},
		{"zone in (a", "true", time.Minute, "from \"zone in (a\""},
		{"all", "true", 0, "must be greater than 0"},
	} {
		o := &Options{From: test.from, Command: strings.Fields(test.command), Spec: Spec{ProberWait: test.wait}}
		err := checkFrom(o)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("--from %q -- %s: %v, want %q", test.from, test.command, err, test.want)
		}
	}
}
