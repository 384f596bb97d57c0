//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// A guarded is a workload whose Service a guard measures.
type guarded struct {
	t         *testing.T
	c         *drill.Cluster
	w         drill.Workload
	namespace string // of the guard
	events    *drill.Lines
}

// guard deploys a workload, which loses no request unless its args say otherwise, and then a guard whose two Pods
// measure it. It may read the nodes if it has a namespace of its own.
func guard(t *testing.T, replicas int, namespace string, args ...string) *guarded {
	t.Helper()
	g := unguarded(t, replicas, namespace, args...)
	scope := []string{"-A"}
	if namespace == "" {
		scope = []string{"-n", g.namespace}
	}
	gen := append([]string{"gen", "guard"}, scope...)
	if err := g.c.Apply(t.Context(), lapse(t, g.c, append(gen, "--", "--rate=25", "--settle=5s")...)); err != nil {
		t.Fatal(err)
	}
	g.stands()
	return g
}

// unguarded deploys the workload of [guard], whose guard is yet to be installed.
func unguarded(t *testing.T, replicas int, namespace string, args ...string) *guarded {
	t.Helper()
	c := cluster(t)
	if args == nil {
		args = []string{"--on-sigterm", "graceful", "--drain-for", "5s"}
	}
	g := &guarded{t: t, c: c, w: deploy(t, c, drill.Workload{Replicas: replicas, Args: args}), namespace: namespace}
	if namespace == "" {
		g.namespace = g.w.Namespace
	} else {
		g.kubectl("create", "namespace", namespace)
		t.Cleanup(func() {
			if err := c.Remove(context.WithoutCancel(t.Context()), namespace); err != nil {
				t.Error(err)
			}
		})
	}
	g.kubectl("-n", g.w.Namespace, "annotate", "service/web", "lapse/guard=on")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute) // an Event that never comes fails the test
	t.Cleanup(cancel)
	var err error
	if g.events, err = c.Follow(ctx, t.Output(), "-n", g.w.Namespace, "get", "events", "--watch",
		"-o", `jsonpath={.involvedObject.kind} {.message}{"\n"}`); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *guarded) kubectl(args ...string) string {
	g.t.Helper()
	out, err := g.c.Kubectl(g.t.Context(), args...)
	if err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(out)
}

// stands waits until both Pods of the guard measure.
func (g *guarded) stands() {
	g.t.Helper()
	g.kubectl("-n", g.namespace, "rollout", "status", "deployment/lapse-guard", "--timeout=2m")
}

// rollOut restarts the workload, and returns what the gate is asked about.
func (g *guarded) rollOut() []string {
	g.t.Helper()
	return g.beginRollOut()()
}

// passes disturbs the workload until the gate knows how that went: pass. The machine may let the guard stand still.
func (g *guarded) passes(disturb func() (about []string), event string) (runs int) {
	g.t.Helper()
	for runs = 1; runs <= 3; runs++ {
		about := disturb()
		said := lapse(g.t, g.c, append([]string{"gate", "svc/web", "-n", g.w.Namespace, "--wait=3m"}, about...)...)
		if err := g.events.Await("Service " + event); err != nil {
			g.t.Fatal(err)
		}
		if strings.HasPrefix(said, "PASS 0 of ") {
			return runs
		}
		if !strings.HasPrefix(said, "INCONCLUSIVE 0 of ") {
			g.t.Fatalf("of %q the gate says %s", about, said)
		}
		g.stands()
	}
	g.t.Fatal("the machine let the guard stand still each time")
	return runs
}

// A guard that may read one namespace, and no nodes, measures a rollout that nobody announces to it, and then a second
// one: a run each, which the gate answers for by its template, and of which the Service and the Deployment have Events. Changes
// of its ConfigMap count without a restart, unless they are wrong.
func TestAGuardMeasuresRolloutsThatNobodyAnnounced(t *testing.T) {
	t.Parallel()
	g := guard(t, 2, "")
	ns := g.w.Namespace
	runs := 0
	for range 2 {
		runs += g.passes(g.rollOut, "rollout of web: ")
		if err := g.events.Await("Deployment Service web: rollout of web: "); err != nil {
			t.Fatal(err)
		}
	}
	if status := lapse(t, g.c, "guard", "status", "-n", ns); !strings.Contains(status, ns+"/web") {
		t.Errorf("its status does not name the Service:\n%s", status)
	}
	dir := filepath.Join(t.TempDir(), "runs")
	fetched := strings.Fields(lapse(t, g.c, "retrieve", "guard", "-n", ns, "--out", dir))
	if len(fetched) != runs && len(fetched) != runs-1 { // the one that stands by may judge the last one a moment later
		t.Errorf("fetched %q, want %d runs", fetched, runs)
	}
	log, err := g.c.Follow(t.Context(), t.Output(), "-n", ns, "logs", "-f", "deploy/lapse-guard")
	if err != nil {
		t.Fatal(err)
	}
	for _, change := range []struct{ flags, says string }{
		{`--rate=25\n--settle=5s\n--rat=5\n`, "the configuration is wrong: the last good one stays in force"},
		{`--rate=25\n--settle=6s\n`, "the configuration has changed"},
	} {
		g.kubectl("-n", ns, "patch", "configmap/lapse-guard", "--type=merge", "-p", `{"data":{"flags":"`+change.flags+`"}}`)
		// The kubelet brings it within two minutes, and at once to a Pod that is changed.
		g.kubectl("-n", ns, "annotate", "pods", "-l", "app.kubernetes.io/name=lapse-guard", "--overwrite", "flags="+change.says)
		if err := log.Await(change.says); err != nil {
			t.Fatal(err)
		}
	}
	g.kubectl("-n", ns, "annotate", "service/web", "lapse/guard-")
	if err := log.Await("no longer guarded"); err != nil {
		t.Fatal(err)
	}
}

// The drain of the node on which the guard runs that leads is measured to its end: by the other one, which has measured
// all along. There is one verdict, and one Event.
func TestTheDrainOfTheGuardsOwnNodeIsMeasured(t *testing.T) {
	g := guard(t, 3, "lapse")
	t.Cleanup(func() {
		if err := g.c.Uncordon(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
	})
	g.kubectl("-n", g.namespace, "wait", "--for=create", "lease/lapse-guard", "--timeout=1m")
	leader := func() string {
		return g.kubectl("-n", g.namespace, "get", "lease", "lapse-guard", "-o", "jsonpath={.spec.holderIdentity}")
	}
	drained := 0
	drain := func() []string {
		led := leader()
		node := g.kubectl("-n", g.namespace, "get", "pod", led, "-o", "jsonpath={.spec.nodeName}")
		since := time.Now().UTC().Format(time.RFC3339Nano)
		g.kubectl("drain", node, "--ignore-daemonsets")
		if now := leader(); now == led {
			t.Errorf("%s was evicted, and still holds the Lease", led)
		}
		g.kubectl("uncordon", node)
		drained++
		return []string{"--node=" + node, "--since=" + since}
	}
	g.passes(drain, "drain of ")
	said := g.kubectl("-n", g.w.Namespace, "get", "events", "-o",
		`jsonpath={range .items[?(@.involvedObject.kind=="Service")]}{.message}{"\n"}{end}`)
	if n := strings.Count(said, "drain of "); n != drained {
		t.Errorf("%d drains, and the Service has Events of %d:\n%s", drained, n, said)
	}
}
