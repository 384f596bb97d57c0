package protocol

import (
	"fmt"
	"testing"
	"time"

	"lapse/timeline"
)

// waitFor waits until cond holds, for as long as the test may take.
func waitFor(t *testing.T, what string, cond func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !cond(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("still no %s", what)
		}
	}
}

// probe returns a patient probe, so that no machine is so busy that a server in the same process answers too late.
// Tests of timeouts say their own.
func probe(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) Probe {
	return Probe{Target: timeline.Target{ID: id, Name: fmt.Sprint(kind, " ", id), Kind: kind, URL: url, Rate: rate,
		Timeout: 20 * time.Second}}
}
