//go:build e2e

package e2e

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// The examples of lapsetest/cluster hold. They run as somebody's own test does, on a machine that is no node: it
// reaches the nodes' ports, and the API server through its kubeconfig.
func TestAServiceIsMeasuredByGoTest(t *testing.T) {
	c := cluster(t)
	graceful := drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "graceful", "--drain-for", "5s"}}
	graceful = deployAs(t, c, graceful, "graceful")
	lone := graceful
	lone.Name, lone.Replicas, lone.Args = "lone", 1, []string{"--on-sigterm", "exit", "--ready-delay", "3s"}
	if err := c.Apply(t.Context(), lone.Manifest()); err != nil {
		t.Fatal(err)
	}
	if err := c.Ready(t.Context(), lone); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{graceful.Name, lone.Name} {
		const nodePort = `{"spec":{"type":"NodePort"}}`
		if _, err := c.Kubectl(t.Context(), "-n", graceful.Namespace, "patch", "service", name, "-p", nodePort); err != nil {
			t.Fatal(err)
		}
		if err := c.Routed(t.Context(), graceful.Namespace, name); err != nil {
			t.Fatal(err)
		}
	}

	program := filepath.Join(t.TempDir(), "cluster.test")
	build := exec.CommandContext(t.Context(), "go", "test", "-c", "-tags=e2e", "-o", program, "./lapsetest/cluster")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	const examples = "^(TestRolloutDropsNothing|TestTheOnlyPodIsMissed)$"
	for try := 1; ; try++ {
		test := exec.CommandContext(t.Context(), filepath.Join(c.Dir, "bin", "sandbox"), "--dir", c.Dir,
			"exec", "outside", "--", program, "-test.v", "-test.run", examples)
		test.Env = append(c.Env(), "NAMESPACE="+graceful.Namespace)
		out, err := test.CombinedOutput()
		t.Log(string(out))
		if inconclusive := strings.Contains(string(out), "is not known"); inconclusive && try < 3 {
			continue // the machine stood still
		}
		if err != nil || strings.Count(string(out), "--- PASS") != 2 {
			t.Errorf("%v: want two tests that pass", err)
		}
		return
	}
}
