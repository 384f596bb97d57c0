package loadgen

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/stall"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A Thread paces the requests of one or more Probers. It is a thread of the operating system that mostly sleeps, and
// wakes each millisecond while requests are in flight: one for many Probers takes a fraction of the CPU.
type Thread struct {
	clock    timeline.Clock
	pacing   Pacing
	log      *slog.Logger
	changes  changes
	detector stall.Detector
	ports    *wire.PortAllocator
	polling  *engine.Polling
	opening  sync.Once
	ended    chan struct{}
	probers  atomic.Uint32 // that it was made for
}

// NewThread returns a Thread of a clock. Nothing is sent before [Thread.Run].
func NewThread(clock timeline.Clock, pacing Pacing, log *slog.Logger) *Thread {
	return &Thread{
		clock: clock, pacing: pacing, log: log, ended: make(chan struct{}),
		ports: wire.NewPortAllocator(), polling: engine.NewPolling(clock),
	}
}

// NewClock returns a clock for the facts of a Prober that the thread paces. Its zero is now.
func (h *Thread) NewClock() timeline.Clock {
	return timeline.ClockAt(h.clock.Wall(engine.FloorMicros(h.clock.Now()))) // instants are whole microseconds on both
}

// open prepares for the first prober.
func (h *Thread) open() {
	h.opening.Do(func() {
		if h.polling != nil {
			if err := h.polling.Open(); err != nil {
				h.log.Debug("goroutines read all replies", "err", err)
			}
		}
		if err := shortenSlices(); err != nil {
			h.log.Debug("no short slice from the scheduler", "err", err)
		}
	})
}

// Run paces until over is closed, which is after the end of each Prober that it paces. It can be called once.
func (h *Thread) Run(over <-chan struct{}) {
	h.open()
	pacer := pacer{
		clock: h.clock, sleep: sleep, spin: spin, early: h.pacing.early(),
		changes: &h.changes, stalls: &h.detector,
	}
	if h.polling.Works() {
		pacer.polling = h.polling.Reader
	}
	pacer.run(over)
	close(h.ended)
}

// change has the thread make a change, and waits until it has, or has ended.
func (h *Thread) change(change func(*pacer, time.Duration)) {
	done := make(chan struct{})
	h.changes.add(func(p *pacer, now time.Duration) {
		change(p, now)
		close(done)
	})
	select {
	case <-done:
	case <-h.ended:
	}
}

// offset returns which part of their intervals the next Prober's targets are shifted by, from 0 to 1: the fractions of
// multiples of the golden ratio lie apart, however many there are.
func (h *Thread) offset() float64 {
	_, offset := math.Modf(float64(h.probers.Add(1)-1) * math.Phi)
	return offset
}
