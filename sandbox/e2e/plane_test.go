//go:build e2e

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// The API server stands still for some seconds, while the Service answers: no request fails, and the run passes. It
// shows when the API server did not answer, and changes in the cluster have wider brackets.
func TestABlackoutOfTheAPIIsShownAndIsNoOutage(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2})
	state, err := c.State()
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(state.Processes, func(p drill.Process) bool { return p.Name == "kube-apiserver" })
	if at < 0 {
		t.Fatal("the sandbox has no API server")
	}
	pid := state.Processes[at].PID
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGCONT) })
	stamps := filepath.Join(t.TempDir(), "stamps")
	const stamp = "date +%%s%%N >> %[2]s; "
	script := fmt.Sprintf(stamp+"kill -STOP %[1]d; "+stamp+"sleep 5; "+stamp+"kill -CONT %[1]d; "+stamp, pid, stamps)
	run := measure(t, c, w, "--control-plane", "--rate=100", "--baseline=3s", "--settle=5s", "--fail-if=failed>0", "--",
		"sh", "-c", script)

	tl := run.Timeline
	if v := tl.Verdict; v.Failed > 0 || v.Result != "pass" && v.Coverage >= 0.99 || len(tl.Windows)+len(tl.Incidents) > 0 {
		t.Errorf("%s, %d of %d failed, windows %+v: want a pass without any", v.Result, v.Failed, v.Sent, tl.Windows)
	}
	stopped, continued := readStamps(t, tl.T0, stamps)
	plane := tl.ControlPlane
	if plane == nil || plane.NotAsked != "" || len(plane.Servers) != 3 {
		t.Fatalf("the control plane: %+v", plane)
	}
	for _, s := range plane.Servers {
		if s.NotMeasured != "" || len(s.Refused) > 0 || len(s.Outages) == 0 {
			t.Errorf("%+v, want it measured, and out once", s)
			continue
		}
		first, last := s.Outages[0], s.Outages[len(s.Outages)-1]
		if !overlap(first.Start, stopped) || !overlap(last.End, continued) {
			t.Errorf("%s stood still from %v to %v, and is said to have from %v to %v", s.Path, stopped, continued,
				first.Start, last.End)
		}
	}
	if !slices.ContainsFunc(tl.Events, func(e drill.Event) bool {
		return e.Kind == "watch-gap" && e.At.Earliest <= stopped.Latest && e.At.Latest >= continued.Earliest
	}) {
		t.Error("no watch gap covers the blackout")
	}
	if !strings.Contains(run.Output, "control plane: ") {
		t.Error("the summary does not name the control plane")
	}
}

// readStamps returns the instants on the run's clock between which the API server was stopped, and continued.
func readStamps(t *testing.T, t0 time.Time, file string) (stopped, continued drill.Instant) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var at []time.Duration
	for _, line := range strings.Fields(string(text)) {
		nanos, err := strconv.ParseInt(line, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		at = append(at, time.Unix(0, nanos).Sub(t0))
	}
	if len(at) != 4 {
		t.Fatalf("stamps %q", text)
	}
	return drill.Instant{Earliest: at[0], Latest: at[1]}, drill.Instant{Earliest: at[2], Latest: at[3]}
}

func overlap(a, b drill.Instant) bool { return a.Earliest <= b.Latest && b.Earliest <= a.Latest }
