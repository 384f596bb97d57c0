package engine

import (
	"sync"
	"sync/atomic"

	"lapse/loadgen/internal/protocol"
)

// perRequest opens a connection for every request and closes it after the reply, as a new client of the
// Service does. It serves new and direct targets, which differ only in the address they connect to.
type perRequest struct {
	*Requester
	busy  atomic.Int64 // requests in goroutines
	begun atomic.Int64 // of those, how many wait for the service or for a local port
	idle  atomic.Int64 // goroutines without a request
	next  chan Job     // for them
	wg    sync.WaitGroup
}

// maxIdle is how many goroutines wait for the next request: a stall leaves many behind.
const maxIdle = 16

func newPerRequest(q *Requester) *perRequest { return &perRequest{Requester: q, next: make(chan Job)} }

func (f *perRequest) Prepare() {}

func (f *perRequest) Send(j Job) {
	most := int64(f.MaxOpen())
	if f.busy.Load() >= most {
		f.Refuse(j, refusal(f.begun.Load()-f.Ports.Choosing.Load(), most))
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
func (f *perRequest) work(j Job) {
	var r protocol.Reply
	for more := true; more; j, more = f.wait() {
		f.probe(j, &r)
		f.busy.Add(-1)
	}
}

// wait waits for the next request. It reports whether there is one to send.
func (f *perRequest) wait() (j Job, more bool) {
	defer f.idle.Add(-1)
	if f.idle.Add(1) > maxIdle {
		return Job{}, false
	}
	j, more = <-f.next
	return j, more
}

func (f *perRequest) probe(j Job, r *protocol.Reply) {
	f.begun.Add(1)
	defer f.begun.Add(-1)
	a, c := f.open(j)
	if c == nil {
		return
	}
	if f.exchange(&a, c, r) {
		c.TakeLeave(f.Clock)
	}
	c.Abort()
}

func (f *perRequest) Close() {
	close(f.next)
	f.wg.Wait()
}
