//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// One prober's Pod is deleted, and the process of another stands still for 2 s. What they missed is unobserved from
// their nodes alone: nothing failed, there is no window, and the third node was observed all along.
func TestALostProberIsAGapOfItsOwnNode(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	nodes := threeNodes(t, c)
	deleted, stopped := nodes[2], nodes[1]
	run := measure(t, c, w, "--from=all", "--rate=300", "--baseline=2s", "--settle=2s", "--min-coverage=50%",
		"--fail-if=failed>0", "--fail-if=sources.coverage<99.9%", "--",
		"sh", disturbProbers(t, w.Namespace, deleted, stopped))
	if lost := run.Timeline.Lost(); lost > 0 || slices.ContainsFunc(run.Timeline.Windows,
		func(w drill.Window) bool { return !run.Timeline.Excused(w) }) {
		t.Errorf("%d requests failed, %d windows: %s", lost, len(run.Timeline.Windows), run.Output)
	}
	if run.ExitCode != 3 {
		t.Errorf("exit code %d, want 3: the gate sources.coverage was not kept", run.ExitCode)
	}
	for _, node := range nodes {
		var lost, missed time.Duration
		for _, u := range run.Timeline.Unobserved {
			if !strings.HasPrefix(u.Target, "web new from "+node) {
				continue
			}
			missed += run.Timeline.WithoutStandstills(u.Start, u.End)
			if u.Reason != "prober stalled" {
				lost = max(lost, u.End-u.Start)
			}
		}
		t.Logf("%s missed %v", node, missed)
		switch node {
		case stopped:
			if missed < 1800*time.Millisecond || missed > 4*time.Second {
				t.Errorf("%s missed %v, and its prober stood still for 2 s", node, missed)
			}
		case deleted:
			if lost == 0 {
				t.Errorf("nothing is unobserved from %s, whose prober was deleted: %+v", node, run.Timeline.Unobserved)
			}
		default:
			if missed > 500*time.Millisecond {
				t.Errorf("%s missed %v, and nothing happened there", node, missed)
			}
		}
	}
	lostEvent := slices.ContainsFunc(run.Timeline.Events,
		func(e drill.Event) bool { return e.To == "lost" && e.Object.Name == deleted })
	if !lostEvent {
		t.Errorf("no event says that the prober on %s was lost", deleted)
	}
	again := target(t, run, "web new from "+deleted+" (prober 2)")
	if again.OK == 0 {
		t.Errorf("the new prober on %s measured nothing: %+v", deleted, again)
	}
	nothingLeft(t, c, run)
}

// disturbProbers is a shell script that deletes the prober's Pod of one node, and stops the prober's process of
// another one for 2 s.
func disturbProbers(t *testing.T, namespace, deleted, stopped string) string {
	t.Helper()
	script := filepath.Join(t.TempDir(), "disturb.sh")
	text := fmt.Sprintf(`set -e
tries=0
pod() { kubectl -n %[1]s get pods -l lapse.dev/part=prober --field-selector "spec.nodeName=$1" -o "jsonpath={.items[0].metadata.$2}"; }
sleep 3
old=$(pod %[2]s name)
kubectl -n %[1]s delete pod "$old" --wait=false
until kubectl -n %[1]s get pods -l lapse.dev/part=prober --field-selector spec.nodeName=%[2]s,status.phase=Running -o name | grep -v "/$old\$"; do
  tries=$((tries + 1))
  [ $tries -lt 300 ]
  sleep 0.2
done
sleep 6
uid=$(pod %[3]s uid)
found=
for dir in /proc/[0-9]*; do
  if grep -qs "$uid" "$dir/cgroup" && [ "$(cat "$dir/comm")" = lapse ]; then
    found=yes
    kill -STOP "${dir#/proc/}"; sleep 2; kill -CONT "${dir#/proc/}"
  fi
done
[ -n "$found" ]
sleep 6
`, namespace, deleted, stopped)
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return script
}
