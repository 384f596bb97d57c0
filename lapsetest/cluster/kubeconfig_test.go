//go:build e2e

package cluster_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"lapse/lapsetest"
	"lapse/lapsetest/cluster"
)

// These tests are the examples in docs/how-to/test-a-service.md. They need a cluster: a kubeconfig, kubectl, and two
// Services that are reached from here, in the namespace that NAMESPACE names. sandbox/e2e brings these.

// The Pods of Service graceful serve on after SIGTERM, for longer than nodes send them connections.
func TestRolloutDropsNothing(t *testing.T) {
	m := cluster.Start(t, cluster.Service{Namespace: os.Getenv("NAMESPACE"), Name: "graceful"})
	kubectl(t, "rollout", "restart", "deployment/graceful")
	kubectl(t, "rollout", "status", "deployment/graceful")
	m.Stop().NoFailures()
}

// Service lone has one Pod. While it is replaced nobody answers, and the result says why.
func TestTheOnlyPodIsMissed(t *testing.T) {
	s := cluster.Service{Namespace: os.Getenv("NAMESPACE"), Name: "lone"}
	r := cluster.During(t, s, func() {
		kubectl(t, "delete", "pods", "-l", "app=lone")
		kubectl(t, "rollout", "status", "deployment/lone")
	}, lapsetest.OrInconclusive())
	if r.Verdict.Downtime.Total.Min < time.Second {
		t.Errorf("downtime %+v: want an outage while the next Pod starts", r.Verdict.Downtime)
	}
	explained := 0
	for _, w := range r.Windows {
		cause := w.Causes[0]
		t.Logf("%s: %d of %d failed: %s [%s] %s", w.Target, w.Failed, w.Sent, cause.Rule, cause.Confidence, cause.Text)
		if cause.Rule == "no-ready-endpoint" {
			explained++
		}
	}
	if explained == 0 {
		t.Error("no window has the cause no-ready-endpoint")
	}
}

func kubectl(t *testing.T, args ...string) {
	t.Helper()
	args = append([]string{"-n", os.Getenv("NAMESPACE")}, args...)
	if out, err := exec.CommandContext(t.Context(), "kubectl", args...).CombinedOutput(); err != nil {
		t.Errorf("kubectl %s: %v: %s", strings.Join(args, " "), err, out)
	}
}
