//go:build e2e

package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// helm runs Helm, which HELM names, to a good end.
func helm(t *testing.T, c *drill.Cluster, args ...string) {
	t.Helper()
	name := os.Getenv("HELM")
	if name == "" {
		t.Fatal("HELM does not name the Helm to test the chart with: run `make test-e2e-all`")
	}
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = append(c.Env(), "HELM_CACHE_HOME="+t.TempDir())
	out, err := cmd.CombinedOutput()
	t.Logf("helm %s\n%s", strings.Join(args, " "), out)
	if err != nil {
		t.Fatal(err)
	}
}

// The chart is installed, tested, upgraded to a run from every node, and uninstalled. Both runs measure, and nothing is
// left of them.
func TestChartMeasuresAndLeavesNothing(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	values := []string{"web", chart(t), "-n", w.Namespace, "--set", "image.tag=dev", "--set", "run.duration=5s",
		"--set", "run.flags={--rate=50}", "--set", "run.failIf={failed>0}"}
	helm(t, c, append([]string{"install"}, values...)...)
	measured(t, c, w, "web-1")
	helm(t, c, "test", "web", "-n", w.Namespace, "--timeout=2m")
	helm(t, c, append([]string{"upgrade", "--set", "run.from.all=true", "--set", "run.networkPolicy=true"}, values...)...)
	timeline := measured(t, c, w, "web-2")
	for _, node := range threeNodes(t, c) {
		found, err := timeline.Target("web new from " + node)
		if err != nil || found.OK == 0 {
			t.Errorf("from %s: %+v, %v", node, found, err)
		}
	}
	helm(t, c, "uninstall", "web", "-n", w.Namespace, "--wait")
	left, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "-l", "app.kubernetes.io/name=lapse", "-o", "name",
		"jobs,daemonsets,serviceaccounts,roles,rolebindings,secrets,networkpolicies")
	if err != nil || strings.TrimSpace(left) != "" {
		t.Errorf("after helm uninstall there is %q, %v", left, err)
	}
	roles, err := c.Kubectl(t.Context(), "get", "clusterroles,clusterrolebindings", "-o", "name",
		"-l", "lapse.dev/namespace="+w.Namespace)
	if err != nil || strings.TrimSpace(roles) != "" {
		t.Errorf("after helm uninstall there is %q, %v", roles, err)
	}
}

// chart returns the chart's folder.
func chart(t *testing.T) string {
	t.Helper()
	folder, err := filepath.Abs("../../deploy/chart")
	if err != nil {
		t.Fatal(err)
	}
	return folder
}

// A guard of one namespace, installed by the chart, measures a rollout, and its gate answers. It leaves what it told: the
// Lease and Events.
func TestChartInstallsAGuard(t *testing.T) {
	t.Parallel()
	g := unguarded(t, 2, "")
	helm(t, g.c, "install", "guard", chart(t), "-n", g.namespace, "--set", "image.tag=dev",
		"--set", "guard.enabled=true,guard.allNamespaces=false,guard.flags={--rate=25,--settle=5s}",
		"--set", "guard.networkPolicy.enabled=true,guard.dashboard.enabled=true")
	g.stands()
	g.passes(g.rollOut, "rollout of web: ")
	const kinds = "deployments,services,configmaps,serviceaccounts,roles,rolebindings,poddisruptionbudgets,networkpolicies"
	objects := func(kinds string) []string {
		return strings.Fields(g.kubectl("-n", g.namespace, "get", kinds, "-l", "app.kubernetes.io/name=lapse-guard", "-o", "name"))
	}
	if there := objects(kinds); len(there) != 12 {
		t.Errorf("the chart installs %q", there)
	}
	// one Pod with a claim, and another strategy, whose defaults the API server would own if the chart had none
	helm(t, g.c, "upgrade", "guard", chart(t), "-n", g.namespace, "--reuse-values", "--set", "guard.persistence.existingClaim=runs")
	helm(t, g.c, "uninstall", "guard", "-n", g.namespace)
	g.kubectl("-n", g.namespace, "wait", "--for=delete", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "--timeout=2m")
	if left := objects(kinds + ",replicasets,pods,secrets"); len(left) > 0 {
		t.Errorf("after helm uninstall there is %q", left)
	}
}

// measured fetches the result of a run that the chart has started.
func measured(t *testing.T, c *drill.Cluster, w drill.Workload, run string) drill.Timeline {
	t.Helper()
	measuring(t, c, w, run)
	dir := filepath.Join(t.TempDir(), run)
	t.Log(lapse(t, c, "retrieve", run, "-n", w.Namespace, "--out", dir))
	timeline, err := drill.ReadTimeline(dir)
	if err != nil {
		t.Fatal(err)
	}
	if timeline.Verdict.Sent == 0 || timeline.Verdict.Result == "" {
		t.Errorf("%s: verdict %+v: want a run that was measured", run, timeline.Verdict)
	}
	return timeline
}
