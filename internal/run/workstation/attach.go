package workstation

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/record"
	"lapse/internal/run/judging"
	"lapse/internal/run/live"
	"lapse/internal/run/saved"
	"lapse/internal/run/screen"
	"lapse/timeline"
)

// NothingToWatch returns the error of `lapse attach` for a run that has ended.
func NothingToWatch(run *deploy.Run) error {
	return hint.Errorf(retrieves(run)+" its result", "run %s has ended: there is nothing to watch", run.Name)
}

// retrieves returns the beginning of the advice to fetch what a run has left.
func retrieves(run *deploy.Run) string {
	return fmt.Sprintf("`lapse retrieve -n %s %s` fetches", run.Namespace, run.Name)
}

// Attach shows the run behind client until the run or ctx has ended. It only reads: the recording is read from its
// beginning, judged here, and not acknowledged.
func Attach(ctx context.Context, client *agent.Client, run *deploy.Run, addr string, stdout, stderr io.Writer) error {
	status, err := client.Status(ctx)
	if err != nil {
		return Quiet(ctx, err)
	}
	if status.Phase == timeline.PhaseEnded {
		return NothingToWatch(run)
	}
	s, err := screen.Open(screen.Addresses{Page: addr}, stderr, 0)
	if err != nil {
		return err
	}
	defer s.Close()
	if status.Phase == timeline.PhaseArmed {
		s.Screen.Say(deploy.Armed)
		if err := deploy.AwaitSign(ctx, client); err != nil {
			return Quiet(ctx, err)
		}
	}
	a := &attachment{newFeed(nil)}
	a.client = client
	if err := a.clock.compare(ctx, client.SyncClock); err != nil {
		return Quiet(ctx, fmt.Errorf("compare clocks with the Pod: %w", err))
	}
	a.live = s.Begin(ctx, nil, nil, nil)
	err = a.watch(ctx)
	tl := a.live.Timeline()
	a.live.End(tl)
	switch {
	case ctx.Err() != nil:
		return nil
	case tl.Run.Live && err != nil:
		return fmt.Errorf("watch run %s: %w", run.Name, err)
	case tl.Run.Live:
		return fmt.Errorf("watch run %s: its recording breaks off before its end", run.Name)
	}
	fmt.Fprintf(stderr, "run %s has ended; %s its result, if nobody else does\n", run.Name, retrieves(run))
	return saved.Print(stdout, "", saved.Output{Format: "table"}, tl)
}

// Quiet returns err, or nil if the user has interrupted the call.
func Quiet(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// An attachment judges and shows a run from its incoming recording.
type attachment struct{ feed }

// watch takes in facts until the recording is complete, broken beyond repair, or ctx ends.
func (a *attachment) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer workers.Wait()
	defer cancel()
	fetched := a.begin(ctx, &workers, record.Decode)
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-a.facts.Ready:
			a.absorb(a.noteGates)
		case <-a.live.Begun:
			a.show()
		case <-tick.C:
			a.show()
		case err := <-fetched:
			a.absorb(a.noteGates)
			return err
		}
	}
}

// noteGates judges the run by the gates that it was started with.
func (a *attachment) noteGates(f timeline.Fact) {
	if meta, ok := f.(timeline.Meta); ok {
		a.live.Gates, _ = judging.ParseGates(meta.Options.Gates) // gates of a later version: shown without
	}
}
