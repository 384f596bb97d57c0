package loadgen

import (
	"context"
	"runtime"
	"sync"
	"testing"
	"time"

	"lapse/timeline"
)

// Each pacing thread gets a processor of its own while it runs, however many come and go at once, and none is left over.
func TestPacingThreadsReturnTheirProcessors(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	var changing sync.WaitGroup
	for range 16 {
		changing.Go(func() {
			for range 20 {
				addProcessors(1)
				addProcessors(-1)
			}
		})
	}
	changing.Wait()
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
		runtime.GOMAXPROCS(before)
	}
}

func TestProbersShareAProcess(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var running sync.WaitGroup
	for range 3 {
		running.Go(func() {
			if err := New(Config{Clock: timeline.StartClock(), Sink: newFacts(t).take}).Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	if after := runtime.GOMAXPROCS(0); after != before {
		t.Errorf("%d processors, %d before", after, before)
	}
}
