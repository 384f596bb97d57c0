//go:build e2e

package e2e

import (
	"testing"

	"lapse/sandbox/drill"
	"lapse/sandbox/truth"
)

func TestRollingRestartNamesEachPodAsLongAsItsRoutesLasted(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 3, Args: []string{"--on-sigterm", "exit"}})
	watch, err := truth.Begin(t.Context(), c, w)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Close()
	run := measure(t, c, w, "--rate=200", "--fail-if=failed>0", "--settle=10s", "--", "kubectl", "-n", w.Namespace,
		"rollout", "restart", "deployment/web")
	if err := c.Ready(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	agreesWithTheTruth(t, run, watch, w.Replicas, w.Replicas)
}
