package screen

import (
	"fmt"
	"sync"
	"time"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

// sayWaiting is the time between two lines of a waiting.
const sayWaiting = 5 * time.Second

// A waiting prints the awaited condition every [sayWaiting] until it is over.
type waiting struct {
	Over func() // ends it; a second call does nothing

	mu   sync.Mutex
	what string
}

// StartWaiting begins to wait for a condition. It calls say, which must not block, after the first [sayWaiting].
func StartWaiting(say func(line string), what string) *waiting {
	w := &waiting{what: what}
	ended := make(chan struct{})
	var printing sync.WaitGroup
	w.Over = sync.OnceFunc(func() { close(ended); printing.Wait() })
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

// Is replaces the awaited condition.
func (w *waiting) Is(what string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.what = what
}

func (w *waiting) now() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.what
}
