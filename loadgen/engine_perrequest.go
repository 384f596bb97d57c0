package loadgen

import (
	"sync"
	"sync/atomic"

	"lapse/timeline"
)

// fresh opens a connection for every request and closes it after the reply: what a new client of the
// Service meets. It serves new and direct targets, which differ only in where they connect to.
type fresh struct {
	*target
	open  atomic.Int64 // requests handed to goroutines
	begun atomic.Int64 // of those, how many the service keeps waiting, or the choice of a port
	idle  atomic.Int64 // goroutines that wait for the next request
	next  chan job     // for them
	wg    sync.WaitGroup
}

// maxIdle is how many goroutines wait for the next request: a stall leaves many behind.
const maxIdle = 16

func newFresh(t *target) engine { return &fresh{target: t, next: make(chan job)} }

func (f *fresh) prepare() {}

func (f *fresh) send(j job) {
	cap := int64(f.maxOpen())
	if f.open.Load() >= cap {
		f.refuse(j, refusal(f.begun.Load()-f.ports.choosing.Load(), cap))
		return
	}
	f.open.Add(1)
	select {
	case f.next <- j:
	default:
		f.wg.Go(func() { f.work(j) })
	}
}

// work sends j, and then others, as long as there are not enough goroutines that do. One that has dialled before has the stack
// and the memory for it.
func (f *fresh) work(j job) {
	var r reply
	for more := true; more; j, more = f.wait() {
		f.probe(j, &r)
		f.open.Add(-1)
	}
}

// wait waits for the next request. It reports whether there is one to send.
func (f *fresh) wait() (j job, more bool) {
	defer f.idle.Add(-1)
	if f.idle.Add(1) > maxIdle {
		return job{}, false
	}
	j, more = <-f.next
	return j, more
}

// refusal says what it means that the cap on open requests let no more through. If as many are waiting
// for the target, it is the target that does not answer; else we did not get round to sending them.
func refusal(waiting, cap int64) timeline.Class {
	if waiting >= cap {
		return timeline.NoSlot
	}
	return timeline.NotSent
}

func (f *fresh) probe(j job, r *reply) {
	f.begun.Add(1)
	defer f.begun.Add(-1)
	a := attempt{job: j}
	c := f.target.open(&a)
	if c == nil {
		return
	}
	f.exchange(&a, c, r)
	c.abort()
}

func (f *fresh) close() {
	close(f.next)
	f.wg.Wait()
}
