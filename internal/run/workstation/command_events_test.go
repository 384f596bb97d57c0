package workstation

import (
	"strings"
	"testing"

	"lapse/internal/run/screen"
	"lapse/timeline"
)

// The start and the end of the command come home with the recording, which may be far behind.
func TestScreenTellsOfTheCommandBeforeItComesHome(t *testing.T) {
	var out strings.Builder
	s := screen.New(&out, 0)
	r := &clusterRun{screen: s, events: newCommandEvents(), feed: newFeed(nil)}
	r.clock.known = []comparison{{}}
	r.sendLater(timeline.Event{Seen: r.clock.local.Now(), Kind: timeline.Command, To: "running", Detail: "kubectl drain node2"})
	r.sendLater(timeline.Event{Seen: r.clock.local.Now(), Kind: timeline.Command, From: "running", To: "exited", ExitCode: new(1)})
	s.Close(nil)
	if got := out.String(); strings.Count(got, "command running: kubectl drain node2\n") != 1 || strings.Count(got, "command exited with code 1\n") != 1 {
		t.Errorf("%q", got)
	}
}
