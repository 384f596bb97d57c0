//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

// A drain is seen from every node, also from the one that is drained. The kube-proxy of one node stands still: its routes outlive the Pod, and those
// of the others do not.
func TestEveryNodesRoutesAreMeasured(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}})
	drained, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late := nodes[slices.IndexFunc(nodes, func(n string) bool { return n != drained })]
	watch, err := truth.Begin(t.Context(), c, w)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	args := []string{"--from=all", "--rate=300", "--baseline=2s", "--settle=5s", "--avoid-node=" + drained, "--"}
	run := measure(t, c, w, append(args, staleRoutes(t, c, "kubectl drain "+drained+" --ignore-daemonsets", late)...)...)
	if run.ExitCode != 0 {
		t.Errorf("exit code %d, want 0: no gate was given", run.ExitCode)
	}
	for _, node := range nodes {
		if measured := target(t, run, "web new from "+node); measured.Node != node || measured.OK == 0 || measured.Rate != 100 {
			t.Errorf("%s: measured from %q at %v/s, %d answers", measured.Name, measured.Node, measured.Rate, measured.OK)
		}
		routed, err := watch.Routed(node)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range run.Timeline.Routes {
			at, known := routed[r.Pod]
			if r.Node != node || r.Change != "removal" || !known {
				continue
			}
			earliest, latest := run.Timeline.T0.Add(r.Changed.Earliest), run.Timeline.T0.Add(r.Changed.Latest)
			t.Logf("%s at %s: %v to %v, truth %v to %v", r.Pod, node, earliest, latest, at.Earliest, at.Latest)
			if at.Latest.Before(earliest) || latest.Before(at.Earliest) {
				t.Errorf("the routes of %s to %s changed between %v and %v, and are said to have between %v and %v", node, r.Pod, at.Earliest, at.Latest, earliest, latest)
			}
			if node == late && r.Changed.Latest-r.Changed.Earliest > time.Second {
				t.Errorf("the routes of %s are known no better than from %v to %v", node, earliest, latest)
			}
		}
		if !slices.ContainsFunc(run.Timeline.Routes, func(r drill.Route) bool { return r.Node == node && r.Change == "removal" }) {
			t.Errorf("nothing is said of the routes of %s: %+v", node, run.Timeline.Routes)
		}
	}
	left, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "daemonsets,secrets,jobs", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(left) != "" {
		t.Errorf("left behind: %q", left)
	}
}
