package correlate

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

// A container that is to be started again is no Pod that comes up.
func TestPodThatBacksOffAfterACrashIsCrashed(t *testing.T) {
	web := &timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "u1"}
	event := func(at time.Duration, kind timeline.EventKind, to, detail string) Event {
		return Event{Seen: at, At: Instant{Earliest: at, Latest: at}, Kind: kind, To: to, Detail: detail, Object: web}
	}
	for about, test := range map[string]struct {
		events []Event
		want   string
	}{
		"crashes, waits and is started again": {[]Event{
			event(0, timeline.PodSeen, "Running", ""), event(0, timeline.PodScheduled, "node1", ""), event(0, timeline.PodContainer, "running", "app"), event(0, timeline.PodReady, "true", ""),
			event(5*time.Second, timeline.PodContainer, "terminated", "app Error"), event(5*time.Second, timeline.PodReady, "false", ""),
			event(6*time.Second, timeline.PodContainer, "waiting", "app CrashLoopBackOff"),
			event(16*time.Second, timeline.PodContainer, "running", "app"), event(17*time.Second, timeline.PodReady, "true", ""),
		}, "0s ready, 5s crashed, 16s running, 17s ready"},
		"was backing off when first seen": {[]Event{
			event(0, timeline.PodSeen, "Running", "listed"), event(0, timeline.PodScheduled, "node1", ""), event(0, timeline.PodContainer, "waiting", "app CrashLoopBackOff"),
		}, "0s crashed"},
		"is only coming up": {[]Event{
			event(0, timeline.PodSeen, "Pending", ""), event(0, timeline.PodScheduled, "node1", ""), event(0, timeline.PodContainer, "waiting", "app ContainerCreating"),
		}, "0s creating"},
	} {
		pods := lives(&scene{run: &Timeline{Events: test.events}})
		var states []string
		for _, s := range pods[0].States {
			states = append(states, fmt.Sprintf("%v %s", s.Start, s.State))
		}
		if got := strings.Join(states, ", "); got != test.want {
			t.Errorf("a Pod that %s: %s, want %s", about, got, test.want)
		}
	}
}
