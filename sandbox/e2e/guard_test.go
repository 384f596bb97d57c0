//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// A guard that may read one namespace, and no nodes, measures a rollout that nobody announces to it, and then a second
// one: a run each, which the gate answers for by its template.
func TestAGuardMeasuresRolloutsThatNobodyAnnounced(t *testing.T) {
	t.Parallel()
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "graceful", "--drain-for", "5s"}})
	objects := lapse(t, c, "gen", "guard", "-n", w.Namespace, "--", "--rate=100", "--settle=10s")
	if err := c.Apply(t.Context(), objects); err != nil {
		t.Fatal(err)
	}
	kubectl := func(args ...string) string {
		t.Helper()
		out, err := c.Kubectl(t.Context(), append([]string{"-n", w.Namespace}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(out)
	}
	kubectl("rollout", "status", "deployment/lapse-guard", "--timeout=2m")
	log, err := c.Logs(t.Context(), w.Namespace, "deploy/lapse-guard", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	await := func(text string) {
		t.Helper()
		if err := log.Await(text); err != nil {
			t.Fatal(err)
		}
	}
	kubectl("annotate", "service/web", "lapse/guard=on")
	passed, runs := 0, 0
	for passed < 2 && runs < 5 {
		await("armed: 5/s")
		kubectl("rollout", "restart", "deployment/web")
		kubectl("rollout", "status", "deployment/web", "--timeout=2m")
		hash := kubectl("get", "pods", "-l", "app=web", "--field-selector=status.phase=Running",
			"--sort-by=.metadata.creationTimestamp",
			"-o", "jsonpath={.items[-1:].metadata.labels.pod-template-hash}")
		said := lapse(t, c, "gate", "svc/web", "-n", w.Namespace, "--hash="+hash, "--wait=3m")
		found := "NoRequestDropped"
		switch runs++; {
		case strings.HasPrefix(said, "PASS 0 of "):
			passed++
		case strings.HasPrefix(said, "INCONCLUSIVE 0 of "):
			found = "NotMeasured"
			t.Log("this machine let the guard stand still: " + said)
		default:
			t.Errorf("rollout %d of %s: %s", runs, hash, said)
		}
		status := lapse(t, c, "guard", "status", "-n", w.Namespace)
		if !strings.Contains(status, w.Namespace+"/web") || !strings.Contains(status, fmt.Sprintf("  %d  ", runs)) {
			t.Errorf("after rollout %d the status is\n%s", runs, status)
		}
		for _, on := range []string{"service", "deployment"} {
			described := kubectl("describe", on, "web")
			if !strings.Contains(described, found) || !strings.Contains(described, "rollout of web: 0 of ") {
				t.Errorf("after rollout %d there is no Event of it on the %s\n%s\n%s", runs, on, described, status)
			}
		}
	}
	if passed < 2 {
		t.Errorf("of %d rollouts %d passed", runs, passed)
	}
	dir := filepath.Join(t.TempDir(), "runs")
	if fetched := strings.Fields(lapse(t, c, "retrieve", "guard", "-n", w.Namespace, "--out", dir)); len(fetched) != runs {
		t.Errorf("fetched %q, want %d runs", fetched, runs)
	}
	kubectl("annotate", "service/web", "lapse/guard-")
	await("no longer guarded")
}
