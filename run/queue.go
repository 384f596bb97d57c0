package run

import (
	"sync"

	"lapse/timeline"
)

// A queue takes facts from any goroutine without ever making it wait, and hands them to the one
// goroutine that owns the run.
type queue struct {
	ready chan struct{} // holds a token while there may be facts to take

	mu    sync.Mutex
	facts []timeline.Fact
}

func newQueue() *queue { return &queue{ready: make(chan struct{}, 1)} }

func (q *queue) put(f timeline.Fact) {
	q.mu.Lock()
	q.facts = append(q.facts, f)
	q.mu.Unlock()
	select {
	case q.ready <- struct{}{}:
	default:
	}
}

// take returns all facts put since the last take, oldest first.
func (q *queue) take() []timeline.Fact {
	q.mu.Lock()
	defer q.mu.Unlock()
	facts := q.facts
	q.facts = nil
	return facts
}
