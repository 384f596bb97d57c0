package run

import (
	"fmt"
	"sync"
	"time"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

// sayWaiting is how often a waiting prints its line.
const sayWaiting = 5 * time.Second

// A waiting prints the awaited condition every few seconds until it is over.
type waiting struct {
	over func() // ends it; a second call does nothing

	mu   sync.Mutex
	what string
}

// startWaiting begins to wait for a condition. It calls say, which must not block, after the first [sayWaiting].
func startWaiting(say func(line string), what string) *waiting {
	w := &waiting{what: what}
	ended := make(chan struct{})
	var printing sync.WaitGroup
	w.over = sync.OnceFunc(func() { close(ended); printing.Wait() })
	clock := timeline.StartClock()
	printing.Go(func() {
		tick := time.NewTicker(sayWaiting)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(fmt.Sprintf("%s (%s so far)", w.now(), quantity.Span(clock.Now().Round(time.Second))))
			case <-ended:
				return
			}
		}
	})
	return w
}

// is replaces the awaited condition.
func (w *waiting) is(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = what
}

func (w *waiting) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.what
}
