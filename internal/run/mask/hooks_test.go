package mask

import (
	"strings"
	"testing"

	"lapse/timeline"
)

func TestTheCommandOfAHookIsRecordedWithoutCredentials(t *testing.T) {
	hook := &timeline.Hook{Kind: "exec", Command: "curl -H 'Authorization: Bearer abcdefghijkl' localhost/quit; sleep 5"}
	Hooks(timeline.Event{Kind: timeline.SnapshotTaken, Snapshot: &timeline.Snapshot{
		Template: &timeline.PodTemplate{Containers: []timeline.Container{{Name: "app"}, {Name: "web", PreStop: hook}}},
	}})
	if strings.Contains(hook.Command, "abcdefghijkl") || !strings.Contains(hook.Command, "localhost/quit; sleep 5") {
		t.Errorf("recorded as %q", hook.Command)
	}
}
