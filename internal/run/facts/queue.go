// Package facts passes the facts of a run from the goroutines that find them to the goroutine that owns the run.
package facts

import (
	"slices"
	"sync"

	"lapse/timeline"
)

// A Queue takes facts from any goroutine without making it wait, and hands them to one goroutine. If that does not take
// them, as where a disk does not write, batches are dropped. The numbers of their requests are missing then: a run says
// that they are lost, and the time unobserved.
type Queue struct {
	Ready chan struct{} // holds a token while there may be facts to take, but for those that can wait

	mu    sync.Mutex
	facts []timeline.Fact
	size  int                      // of the batches: of each its requests, and one
	most  int                      // beyond this size batches are dropped
	wait  func(timeline.Fact) bool // reports whether a fact can wait until facts are taken; nil: none can
}

// mostWaiting is about 100 MB: four minutes of all that a guard sends by default.
const mostWaiting = 1 << 20

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{Ready: make(chan struct{}, 1), most: mostWaiting} }

// Put adds a fact. It does not wait.
func (q *Queue) Put(f timeline.Fact) {
	q.mu.Lock()
	q.facts = append(q.facts, f)
	if q.size += sizeOf(f); q.size > q.most {
		q.drop(answered)
		q.drop(func(timeline.Batch) bool { return true })
	}
	waits := q.wait != nil && q.wait(f)
	q.mu.Unlock()
	if !waits {
		q.signal()
	}
}

// drop drops the oldest batches that may be dropped, until three quarters of the bound are left. The caller holds mu.
func (q *Queue) drop(may func(timeline.Batch) bool) {
	q.facts = slices.DeleteFunc(q.facts, func(f timeline.Fact) bool {
		b, ok := f.(timeline.Batch)
		if !ok || q.size <= q.most/4*3 || !may(b) {
			return false
		}
		q.size -= sizeOf(f)
		return true
	})
}

// answered reports whether no request of a batch failed.
func answered(b timeline.Batch) bool {
	return !slices.ContainsFunc(b.Requests, func(r timeline.Request) bool { return r.Class.Failed() })
}

func sizeOf(f timeline.Fact) int {
	if b, ok := f.(timeline.Batch); ok {
		return 1 + len(b.Requests)
	}
	return 0
}

// Let says which facts can wait until facts are taken without a token; nil: none can. Those that are there wait no
// longer.
func (q *Queue) Let(wait func(timeline.Fact) bool) {
	q.mu.Lock()
	q.wait = wait
	q.mu.Unlock()
	q.signal()
}

func (q *Queue) signal() {
	select {
	case q.Ready <- struct{}{}:
	default:
	}
}

// Take returns all facts put since the last call, oldest first.
func (q *Queue) Take() []timeline.Fact {
	q.mu.Lock()
	defer q.mu.Unlock()
	facts := q.facts
	q.facts, q.size = nil, 0
	return facts
}
