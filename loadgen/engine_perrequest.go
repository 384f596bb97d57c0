package loadgen

import (
	"sync"
	"sync/atomic"
)

// perRequest opens a connection for every request and closes it after the reply, as a new client of the
// Service does. It serves new and direct targets, which differ only in the address they connect to.
type perRequest struct {
	*requester
	busy  atomic.Int64 // requests in goroutines
	begun atomic.Int64 // of those, how many wait for the service or for a local port
	idle  atomic.Int64 // goroutines without a request
	next  chan job     // for them
	wg    sync.WaitGroup
}

// maxIdle is how many goroutines wait for the next request: a stall leaves many behind.
const maxIdle = 16

func newPerRequest(q *requester) engine { return &perRequest{requester: q, next: make(chan job)} }

func (f *perRequest) prepare() {}

func (f *perRequest) send(j job) {
	most := int64(f.maxOpen())
	if f.busy.Load() >= most {
		f.refuse(j, refusal(f.begun.Load()-f.ports.choosing.Load(), most))
		return
	}
	f.busy.Add(1)
	select {
	case f.next <- j:
	default:
		f.wg.Go(func() { f.work(j) })
	}
}

// work sends j, and then further requests, unless enough goroutines wait for one. A goroutine that has dialled before
// has the stack and the memory for it.
func (f *perRequest) work(j job) {
	var r reply
	for more := true; more; j, more = f.wait() {
		f.probe(j, &r)
		f.busy.Add(-1)
	}
}

// wait waits for the next request. It reports whether there is one to send.
func (f *perRequest) wait() (j job, more bool) {
	defer f.idle.Add(-1)
	if f.idle.Add(1) > maxIdle {
		return job{}, false
	}
	j, more = <-f.next
	return j, more
}

func (f *perRequest) probe(j job, r *reply) {
	f.begun.Add(1)
	defer f.begun.Add(-1)
	a, c := f.open(j)
	if c == nil {
		return
	}
	if f.exchange(&a, c, r) {
		c.takeLeave(f.clock)
	}
	c.abort()
}

func (f *perRequest) close() {
	close(f.next)
	f.wg.Wait()
}
