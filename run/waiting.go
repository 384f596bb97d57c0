package run

import (
	"fmt"
	"sync"
	"time"

	"lapse/timeline"
)

// sayWaiting is how often the terminal says what is being waited for.
const sayWaiting = 5 * time.Second

// A waiting tells what is being waited for, every few seconds until it is over.
type waiting struct {
	over func() // ends it; a second call does nothing

	mu   sync.Mutex
	what string
}

// startWaiting begins to wait for something, and tells say, which must not block, of it only where it takes long.
func startWaiting(say func(line string), what string) *waiting {
	w := &waiting{what: what}
	ended := make(chan struct{})
	var telling sync.WaitGroup
	w.over = sync.OnceFunc(func() { close(ended); telling.Wait() })
	clock := timeline.StartClock()
	telling.Go(func() {
		tick := time.NewTicker(sayWaiting)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				say(fmt.Sprintf("%s (%v so far)", w.now(), clock.Now().Round(time.Second)))
			case <-ended:
				return
			}
		}
	})
	return w
}

// is says what is being waited for from now on.
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
