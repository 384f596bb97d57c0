package engine

import (
	"slices"
	"testing"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

func probe(id timeline.TargetID, kind timeline.TargetKind, url string, rate float64) protocol.Probe {
	return protocol.Probe{Target: loadtest.Target(id, kind, url, rate)}
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
