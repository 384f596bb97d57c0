package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/sandbox/drill"
)

// A failure belongs to the drain that began last before it was sent.
func TestLossesAreOfTheDrainBefore(t *testing.T) {
	var tl drill.Timeline
	for _, at := range []time.Duration{10 * time.Second, 20 * time.Second, 30 * time.Second} {
		tl.Events = append(tl.Events, drill.Event{Kind: "command-output", Detail: drainMark + "1",
			At: drill.Instant{Earliest: at - time.Second, Latest: at}})
	}
	tl.Events = append(tl.Events, drill.Event{Kind: "command-output", Detail: "node/node1 drained", At: drill.Instant{Latest: 13 * time.Second}})
	for _, sent := range []time.Duration{13, 14, 31} {
		tl.Failures = append(tl.Failures, drill.Failure{Sent: sent * time.Second})
	}
	if got := lostByDrain(tl); !slices.Equal(got, []int{2, 0, 1}) {
		t.Errorf("lost %v", got)
	}
}

func TestAdviceIsReadFromWhatIsPrinted(t *testing.T) {
	for output, want := range map[string]int{
		"  DO   serve on for 3 s after\n       a Pod's deletion, as with a preStop sleep": 3,
		"PASS  no failure seen": 0,
	} {
		if got, err := secondsIn(output); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %d, %v", output, got, err)
		}
	}
}

// The shorter advice is what is followed; a drain that loses a request in spite of it refutes it.
func TestAdviceThatLosesRequestsDoesNotHold(t *testing.T) {
	held := advised{Conditions: drill.Conditions{Mode: "iptables"}, OfRoutes: 2, OfRun: 3, Lost: []int{0, 0}}
	lossy := held
	lossy.Mode, lossy.Lost = "nftables", []int{0, 4}
	if err := adviceVerdict([]advised{held}); err != nil {
		t.Error(err)
	}
	err := adviceVerdict([]advised{held, lossy})
	if err == nil || err.Error() != "nftables: 1 of 2 drains lost 4 requests in spite of a preStop sleep of 2 s" {
		t.Errorf("%v", err)
	}
	if doc := adviceDocument([]advised{held, lossy}); !strings.Contains(doc, "| nftables | 2 s | 3 s, 0 | 2 s | 2 | 1 | 4 of 0 |") {
		t.Errorf("%s", doc)
	}
}
