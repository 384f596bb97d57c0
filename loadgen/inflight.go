package loadgen

import (
	"math"
	"sync"
	"time"

	"lapse/timeline"
)

// A book keeps one target's requests: which are open, and which are done but not yet handed on. From
// that it knows the target's watermark, the instant before which nothing is missing.
type book struct {
	mu    sync.Mutex
	done  []timeline.Request
	open  []entry // by Seq, without gaps; those before head are settled, the one at head is open
	head  int
	first uint64 // Seq of open[0]
	next  time.Duration
	end   time.Duration // when the target's measuring ended; 0 while it runs

	promised time.Duration // the latest watermark
	closed   bool          // abandoned: how requests end is not noted any more
}

// An entry is a request that was due and is not known to be over, or waits behind one that is not.
type entry struct {
	due  time.Duration
	over bool
}

const never = time.Duration(math.MaxInt64)

// newBook returns the book of a target whose first due instant is not known yet.
func newBook() *book { return &book{next: never} }

// opened notes that request seq is due at due, and that the one after it will be due at next.
func (b *book) opened(seq uint64, due, next time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.open) == 0 {
		b.first = seq
	}
	b.open = append(b.open, entry{due: due})
	b.next = next
}

// expect notes when the next request will be due. It refuses an instant that a watermark has
// passed: we have promised that nothing more is due before that.
func (b *book) expect(next time.Duration) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if next < b.promised {
		return false
	}
	b.next = next
	return true
}

// finished notes how an open request ended.
func (b *book) finished(r timeline.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return
	}
	b.done = append(b.done, r)
	b.open[r.Seq-b.first].over = true
	for b.head < len(b.open) && b.open[b.head].over {
		b.head++
	}
	if b.head >= len(b.open)/2 {
		b.compact()
	}
}

// compact drops what is settled, in place: once per as many requests as it moves.
func (b *book) compact() {
	b.open = append(b.open[:0], b.open[b.head:]...)
	b.first += uint64(b.head)
	b.head = 0
}

// ended notes that nothing will be due any more, and that nothing is open. The measuring has ended when the next request would
// have been due: the time it took until the last answers were here is not time in which nothing was sent.
func (b *book) ended(now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.endAt(now)
}

func (b *book) endAt(now time.Duration) {
	b.end = min(ceilMicros(now)+time.Microsecond, floorMicros(b.next))
}

// abandon ends the book as ended does, though requests of target are open: that we did not wait for them is our doing.
func (b *book) abandon(target timeline.TargetID, now time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, e := range b.open {
		if !e.over {
			b.done = append(b.done, timeline.Request{
				Target: target, Seq: b.first + uint64(i), Due: e.due, Sent: e.due, Done: ceilMicros(now), Outcome: timeline.Outcome{Class: timeline.Local},
			})
		}
	}
	b.open, b.head, b.closed = nil, 0, true
	b.endAt(now)
}

// take appends what is done to requests, and returns the watermark that goes with it. over tells
// that this was the last of it.
func (b *book) take(requests []timeline.Request, now time.Duration) (_ []timeline.Request, watermark time.Duration, over bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	requests = append(requests, b.done...)
	b.done = b.done[:0]
	b.promised = b.watermark(now)
	return requests, b.promised, b.end > 0
}

// watermark never passes now: until then a change of rate can still bring the next request forward.
func (b *book) watermark(now time.Duration) time.Duration {
	switch {
	case b.head < len(b.open):
		return b.open[b.head].due
	case b.end > 0:
		return b.end
	}
	return floorMicros(min(b.next, now))
}
