//go:build e2e

package e2e

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"lapse/sandbox/drill"
)

// One server of each Pod serves on after SIGTERM, the other one exits.
func TestEachPortIsJudgedByItsOwnProbes(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "graceful", "--drain-for", "6s"},
		Metrics: []string{"--on-sigterm", "exit"}})
	pods, err := c.Kubectl(t.Context(), "-n", w.Namespace, "get", "pods", "-l", "app=web", "-o", "name")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "run")
	args := []string{"run", "svc/web:http", "svc/web:metrics", "-n", w.Namespace, "--out", dir, "--rate=150",
		"--fail-if=failed>0", "--settle=4s", "--"}
	run, err := c.Command(t.Context(), append(args,
		staleRoutes(t, c, w, strings.Fields(pods)[0],
			"kubectl -n "+w.Namespace+" delete --wait=false "+strings.Fields(pods)[0])...)...).Finish(dir)
	checked(t, c, run, err)
	seen := map[string]int{}
	for _, e := range run.Timeline.Events {
		if e.Kind == "pod-seen" || e.Kind == "pod-ready" {
			seen[fmt.Sprint(e.Kind, " ", e.To, " ", e.Object.Name, " ", e.Seen)]++
		}
	}
	for event, n := range seen {
		if n > 1 {
			t.Errorf("the event %s is there %d times", event, n)
		}
	}
	lost := map[string]int{}
	for _, target := range run.Timeline.Targets {
		if target.Kind == "new" || target.Kind == "reused" {
			lost[target.Kind+" "+target.Name[strings.Index(target.Name, ":")+1:]] = target.Failed
		}
	}
	for _, window := range run.Timeline.Windows {
		if run.Timeline.Excused(window) {
			continue
		}
		if strings.Contains(window.Target, "metrics") && strings.HasSuffix(window.Target, "new") &&
			window.Causes[0].Rule != routeOutlivesPod {
			t.Errorf("window %+v: want it to be %s, for the Pod's own port stopped", window, routeOutlivesPod)
		}
		if !strings.Contains(window.Target, "metrics") {
			t.Errorf("window %+v: the port http served on", window)
		}
	}
	if len(run.Timeline.CausedBy(routeOutlivesPod)) == 0 {
		t.Errorf("targets %v, windows %+v: want new connections to metrics lost on stale routes",
			lost, run.Timeline.Windows)
	}
}
