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
	begun atomic.Int64 // of those, how many the service keeps waiting
	wg    sync.WaitGroup
}

func newFresh(t *target) engine { return &fresh{target: t} }

func (f *fresh) prepare() {}

func (f *fresh) send(j job) {
	cap := int64(f.maxOpen())
	if f.open.Load() >= cap {
		f.refuse(j, refusal(f.begun.Load(), cap))
		return
	}
	f.open.Add(1)
	f.wg.Go(func() {
		defer f.open.Add(-1)
		f.probe(j)
	})
}

// refusal says what it means that the cap on open requests let no more through. If as many are waiting
// for the target, it is the target that does not answer; else we did not get round to sending them.
func refusal(waiting, cap int64) timeline.Class {
	if waiting >= cap {
		return timeline.NoSlot
	}
	return timeline.NotSent
}

func (f *fresh) probe(j job) {
	f.begun.Add(1)
	defer f.begun.Add(-1)
	a := attempt{job: j}
	c := f.target.open(&a)
	if c == nil {
		return
	}
	var r reply
	f.exchange(&a, c, &r)
	c.abort()
}

func (f *fresh) close() { f.wg.Wait() }
