//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// fromAll waits until the guard measures from each of three nodes.
func (g *guarded) fromAll() {
	g.t.Helper()
	g.kubectl("-n", g.namespace, "rollout", "status", "daemonset/lapse-guard-probers", "--timeout=2m")
	g.awaits("measured from 3 nodes, too")
	said := ""
	until(g.t, "the guard measures from each node", func() bool {
		said = lapse(g.t, g.c, "guard", "status", "-n", g.namespace)
		return !strings.Contains(said, "nothing is measured from")
	}, func() string { return said })
}

// The cluster-autoscaler drains a node, which it does not cordon, and removes it: the kubelet stops, and the prober with
// it. Nothing sends requests from there any more, and the drain passes by what the other nodes measure.
func TestADrainedNodeThatGoesDownMakesNoDoubt(t *testing.T) {
	g := unguarded(t, 2, "lapse")
	threeNodes(t, g.c)
	if err := g.c.Apply(t.Context(), lapse(t, g.c, "gen", "guard", "-A", "--from=all", "--", "--rate=40", "--settle=5s")); err != nil {
		t.Fatal(err)
	}
	g.stands()
	signal := func(node string, s syscall.Signal) {
		pids, err := g.c.PIDs("kubelet", node)
		if err != nil {
			t.Error(err)
		}
		for _, pid := range pids {
			_ = syscall.Kill(pid, s)
		}
	}
	g.passes(func() []string {
		g.fromAll()
		node := g.kubectl("-n", g.w.Namespace, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[0].spec.nodeName}")
		prober := g.kubectl("-n", g.namespace, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard-probers",
			"--field-selector=spec.nodeName="+node, "-o", "jsonpath={.items[0].metadata.uid}")
		since := time.Now().UTC().Format(time.RFC3339Nano)
		const taint = "ToBeDeletedByClusterAutoscaler"
		g.kubectl("taint", "node", node, fmt.Sprintf("%s=%d:NoSchedule", taint, time.Now().Unix()))
		defer g.kubectl("taint", "node", node, taint+"-")
		g.evictAll(node)
		defer g.kubectl("wait", "node/"+node, "--for=condition=Ready", "--timeout=2m")
		defer signal(node, syscall.SIGCONT)
		signal(node, syscall.SIGSTOP)
		if err := syscall.Kill(g.pid(prober, "probe"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		g.kubectl("wait", "node/"+node, "--for=condition=Ready=unknown", "--timeout=2m")
		return []string{"--node=" + node, "--since=" + since}
	}, "drain of ")
}

// evictAll evicts the Pods of a node but those of DaemonSets, and waits for their end.
func (g *guarded) evictAll(node string) {
	pods := g.kubectl("get", "pods", "-A", "--field-selector=spec.nodeName="+node, "-o",
		`jsonpath={range .items[?(@.metadata.ownerReferences[0].kind=="ReplicaSet")]}{.metadata.namespace} {.metadata.name}{"\n"}{end}`)
	for line := range strings.Lines(pods) {
		namespace, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		g.kubectl(eviction(g.t, namespace, name)...)
	}
	for line := range strings.Lines(pods) {
		namespace, name, _ := strings.Cut(strings.TrimSpace(line), " ")
		g.kubectl("-n", namespace, "wait", "--for=delete", "pod/"+name, "--timeout=2m")
	}
}

// eviction returns what asks kubectl to evict a Pod through the API.
func eviction(t *testing.T, namespace, pod string) (args []string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "eviction.json")
	text := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod, namespace)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Error(err)
	}
	return []string{"create", "--raw", "/api/v1/namespaces/" + namespace + "/pods/" + pod + "/eviction", "-f", file}
}

// A guard of one namespace measures a rollout from each node, from before it begins and at its share of the full rate:
// two guards, each by the same three probers. One of these, on a node without a guard, is killed while the next rollout
// is measured: the gate does not let pass what was not measured from there, and the process that starts again measures
// the third. Then `lapse delete guard` leaves nothing.
func TestAGuardMeasuresFromEachNode(t *testing.T) {
	t.Parallel()
	g := unguarded(t, 3, "")
	nodes := threeNodes(t, g.c)
	ns := g.namespace
	text := lapse(t, g.c, "gen", "guard", "-n", ns, "--from=all", "--", "--rate=40", "--settle=5s")
	if err := g.c.Apply(t.Context(), text); err != nil {
		t.Fatal(err)
	}
	g.stands()
	g.fromAll()
	g.passes(g.rollOut, "rollout of web: ")

	dir := filepath.Join(t.TempDir(), "runs")
	first := strings.Fields(lapse(t, g.c, "retrieve", "guard", "-n", ns, "--out", dir))
	timeline, err := drill.ReadTimeline(first[len(first)-1])
	if err != nil {
		t.Fatal(err)
	}
	for _, node := range nodes {
		measured, err := timeline.Target("web new from " + node)
		if err != nil || measured.OK == 0 || measured.Failed > 0 || measured.Node != node || measured.Rate != 10 {
			t.Errorf("from %s: %+v, %v", node, measured, err)
		}
	}

	end := g.beginRollOut()
	g.awaits("recording")
	guards := strings.Fields(g.kubectl("-n", ns, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "-o", "jsonpath={.items[*].spec.nodeName}"))
	probers := g.kubectl("-n", ns, "get", "pods", "-l", "app.kubernetes.io/name=lapse-guard-probers", "-o",
		`jsonpath={range .items[*]}{.spec.nodeName} {.metadata.uid}{"\n"}{end}`)
	for line := range strings.Lines(probers) {
		node, prober, _ := strings.Cut(strings.TrimSpace(line), " ")
		if slices.Contains(guards, node) { // which measures from there as well
			continue
		}
		if err := syscall.Kill(g.pid(prober, "probe"), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		break
	}
	said := lapse(t, g.c, append([]string{"gate", "svc/web", "-n", ns, "--wait=3m"}, end()...)...)
	if strings.HasPrefix(said, "PASS") || strings.HasPrefix(said, "FAIL") {
		t.Errorf("a prober was killed, and of the rollout the gate says %s", said)
	}
	g.fromAll()
	g.passes(g.rollOut, "rollout of web: ")

	lapse(t, g.c, "delete", "guard", "-n", ns)
	if left := g.kubectl("-n", ns, "get", "daemonsets,secrets,deployments,roles,configmaps", "-o", "name"); strings.Contains(left, "lapse") {
		t.Errorf("`lapse delete guard` leaves %s", left)
	}
}
