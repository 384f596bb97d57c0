package engine

import (
	"sync"
	"time"

	"lapse/timeline"
)

// An Engine decides on which connections a target's requests go.
type Engine interface {
	// Prepare does what can be done before the first request, such as connecting ahead of need.
	Prepare()
	// Send sends a request that is due. It is called by the pacing thread and must not wait.
	Send(Job)
	// Close waits for what is in flight, which takes no longer than the timeout, and releases everything.
	Close()
}

// engines make the engine of a target, by its kind.
var engines = map[timeline.TargetKind]func(*Requester) Engine{
	timeline.New:     newPerRequest,
	timeline.Direct:  newPerRequest,
	timeline.Reused:  newReused,
	timeline.Held:    newHeld,
	timeline.Control: newPool,
}

// tryEach runs try for 0 to n-1, each in a goroutine of wg. It waits until each has called tried, but no longer than
// most.
func tryEach(wg *sync.WaitGroup, n int, most time.Duration, try func(i int, tried func())) {
	var all sync.WaitGroup
	all.Add(n)
	for i := range n {
		wg.Go(func() { try(i, all.Done) })
	}
	done := make(chan struct{})
	wg.Go(func() {
		all.Wait()
		close(done)
	})
	select {
	case <-done:
	case <-time.After(most):
	}
}

// InUse reports whether e has not quite finished with its last request.
func InUse(e Engine) bool {
	switch e := e.(type) {
	case *pool:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.inUse > 0
	case *perRequest:
		return e.idle.Load() == 0
	}
	return false
}
