//go:build e2e

package e2e

import (
	"bufio"
	"os/exec"
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
	w := deploy(t, c, drill.Workload{Replicas: 2})
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
	guard := func(args ...string) (string, error) {
		exec := []string{"-n", w.Namespace, "exec", "deploy/lapse-guard", "--", "/lapse"}
		return c.Kubectl(t.Context(), append(exec, args...)...)
	}
	kubectl("rollout", "status", "deployment/lapse-guard", "--timeout=2m")
	log := logsOf(t, c, w.Namespace, "deploy/lapse-guard")
	kubectl("annotate", "service/web", "lapse/guard=on")
	for _, runs := range []string{"1", "2"} {
		log.say("armed: 5/s")
		kubectl("rollout", "restart", "deployment/web")
		kubectl("rollout", "status", "deployment/web", "--timeout=2m")
		hash := kubectl("get", "pods", "-l", "app=web", "--field-selector=status.phase=Running",
			"--sort-by=.metadata.creationTimestamp",
			"-o", "jsonpath={.items[-1:].metadata.labels.pod-template-hash}")
		said, err := guard("gate", "svc/web", "-n", w.Namespace, "--hash="+hash, "--wait=3m",
			"--guard=http://127.0.0.1:7117")
		if !strings.HasPrefix(said, "PASS 0 of ") && !strings.HasPrefix(said, "FAIL ") {
			t.Errorf("rollout %s of %s: %s (%v)", runs, hash, said, err)
		}
		status, err := guard("guard", "status")
		if !strings.Contains(status, w.Namespace+"/web") || !strings.Contains(status, "  "+runs+"  ") {
			t.Errorf("after rollout %s the status is (%v)\n%s", runs, err, status)
		}
	}
	kubectl("annotate", "service/web", "lapse/guard-")
	log.say("no longer guarded")
}

// Logs are those of a Pod, which are followed.
type logs struct {
	t     *testing.T
	lines *bufio.Scanner
}

func logsOf(t *testing.T, c *drill.Cluster, namespace, of string) *logs {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), filepath.Join(c.Dir, "bin", "kubectl"), "-n", namespace, "logs", "-f", of)
	cmd.Env = c.Env()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // the test's context has ended it
	return &logs{t, bufio.NewScanner(out)}
}

// say waits for a line with a text.
func (l *logs) say(text string) {
	l.t.Helper()
	for l.lines.Scan() {
		if l.t.Log(l.lines.Text()); strings.Contains(l.lines.Text(), text) {
			return
		}
	}
	l.t.Fatalf("the log ended without %q", text)
}
