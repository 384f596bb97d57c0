package engine

import (
	"net"
	"testing"
	"time"

	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// Requests that wait for us to choose a port are not kept waiting by the target.
func TestWaitingForAPortIsNotTheTargetsFault(t *testing.T) {
	silent, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts for it
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	p := probe(1, timeline.New, "http://"+silent.Addr().String(), 1000)
	p.Timeout, p.MaxConnections = 50*time.Millisecond, 4
	plan, err := protocol.Compile(p)
	if err != nil {
		t.Fatal(err)
	}
	plan.Ports = wire.NewPortAllocator()
	target := aRequester(timeline.StartClock(), p.Rate)
	target.Compiled = plan
	engine := newPerRequest(target)
	send := func(seq uint64) {
		due := FloorMicros(target.Clock.Now())
		target.Inflight.Opened(seq, due, due+time.Millisecond)
		engine.Send(Job{Seq: seq, Due: due})
	}
	for seq := range uint64(4) {
		send(seq)
	}
	plan.Ports.Choosing.Add(4) // as if all of them waited
	send(4)
	plan.Ports.Choosing.Add(-4)
	engine.Close()
	target.Inflight.Ended(target.Clock.Now())
	requests, _, _ := target.Inflight.Take(nil, target.Clock.Now())
	for _, r := range requests {
		if r.Seq == 4 && r.Class == timeline.NotSent {
			return
		}
	}
	t.Errorf("the request beyond the cap is not %v: %+v", timeline.NotSent, requests)
}
