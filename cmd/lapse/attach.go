package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"lapse/deploy"
	"lapse/record"
	"lapse/timeline"
)

func newAttach() *cobra.Command {
	var kube kubeOptions
	var addr string
	cmd := &cobra.Command{
		Use:   "attach RUN",
		Short: "Watch a run that goes on in the cluster",
		Long: `Show the live page and the progress of a run that goes on in the cluster, from any workstation, until the run has ended or
you interrupt it. Several may watch at once.

Watching changes nothing: the run is neither ended nor deleted, and its result stays where it is, for who measures it or for
"lapse retrieve". The summary is printed when the run has ended, but the exit code is not the verdict's.`,
		Example: "  lapse attach lapse-20261121-101500-ab3d -n shop --dashboard 127.0.0.1:8080",
		Args:    exactly(1, "the RUN to watch, as `lapse status` lists it"),
		RunE: func(cmd *cobra.Command, args []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			run, err := kube.findRun(ctx, args[0], newLogger(cmd.ErrOrStderr()))
			if err != nil {
				return err
			}
			if hasEnded(run.Job) {
				return nothingToWatch(run)
			}
			agent, _, err := run.WaitMeasuring(ctx)
			if err != nil {
				return quiet(ctx, err)
			}
			defer agent.Close()
			return attach(ctx, agent, run, addr, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	kube.flags(cmd.Flags())
	cmd.Flags().StringVar(&addr, "dashboard", "127.0.0.1:8080", "address to serve the page on")
	return cmd
}

func nothingToWatch(run *deploy.Run) error {
	return withHint(fmt.Sprintf("`lapse retrieve -n %s %s` fetches its result", run.Namespace, run.Name), "run %s has ended: there is nothing to watch", run.Name)
}

// attach shows the run behind agent until it has ended, or ctx. It asks and never tells: the recording is
// read from its beginning, judged here, and not acknowledged.
func attach(ctx context.Context, agent *deploy.Agent, run *deploy.Run, addr string, stdout, stderr io.Writer) error {
	status, err := agent.Status(ctx)
	if err != nil {
		return quiet(ctx, err)
	}
	if status.Phase == deploy.PhaseEnded {
		return nothingToWatch(run)
	}
	address, err := listenForPage(addr)
	if err != nil {
		return err
	}
	defer address.close()
	w := &onlooker{clock: runClock{local: timeline.StartClock()}, facts: newQueue()}
	if err := w.clock.compare(ctx, agent.SyncClock); err != nil {
		return quiet(ctx, fmt.Errorf("compare clocks with the Pod: %w", err))
	}
	screen := newScreen(stderr, 0)
	shown, closePage := address.serve(ctx, screen.talk())
	defer closePage()
	w.live = newLive(nil, screen, shown)
	err = w.watch(ctx, agent)
	w.live.end()
	tl := w.live.timeline()
	switch {
	case ctx.Err() != nil:
		return nil
	case tl.Run.Live && err != nil:
		return fmt.Errorf("watch run %s: %w", run.Name, err)
	case tl.Run.Live:
		return fmt.Errorf("watch run %s: its recording breaks off before its end", run.Name)
	}
	fmt.Fprintf(stderr, "run %s has ended; `lapse retrieve -n %s %s` fetches its result, if nobody else does\n", run.Name, run.Namespace, run.Name)
	return print(stdout, "", "table", tl)
}

// quiet drops an error that only says that the user has had enough.
func quiet(ctx context.Context, err error) error {
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
func (w *onlooker) watch(ctx context.Context, agent *deploy.Agent) error {
	ctx, cancel := context.WithCancel(ctx)
	var reading sync.WaitGroup
	defer reading.Wait()
	defer cancel()
	ended := make(chan error, 1)
	reading.Go(func() { ended <- receive(ctx, agent, record.Decode, w.facts.put) })
	reading.Go(func() { w.clock.keepComparing(ctx, agent.SyncClock) })
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
			tl := w.live.timeline()
			w.live.page.show(tl, tl.Run.Duration)
			return err
		}
	}
}

func (w *onlooker) absorb() {
	for _, f := range w.facts.take() {
		w.news = w.clock.local.Now()
		if meta, ok := f.(timeline.Meta); ok {
			w.live.gates, _ = parseGates(meta.Options.Gates) // gates of a later version: shown without
		}
		w.live.add(f)
	}
}
