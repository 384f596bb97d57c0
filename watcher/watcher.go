package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"lapse/kube"
	"lapse/timeline"
)

// The clocks behind the stamps.
const (
	writer    = "lapse"     // ours
	apiserver = "apiserver" // the API server's, or a controller's beside it
)

// Config says what to watch, and where the facts go.
type Config struct {
	Client    kube.Client
	Namespace string
	Service   string
	Port      string // name of the Service's measured port; empty if it has no name
	SkipNodes bool   // another watcher of the run watches them
	Clock     timeline.Clock
	Sink      func(timeline.Fact) // gets every event, with ID 0; called from several goroutines; must not block
	Logger    *slog.Logger        // default: nobody
}

// A watcher is a Config at work.
type watcher struct {
	Config
	log *slog.Logger

	mu   sync.Mutex
	subj subjects // whom Events may be about
}

func (w *watcher) now() time.Duration { return w.Clock.Now() }

// emit hands on events that came at now and, where since is not 0, happened no earlier than that. Whole microseconds
// are enough; they are rounded so that the bounds hold.
func (w *watcher) emit(now, since time.Duration, events ...timeline.Event) {
	for _, e := range events {
		e.Seen = cmp.Or(e.Seen, now)
		if e.Seen%time.Microsecond != 0 {
			e.Seen = e.Seen.Truncate(time.Microsecond) + time.Microsecond
		}
		e.Since = cmp.Or(e.Since, since).Truncate(time.Microsecond)
		w.Sink(e)
	}
}

func (w *watcher) forbidden(verb, resource string, global bool, err error) error {
	e := &forbiddenError{verb: verb, resource: resource, namespace: w.Namespace, err: err}
	if global {
		e.namespace = ""
	}
	return e
}

// Run watches until ctx ends, and then returns nil. Its error says which right is missing without which nothing
// can be watched; nodes and Events are done without, and said to be.
func Run(ctx context.Context, c Config) error {
	w := &watcher{Config: c, log: c.Logger, subj: newSubjects(c.Service)}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var lanes sync.WaitGroup
	need := func(run func(context.Context) error) {
		lanes.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	want := func(kind string, run func(context.Context) error) {
		lanes.Go(func() {
			if err := run(ctx); err != nil {
				w.log.Warn("not watched", "kind", kind, "error", err)
				w.emit(w.now(), 0, laneIs(kind, "off", err.Error()))
			}
		})
	}
	need(w.watchServiceAndPods)
	need(w.endpoints().run)
	if !c.SkipNodes {
		want("Node", w.nodes().run)
	}
	want("Event", w.kubeEvents().run)
	lanes.Wait()
	if err := denial(ctx); err != nil {
		return fmt.Errorf("watch Service %s/%s: %w", c.Namespace, c.Service, err)
	}
	return nil
}

// denial returns the missing right because of which ctx ended, or nil.
func denial(ctx context.Context) error {
	if err, ok := errors.AsType[*forbiddenError](context.Cause(ctx)); ok {
		return err
	}
	return nil
}
