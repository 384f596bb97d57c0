//go:build e2e

package e2e

import (
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// A drain that nobody announces to Lapse is measured from before it begins, from every node, at the full rate from the
// cordon on, and the run ends by itself when the Pod's replacement serves.
func TestAnUnannouncedDrainIsMeasuredFromBeforeItBegan(t *testing.T) {
	c := cluster(t)
	w := deploy(t, c, drill.Workload{Replicas: 2, Args: []string{"--on-sigterm", "exit"}})
	drained, err := c.NodeOf(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Uncordon(t.Context()) })
	dir := runDir(t)
	var draining sync.WaitGroup
	begin := sync.OnceFunc(func() {
		draining.Go(func() {
			time.Sleep(10 * time.Second) // with nothing to see
			if _, err := c.Kubectl(t.Context(), "cordon", drained); err != nil {
				t.Error(err)
			}
			time.Sleep(2 * time.Second)
			if _, err := c.Kubectl(t.Context(), "drain", drained, "--ignore-daemonsets"); err != nil {
				t.Error(err)
			}
		})
	})
	lapseTelling(t, c, func(line string) {
		if strings.Contains(line, "the first sign of a disruption") {
			begin()
		}
	}, "run", "svc/web", "-n", w.Namespace, "--armed", "--from=all", "--rate=90", "--settle=5s", "--avoid-node="+drained, "--out="+dir)
	draining.Wait()
	timeline, err := drill.ReadTimeline(dir)
	if err != nil {
		t.Fatal(err)
	}
	if timeline.Run.Aborted != "" {
		t.Errorf("the run was aborted: %s", timeline.Run.Aborted)
	}
	first := func(is func(drill.Event) bool) time.Duration {
		i := slices.IndexFunc(timeline.Events, is)
		if i < 0 {
			t.Fatalf("no such event among %+v", timeline.Events)
		}
		return timeline.Events[i].Seen
	}
	cordoned := first(func(e drill.Event) bool { return e.Kind == "node-schedulable" && e.To == "false" })
	raised, nodes := time.Duration(0), 0
	for _, e := range timeline.Events {
		if e.Kind == "rate" && strings.Contains(e.Object.Name, " new from ") {
			if raised, nodes = max(raised, e.Seen), nodes+1; e.To != "30" {
				t.Errorf("%s is asked at %s/s, want a third of 90", e.Object.Name, e.To)
			}
		}
	}
	if nodes != 3 {
		t.Errorf("the rate was raised on %d nodes, want 3", nodes)
	}
	left := first(func(e drill.Event) bool { return e.Kind == "endpoint" && e.From == "ready" })
	late := raised-cordoned > 100*time.Millisecond && !slices.ContainsFunc(timeline.Standstills(), func(stop drill.Instant) bool {
		return stop.Earliest < raised && stop.Latest > cordoned
	})
	if cordoned < 5*time.Second || raised < cordoned || late || left-raised < time.Second {
		t.Errorf("cordoned at %v, the rate raised at %v, the first endpoint left at %v", cordoned, raised, left)
	}
	if length := timeline.Run.Duration - left; length < 5*time.Second || length > 90*time.Second {
		t.Errorf("it went on for %v after the first endpoint had left", length)
	}
	run := drill.Run{Dir: dir, ExitCode: timeline.Verdict.ExitCode, Timeline: timeline}
	validate(t, c, run)
	nothingLeft(t, c, run)
}
