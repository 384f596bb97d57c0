package engine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lapse/loadgen/internal/protocol"
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
func probe(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) protocol.Probe {
	return protocol.Probe{Target: timeline.Target{ID: id, Name: fmt.Sprint(kind, " ", id), Kind: kind, URL: url,
		Rate: rate, Timeout: 20 * time.Second}}
}

func TestKeptConnectionsTakeTurns(t *testing.T) {
	t.Parallel()
	target := aRequester(timeline.StartClock(), 100)
	target.Compiled.Keep = 4
	p := newPool(target)
	number := map[*connSlot]int{}
	for n := range 4 {
		s := &connSlot{kept: true}
		number[s] = n
		p.ready(s)
	}
	var order []int
	for range 8 {
		s, _ := p.take()
		order = append(order, number[s])
		p.put(s)
	}
	if want := []int{0, 1, 2, 3, 0, 1, 2, 3}; !slices.Equal(order, want) {
		t.Errorf("order %v, want %v", order, want)
	}
}
