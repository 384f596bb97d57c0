// Package facts passes the facts of a run from the goroutines that find them to the goroutine that owns the run.
package facts

import (
	"sync"

	"lapse/timeline"
)

// A Queue takes facts from any goroutine without making it wait, and hands them to one goroutine.
type Queue struct {
	Ready chan struct{} // holds a token while there may be facts to take, but for those that can wait

	mu    sync.Mutex
	facts []timeline.Fact
	wait  func(timeline.Fact) bool // reports whether a fact can wait until facts are taken; nil: none can
}

// NewQueue returns an empty queue.
func NewQueue() *Queue { return &Queue{Ready: make(chan struct{}, 1)} }

// Put adds a fact. It does not wait.
func (q *Queue) Put(f timeline.Fact) {
	q.mu.Lock()
	q.facts = append(q.facts, f)
	waits := q.wait != nil && q.wait(f)
	q.mu.Unlock()
	if !waits {
		q.signal()
	}
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
	q.facts = nil
	return facts
}
