package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

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
	Services  []Service // at least one, each once
	Clock     timeline.Clock
	Sink      func(timeline.Fact) // gets every event, with ID 0; called from several goroutines; must not block
	Logger    *slog.Logger        // default: nobody
}

// A Service is one that is watched.
type Service struct {
	Name  string
	Ports []string // names of its measured ports; "" is the port without a name
}

// A watcher is a Config at work. Pods, nodes and Events are told once, however many Services they concern.
type watcher struct {
	Config
	log  *slog.Logger
	life life
	pods pods

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
	if global {
		return missingRight(verb, resource, "", err)
	}
	return missingRight(verb, resource, w.Namespace, err)
}

// Run watches until ctx ends, and then returns nil. Its error says which right is missing without which nothing
// can be watched; nodes and Events are done without, and said to be.
func Run(ctx context.Context, c Config) error {
	w := &watcher{Config: c, log: c.Logger, pods: pods{known: map[types.UID]*knownPod{}}, subj: newSubjects(c.Services)}
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
	for _, s := range c.Services {
		need(func(ctx context.Context) error { return w.watchServiceAndPods(ctx, s) })
		need(w.endpoints(s).run)
	}
	want("Node", w.nodes().run)
	want("Event", w.kubeEvents().run)
	lanes.Go(func() { w.askForLife(ctx) })
	lanes.Wait()
	if err := denial(ctx); err != nil {
		for _, kind := range []string{"Service", "Pod", "EndpointSlice", "Node", "Event"} {
			w.emit(w.now(), 0, laneIs(kind, "off", err.Error()))
		}
		return fmt.Errorf("watch %s of namespace %s: %w", names(c.Services), c.Namespace, err)
	}
	return nil
}

// names are the Services for people.
func names(services []Service) string {
	var all []string
	for _, s := range services {
		all = append(all, s.Name)
	}
	return "Service " + strings.Join(all, ", ")
}

// denial returns the missing right because of which ctx ended, or nil.
func denial(ctx context.Context) error {
	if _, ok := errors.AsType[*forbiddenError](context.Cause(ctx)); ok {
		return context.Cause(ctx)
	}
	return nil
}
