//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// The link of one node, which has no Pod of the Service, is cut for 10 s. Its prober gets no answers, or cannot hand
// over what it measured; both are said of that node alone. The others' view has no gap, and none of them is said to
// have been down for a second or to have lost more than 1 %.
func TestACutNodeIsAGapOfItsOwnView(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	nodes := threeNodes(t, c)
	hosts, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app=web",
		"-o", "jsonpath={.items[*].spec.nodeName}")
	if err != nil {
		t.Fatal(err)
	}
	cut := nodes[slices.IndexFunc(nodes, func(n string) bool { return !slices.Contains(strings.Fields(hosts), n) })]
	link := func(state string) []string {
		return []string{filepath.Join(c.Dir, "bin", "sandbox"), "--dir", c.Dir, "exec", "cp", "--", "ip",
			"link", "set", "to-" + cut, state}
	}
	t.Cleanup(func() {
		up := link("up")
		if out, err := exec.Command(up[0], up[1:]...).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	})
	script := "set -e; sleep 2; " + strings.Join(link("down"),
		" ") + "; sleep 10; " + strings.Join(link("up"), " ") + "; sleep 8"
	run := measure(t, c, w, "--from=all", "--rate=300", "--baseline=2s", "--settle=2s", "--min-coverage=50%",
		"--avoid-node="+cut, "--", "sh", "-c", script)
	var away time.Duration // failed or unobserved, for new connections from the cut node
	for _, window := range run.Timeline.Windows {
		if window.Kind == "slow" {
			continue
		}
		if strings.HasPrefix(window.Target, "web new from "+cut) {
			away += window.Length.Max
		} else if run.Timeline.Excused(window) {
			continue
		}
		if !strings.Contains(window.Target, " from "+cut) && window.Length.Min >= time.Second {
			t.Errorf("%s is said to have been down, and only the link of %s was cut: %+v", window.Target, cut, window)
		}
		// What others lose as the cut node comes back is little, and no rule may be sure of its cause.
		if cause := window.Causes[0]; cause.Confidence == "high" || cause.Rule == "prober-isolated" &&
			!strings.Contains(window.Target, " from "+cut) {
			t.Errorf("%s: only the link of %s was cut, and this is named: %+v", window.Target, cut, cause)
		}
	}
	for _, u := range run.Timeline.Unobserved {
		switch {
		case strings.HasPrefix(u.Target, "web new from "+cut):
			away += u.End - u.Start
		case strings.HasPrefix(u.Target, "web new from ") &&
			u.Reason != "prober stalled" && u.End-u.Start > time.Second:
			t.Errorf("%s was unobserved for %v (%s), and nothing happened there", u.Target, u.End-u.Start, u.Reason)
		}
	}
	if away < 8*time.Second {
		t.Errorf("%s was cut off for 10 s, and is said to have been away for %v: %+v",
			cut, away, run.Timeline.Unobserved)
	}
	for _, node := range nodes {
		if measured := target(t, run, "web new from "+node); node != cut &&
			(measured.OK == 0 || 100*run.Timeline.LostBy(measured) > measured.OK) {
			t.Errorf("%s: %d answers, %d failures", measured.Name, measured.OK, measured.Failed)
		}
	}
	nothingLeft(t, c, run)
}

// The coordinator's Pod is deleted while three nodes measure: the run was cut short, and what had come in is kept.
func TestLosingTheCoordinatorKeepsWhatTheNodesMeasured(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	nodes := threeNodes(t, c)
	kill := "sleep 4; kubectl -n " + w.Namespace +
		" delete pod -l app.kubernetes.io/managed-by=lapse,lapse.dev/part!=prober --now --wait && sleep 3"
	run := measure(t, c, w, "--from=all", "--rate=300", "--fail-if=failed>0", "--", "sh", "-c", kill)
	if run.ExitCode != 6 || run.Timeline.Run.Aborted == "" {
		t.Errorf("exit code %d, aborted %q: want 6, the run was cut short", run.ExitCode, run.Timeline.Run.Aborted)
	}
	for _, node := range nodes {
		if measured := target(t, run, "web new from "+node); measured.OK == 0 || run.Timeline.LostBy(measured) > 0 {
			t.Errorf("%s: %d answers, %d failures", measured.Name, measured.OK, measured.Failed)
		}
	}
	nothingLeft(t, c, run)
}

// Three nodes are drained one after the other, of the Service's Pods alone, so that the Job's Pod stays. The probers
// stay where they are, and each node's view lasts to the end.
func TestEveryNodeIsDrainedInOneRun(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "graceful", "--drain-for", "5s"}})
	nodes := threeNodes(t, c)
	script := fmt.Sprintf(`set -e
for node in %s; do
  kubectl drain "$node" --ignore-daemonsets --pod-selector=app=web
  kubectl uncordon "$node"
  kubectl -n %s rollout status deployment/web --timeout=60s
done
`, strings.Join(nodes, " "), w.Namespace)
	file := filepath.Join(t.TempDir(), "drain-all.sh")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	run := measure(t, c, w, "--from=all", "--rate=300", "--settle=5s", "--min-coverage=50%", "--", "sh", file)
	if r := run.Timeline.Run; r.Aborted != "" || r.Command.ExitCode == nil || *r.Command.ExitCode != 0 {
		t.Errorf("aborted %q, command %+v", r.Aborted, r.Command)
	}
	for _, node := range nodes {
		if measured := target(t, run, "web new from "+node); measured.OK == 0 {
			t.Errorf("nothing was measured from %s: %+v", node, measured)
		}
		if slices.ContainsFunc(run.Timeline.Events,
			func(e drill.Event) bool { return e.To == "lost" && e.Object.Name == node }) {
			t.Errorf("the prober on %s was lost: a drain leaves it where it is", node)
		}
	}
	nothingLeft(t, c, run)
}

// What `lapse gen --from all` prints measures from every node with no workstation. No prober outlives the run, and
// nothing but the Job's Secret holds a key.
func TestAppliedFleetMeasuresFromEveryNode(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	nodes := threeNodes(t, c)
	job := apply(t, c, w, "--from=all", "--duration=5s", "--rate=300", "--min-coverage=50%")
	dir := runDir(t)
	measuring(t, c, w, job)
	t.Log(lapse(t, c, "retrieve", job, "-n", w.Namespace, "--out", dir))
	timeline, err := drill.ReadTimeline(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		measured, err := timeline.Target("web new from " + node)
		if err != nil || measured.OK == 0 || measured.Node != node {
			t.Errorf("from %s: %+v, %v", node, measured, err)
		}
	}
	if _, err := c.Kubectl(t.Context(), "-n", w.Namespace, "wait", "--for=delete",
		"daemonset/"+job+"-probers", "--timeout=2m"); err != nil {
		t.Error(err)
	}
	lapse(t, c, "delete", job, "-n", w.Namespace)
	if _, err := c.Kubectl(t.Context(), "-n", w.Namespace, "wait", "--for=delete",
		"secret/"+job+"-keys", "--timeout=2m"); err != nil {
		t.Error(err)
	}
}

func threeNodes(t *testing.T, c *drill.Cluster) []string {
	t.Helper()
	nodes, err := c.Nodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(nodes) < 3 {
		t.Fatalf("nodes %q: this needs three", nodes)
	}
	return nodes
}
