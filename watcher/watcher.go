package watcher

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/internal/kube"
	"lapse/timeline"
)

// Whose clock an event's stamp is on.
const (
	writer    = "lapse"     // this process
	apiserver = "apiserver" // the API server, or a controller next to it
)

// Config says what to watch, and where the facts go.
type Config struct {
	Client   kube.Client
	Services []Service // at least one, each once

	// AllNamespaces opens one watch of each kind for the whole cluster, instead of one for each namespace. The user
	// needs the right to do so.
	AllNamespaces bool

	// NodeMarks are the conditions, labels and annotations of nodes that are recorded in addition to taints, such as
	// "condition TYPE", "label KEY" or "annotation KEY=VALUE". Without a value a condition must be True, and a label or
	// an annotation not false.
	NodeMarks []string

	// HoldFor is how long an Event is held of an object that is none of the Services' so far, and how long Events of an
	// object that is gone are recorded; 0: as long as there is room, and to the end.
	HoldFor time.Duration

	// Reads reports whether EndpointSlices are read now, which bounds when they changed. It is called from another
	// goroutine; nil: always.
	Reads func() bool

	// Alive asks the API server for a sign of life, and reports whether it gives one; nil: [Answers], for the first
	// Service.
	Alive func(context.Context) bool

	Clock  timeline.Clock
	Sink   func(timeline.Fact) // gets every event, with ID 0, from several goroutines; must not block
	Logger *slog.Logger        // optional
}

// A Service is a Service to watch.
type Service struct {
	Namespace, Name string
	Ports           []string // names of its measured ports; "" is the port without a name
}

func (s Service) key() string { return s.Namespace + "/" + s.Name }

// A watcher is a running [Run].
type watcher struct {
	Config
	log   *slog.Logger
	life  life
	reads reads
}

func (w *watcher) now() time.Duration { return w.Clock.Now() }

// emit sends events that came at now to the sink. If since is not 0, they happened no earlier. It rounds the instants
// outwards to microseconds.
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

// Run watches until ctx ends, and then returns nil. It can do without a namespace, and without nodes, Events,
// workloads, PodDisruptionBudgets and EvictionRequests: while a right is missing, their lanes are off. If the user
// may watch no namespace, it returns an error that names the missing rights.
func Run(ctx context.Context, c Config) error {
	w := &watcher{Config: c, log: cmp.Or(c.Logger, slog.New(slog.DiscardHandler))}
	if w.Alive == nil {
		w.Alive = func(ctx context.Context) bool {
			return Answers(ctx, w.Client, w.Services[0].Namespace, w.Services[0].Name)
		}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var global, scoped sync.WaitGroup
	global.Go(func() { w.ifAllowed(ctx, w.nodes()) })
	global.Go(func() { w.askForLife(ctx) })
	global.Go(func() { w.readSlices(ctx) })
	namespaces := w.namespaces()
	denials := make([]error, len(namespaces))
	for i, n := range namespaces {
		scoped.Go(func() { denials[i] = n.run(ctx) })
	}
	scoped.Wait()
	stop()
	global.Wait()
	if slices.Contains(denials, nil) {
		return nil
	}
	err := errors.Join(denials...)
	w.emit(w.now(), 0, laneIs("Node", nil, "off", err.Error()))
	return err
}

// A runner is a reflector of some kind of object.
type runner interface {
	run(ctx context.Context) error
	is(now time.Duration, state, why string)
}

// A restartable reflector can run again after it has ended.
type restartable interface {
	runner
	restart()
}

// startAllowed starts reflectors that are not essential. stop ends them and waits for that.
func (w *watcher) startAllowed(ctx context.Context, reflectors []restartable) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	for _, r := range reflectors {
		r.restart()
		running.Go(func() { w.ifAllowed(ctx, r) })
	}
	return func() { cancel(); running.Wait() }
}

// refused returns the pauses between attempts to watch what the user may not. The right may be granted later, and an
// API server that has just started may refuse what it soon allows.
func refused() wait.Backoff {
	return wait.Backoff{Duration: 10 * time.Second, Factor: 2, Cap: 10 * time.Minute, Steps: math.MaxInt}
}

// ifAllowed runs a reflector that is not essential. While a right is missing, its lane is off.
func (w *watcher) ifAllowed(ctx context.Context, r runner) {
	again := refused().DelayFunc()
	_ = again.Until(ctx, true, true, func(ctx context.Context) (done bool, _ error) {
		if err := r.run(ctx); err != nil {
			r.is(w.now(), "off", err.Error())
		}
		return false, nil
	})
}
