package run

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/hint"
	"lapse/record"
	"lapse/timeline"
)

func NothingToWatch(run *deploy.Run) error {
	return hint.Errorf(fmt.Sprintf("`lapse retrieve -n %s %s` fetches its result", run.Namespace, run.Name), "run %s has ended: there is nothing to watch", run.Name)
}

// Attach shows the run behind agent until it has ended, or ctx. It asks and never tells: the recording is
// read from its beginning, judged here, and not acknowledged.
func Attach(ctx context.Context, client *agent.Client, run *deploy.Run, addr string, stdout, stderr io.Writer) error {
	status, err := client.Status(ctx)
	if err != nil {
		return Quiet(ctx, err)
	}
	if status.Phase == timeline.PhaseEnded {
		return NothingToWatch(run)
	}
	address, err := ListenForPage(addr)
	if err != nil {
		return err
	}
	defer address.Close()
	w := &onlooker{clock: runClock{local: timeline.StartClock()}, facts: newQueue()}
	if err := w.clock.compare(ctx, client.SyncClock); err != nil {
		return Quiet(ctx, fmt.Errorf("compare clocks with the Pod: %w", err))
	}
	screen := newScreen(stderr, 0)
	shown, closePage := address.Serve(ctx, screen.talk())
	defer closePage()
	w.live = newLive(nil, observers(screen, shown, nil)...)
	err = w.watch(ctx, client)
	tl := w.live.timeline()
	w.live.end(tl)
	switch {
	case ctx.Err() != nil:
		return nil
	case tl.Run.Live && err != nil:
		return fmt.Errorf("watch run %s: %w", run.Name, err)
	case tl.Run.Live:
		return fmt.Errorf("watch run %s: its recording breaks off before its end", run.Name)
	}
	fmt.Fprintf(stderr, "run %s has ended; `lapse retrieve -n %s %s` fetches its result, if nobody else does\n", run.Name, run.Namespace, run.Name)
	return Print(stdout, "", Output{Format: "table"}, tl)
}

// Quiet drops an error that only says that the user has had enough.
func Quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// An onlooker judges and shows a run from its recording, as it comes in. One goroutine, in watch, owns
// what it has seen.
type onlooker struct {
	clock runClock
	live  *live
	facts *queue
	news  time.Duration // when something last came, on the local clock
}

// watch takes in facts until the recording is complete, broken beyond repair, or ctx ends.
func (w *onlooker) watch(ctx context.Context, client *agent.Client) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	ended := make(chan error, 1)
	reading.Go(func() { ended <- receive(ctx, client, record.Decode, w.facts.put) })
	reading.Go(func() { w.clock.keepComparing(ctx, client.SyncClock) })
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for {
		select {
		case <-w.facts.ready:
			w.absorb()
		case <-tick.C:
			w.live.showAfter(w.clock.local.Now()-w.news, w.clock.now())
		case err := <-ended:
			w.absorb()
			return err
		}
	}
}

func (w *onlooker) absorb() {
	for _, f := range w.facts.take() {
		w.news = w.clock.local.Now()
		if meta, ok := f.(timeline.Meta); ok {
			w.live.gates, _ = ParseGates(meta.Options.Gates) // gates of a later version: shown without
		}
		w.live.add(f)
	}
}
