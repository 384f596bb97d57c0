package engine

import (
	"math"
	"sync"
	"time"

	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

// An Inflight keeps one target's requests: which are open, and which are done but not yet handed on. They
// give the target's watermark, the instant before which nothing is missing.
type Inflight struct {
	stalls    *stall.Detector
	onFailure func() // called when a request was not answered well; it must not block. nil: nobody wants to know

	mu    sync.Mutex
	done  []timeline.Request
	open  []entry // by Seq, without gaps; those before head are settled, the one at head is open
	head  int
	first uint64 // Seq of open[0]
	next  time.Duration
	end   time.Duration // when the target's measuring ended; 0 while it runs

	promised time.Duration // the latest watermark
	closed   bool          // abandoned: nothing is recorded any more
}

// An entry is a request that was due and is not known to be over, or waits behind one that is not.
type entry struct {
	due  time.Duration
	over bool
}

const never = time.Duration(math.MaxInt64)

// newInflight returns the requests of a target whose first due instant is not known yet.
func newInflight(stalls *stall.Detector) *Inflight { return &Inflight{stalls: stalls, next: never} }

// Opened notes that request seq is due at due, and that the one after it will be due at next.
func (f *Inflight) Opened(seq uint64, due, next time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.open) == 0 {
		f.first = seq
	}
	f.stalls.Begun()
	f.open = append(f.open, entry{due: due})
	f.next = next
}

// Expect notes when the next request will be due. It refuses an instant before the last watermark, which
// promised that nothing more is due before it.
func (f *Inflight) Expect(next time.Duration) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if next < f.promised {
		return false
	}
	f.next = next
	return true
}

// finished notes how an open request ended.
func (f *Inflight) finished(r timeline.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return
	}
	f.stalls.Over(1)
	f.done = append(f.done, r)
	f.open[r.Seq-f.first].over = true
	for f.head < len(f.open) && f.open[f.head].over {
		f.head++
	}
	if f.head >= len(f.open)/2 {
		f.compact()
	}
	if f.onFailure != nil && r.Class != timeline.OK {
		f.onFailure()
	}
}

// compact drops what is settled, in place: once per as many requests as it moves.
func (f *Inflight) compact() {
	f.open = append(f.open[:0], f.open[f.head:]...)
	f.first += uint64(f.head)
	f.head = 0
}

// Awaited returns how many requests are open, or over behind one that is.
func (f *Inflight) Awaited() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.open) - f.head
}

// Ended notes that nothing will be due any more, and that nothing is open. The measuring has ended when the next
// request would have been due: the time until the last answers arrived does not count as time in which nothing was
// sent.
func (f *Inflight) Ended(now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.endAt(now)
}

func (f *Inflight) endAt(now time.Duration) {
	f.end = min(CeilMicros(now)+time.Microsecond, FloorMicros(f.next))
}

// Abandon ends as Ended does, while requests of the target are open: they are local, because they were not waited for.
func (f *Inflight) Abandon(target timeline.TargetID, now time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, e := range f.open {
		if !e.over {
			f.stalls.Over(1)
			f.done = append(f.done, timeline.Request{
				Target:  target,
				Seq:     f.first + uint64(i),
				Due:     e.due,
				Sent:    e.due,
				Done:    CeilMicros(now),
				Outcome: timeline.Outcome{Class: timeline.Local},
			})
		}
	}
	f.open, f.head, f.closed = nil, 0, true
	f.endAt(now)
}

// Take appends what is done to requests, and returns the watermark that goes with it. over is true
// for the last of them.
func (f *Inflight) Take(requests []timeline.Request, now time.Duration) (
	_ []timeline.Request, watermark time.Duration, over bool,
) {
	f.mu.Lock()
	defer f.mu.Unlock()
	requests = append(requests, f.done...)
	f.done = f.done[:0]
	f.promised = f.watermark(now)
	return requests, f.promised, f.end > 0
}

// watermark never passes now: until then a change of rate can still bring the next request forward.
func (f *Inflight) watermark(now time.Duration) time.Duration {
	switch {
	case f.head < len(f.open):
		return f.open[f.head].due
	case f.end > 0:
		return f.end
	}
	return FloorMicros(min(f.next, now))
}
