package correlate

import (
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"lapse/timeline"
)

// deadNode is a node that dies while answers take 80 ms: the requests in flight time out, and no other connects.
const deadNode = `
-- requests --
new: every 10ms 0s..30s ok in 80ms
new: 10s..16s timeout_connect 1 of 2
direct web-1: every 20ms 0s..30s ok in 80ms
direct web-2: every 20ms 0s..30s ok in 80ms
direct web-2: 9.92s..16s timeout_connect
direct web-2: 9.92s..10s timeout_response
control: every 10ms 0s..30s ok
-- events --
0s pod-seen web-1 Running : listed
0s pod-ready web-1 true
0s endpoint web-1 ready
0s pod-seen web-2 Running : listed
0s pod-ready web-2 true
0s endpoint web-2 ready
`

// A guard asks Pods' own addresses less often than once a second until there is a sign of a disruption, and says only
// that rate.
func TestADeadNodeHangsNoPodWhoseAddressWasAskedMoreOftenThanItsTargetSays(t *testing.T) {
	run := readCase(t, txtar.Parse([]byte(deadNode))).run()
	for i := range run.Targets {
		if run.Targets[i].Kind == timeline.Direct {
			run.Targets[i].Rate = 1
		}
	}
	for _, w := range analyzed(t, run).Windows {
		if got := w.Causes[0]; got.Rule != "node-unreachable" {
			t.Errorf("%s [%s]: %s", got.Rule, got.Confidence, got.Text)
		}
		for _, c := range w.Causes {
			if c.Rule == "pod-hung" {
				t.Errorf("%s is a cause as well", c.Rule)
			}
		}
	}
}
