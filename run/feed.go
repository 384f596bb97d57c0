package run

import (
	"context"
	"io"
	"iter"
	"log/slog"
	"sync"
	"time"

	"lapse/deploy/agent"
	"lapse/timeline"
)

// A feed is a run that a Pod measures, as its recording comes in from there: judged here, and shown. One goroutine owns it.
type feed struct {
	client *agent.Client
	clock  runClock // of the run, as seen from here
	facts  *queue   // received, and not taken in yet
	live   *live
	news   time.Duration // when something last came in, on the local clock
}

// newFeed returns a feed that still wants its client and who shows it. Jumps of the clocks are logged to log, unless it is nil.
func newFeed(log *slog.Logger) feed {
	return feed{clock: runClock{local: timeline.StartClock(), log: log}, facts: newQueue()}
}

// begin receives the recording, as decode reads it, and keeps comparing the clocks, until ctx ends. The channel gets why not all of the
// recording came, or nil.
func (f *feed) begin(ctx context.Context, workers *sync.WaitGroup, decode func(io.Reader) iter.Seq2[timeline.Fact, error]) <-chan error {
	fetched := make(chan error, 1)
	workers.Go(func() { fetched <- receive(ctx, f.client, decode, f.facts.put) })
	workers.Go(func() { f.clock.keepComparing(ctx, f.client.SyncClock) })
	return fetched
}

// absorb takes in what was received, each fact after note was called with it.
func (f *feed) absorb(note func(timeline.Fact)) {
	for _, fact := range f.facts.take() {
		f.news = f.clock.local.Now()
		note(fact)
		f.live.add(fact)
	}
}

// The Pod sends what it has measured every quarter of a second. If nothing came for so long the run is shown as it stood then, and
// from silence on with a word about it.
const (
	late    = time.Second
	silence = 3 * time.Second
)

// show renews what people look at.
func (f *feed) show() { f.live.showAfter(f.clock.local.Now()-f.news, f.clock.now()) }

// receive puts the facts of the recording that the agent hands on, as decode reads them, until the run has ended. Its error says why
// not all came. A connection that breaks is opened anew where it broke.
func receive(ctx context.Context, client *agent.Client, decode func(io.Reader) iter.Seq2[timeline.Fact, error], put func(timeline.Fact)) error {
	pr, pw := io.Pipe()
	var copying sync.WaitGroup
	defer copying.Wait()
	copying.Go(func() {
		_, err := client.Follow(ctx, pw)
		pw.CloseWithError(err)
	})
	for fact, err := range decode(pr) {
		if err != nil {
			pr.CloseWithError(err) // nothing more is read
			return err
		}
		put(fact)
	}
	return nil
}
