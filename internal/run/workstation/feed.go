package workstation

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/run/facts"
	"lapse/internal/run/live"
	"lapse/timeline"
)

// A feed is a run that a Pod measures: its recording comes in, is judged here and shown. One goroutine owns it.
type feed struct {
	client *agent.Client
	clock  runClock     // of the run, as seen from here
	facts  *facts.Queue // received, and not taken in yet
	live   *live.Run
	news   time.Duration // when a fact last came in, on the local clock
}

// newFeed returns a feed without client and observers. It logs jumps of the clocks to log, unless that is nil.
func newFeed(log *slog.Logger) feed {
	return feed{clock: runClock{local: timeline.StartClock(), log: log}, facts: facts.NewQueue()}
}

// begin receives the recording, as decode reads it, and keeps comparing the clocks, until ctx ends. The channel gets
// nil at the end of the recording, or the error that cut it short.
func (f *feed) begin(ctx context.Context, workers *sync.WaitGroup, decode agent.Decode) <-chan error {
	fetched := make(chan error, 1)
	workers.Go(func() { fetched <- f.client.FollowFacts(ctx, decode, f.facts.Put) })
	workers.Go(func() { f.clock.keepComparing(ctx, f.client.SyncClock) })
	return fetched
}

// absorb takes in the received facts. It calls note with each fact first.
func (f *feed) absorb(note func(timeline.Fact)) {
	for _, fact := range f.facts.Take() {
		f.news = f.clock.local.Now()
		note(fact)
		f.live.Add(fact)
	}
}

// show renews what people look at.
func (f *feed) show() { f.live.ShowAfter(f.clock.local.Now()-f.news, f.clock.now()) }
