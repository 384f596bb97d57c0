// Package outbox hands over what was measured to where it is kept, in the background, until it is accepted. So a place
// that is away delays nothing.
package outbox

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	leastWait = time.Second // after the first attempt that failed; twice as long after each further one
	mostWait  = time.Minute
)

// A Box has what waits to be handed over. Any goroutine may use it.
type Box[T any] struct {
	Attempt  time.Duration // the most that one attempt takes; [New] sets 30 s
	AtTheEnd time.Duration // the most that the last attempt takes; [New] sets 5 s
	Most     int           // that waits here
	Refill   func() []T    // what waits and was dropped here, for then to be sent; nil: that is lost

	send   func(ctx context.Context, waiting []T) (accepted int, err error)
	failed func(error)
	more   chan struct{}

	mu      sync.Mutex
	waiting []T // oldest first
	dropped int // ever
	missed  int // of these, those that are filled in again once the rest is sent
	problem string
	since   time.Time // when the first attempt failed since one did not
}

// New returns an empty box. send hands over what waits, oldest first, and returns how much of it was accepted. failed
// gets the error of each attempt. Of more than most that wait, the oldest are dropped, until [Box.Refill] returns them.
func New[T any](most int, send func(context.Context, []T) (int, error), failed func(error)) *Box[T] {
	return &Box[T]{
		Attempt: 30 * time.Second, AtTheEnd: 5 * time.Second,
		Most: most, send: send, failed: failed, more: make(chan struct{}, 1),
	}
}

// Add adds what is to be handed over.
func (b *Box[T]) Add(all ...T) {
	b.mu.Lock()
	b.waiting = append(b.waiting, all...)
	dropped := max(0, len(b.waiting)-b.Most)
	b.waiting, b.dropped = b.waiting[dropped:], b.dropped+dropped
	if b.Refill != nil {
		b.missed += dropped
	}
	b.mu.Unlock()
	if dropped > 0 && b.Refill == nil {
		b.failed(fmt.Errorf("%d that waited were dropped: at most %d may wait", dropped, b.Most))
	}
	select {
	case b.more <- struct{}{}:
	default:
	}
}

// Waits returns how much waits, why the last attempt failed, "" if it did not, and since when each has failed.
func (b *Box[T]) Waits() (n int, problem string, since time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting) + b.missed, b.problem, b.since
}

// Run hands over what is added until ctx ends, and then tries once more.
func (b *Box[T]) Run(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-b.more:
			b.empty(ctx)
		case <-ctx.Done():
		}
	}
	if n, _, _ := b.Waits(); n > 0 {
		b.try(context.WithoutCancel(ctx), b.AtTheEnd)
	}
}

// empty tries until nothing waits, or ctx ends.
func (b *Box[T]) empty(ctx context.Context) {
	for wait := leastWait; ctx.Err() == nil; {
		if n, _, _ := b.Waits(); n == 0 {
			return
		}
		if b.try(ctx, b.Attempt) {
			wait = leastWait
			continue
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
		}
		wait = min(2*wait, mostWait)
	}
}

// refill takes in what was dropped, if nothing else waits.
func (b *Box[T]) refill() {
	b.mu.Lock()
	missed, rest := b.missed, len(b.waiting)
	b.mu.Unlock()
	if missed == 0 || rest > 0 {
		return
	}
	all := b.Refill()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.waiting, b.missed = append(all, b.waiting...), b.missed-missed
}

// try makes one attempt, and reports whether something was accepted.
func (b *Box[T]) try(ctx context.Context, most time.Duration) bool {
	b.refill()
	b.mu.Lock()
	waiting, dropped := b.waiting, b.dropped
	b.mu.Unlock()
	call, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	accepted, err := b.send(call, waiting)
	b.mu.Lock()
	dropped = min(accepted, b.dropped-dropped) // of what was accepted, the oldest may have been meanwhile
	b.waiting, b.missed = b.waiting[accepted-dropped:], max(0, b.missed-dropped)
	if b.problem = ""; err != nil {
		b.problem = err.Error()
	}
	if err == nil || accepted > 0 {
		b.since = time.Time{}
	}
	if err != nil && b.since.IsZero() {
		b.since = time.Now()
	}
	b.mu.Unlock()
	if err != nil && ctx.Err() == nil {
		b.failed(err)
	}
	return accepted > 0
}
