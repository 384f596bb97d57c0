package engine

import (
	"sync"
	"time"
)

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
