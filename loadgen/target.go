package loadgen

import (
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/timeline"
)

// A target is one target being measured: its schedule, and the engine that sends what is due.
type target struct {
	*engine.Requester
	prober   *Prober
	engine   engine.Engine
	prepared chan struct{} // closed when the engine is
	stopped  atomic.Bool   // Stop was called
	before   *target       // which had the same ID until it was stopped, and has not ended yet; nil if there is none
	ending   sync.Once

	delivered bool // its last requests were handed on; belongs to deliver

	place int     // among the prober's targets
	share float64 // which part of an interval it is shifted by

	schedule schedule // belongs to the pacing thread
}

// announce notes when the next request is due. Where a watermark has already passed that
// instant, the next one after it is taken.
func (t *target) announce() {
	for !t.Inflight.Expect(t.schedule.due()) {
		t.schedule.next += t.schedule.interval
	}
}

// send sends what is due at now. The pacing thread calls it.
func (t *target) send(now time.Duration) {
	for t.schedule.next <= now {
		j := engine.Job{Seq: t.schedule.seq, Due: t.schedule.due()}
		t.schedule.advance()
		t.Inflight.Opened(j.Seq, j.Due, t.schedule.due())
		if engine.TooLate(j.Due, now, t.schedule.interval) {
			t.Refuse(j, timeline.NotSent)
			continue
		}
		t.engine.Send(j)
	}
}

// end waits for what is in flight, once nothing paces t any more.
func (t *target) end() {
	t.ending.Do(func() {
		<-t.prepared
		t.engine.Close()
		t.Inflight.Ended(t.Clock.Now())
	})
}
