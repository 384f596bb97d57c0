package watcher

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A namespace watches for all Services of a namespace, or of all namespaces. There is one watch of each kind. A change
// that concerns several Services is recorded once.
type namespace struct {
	*watcher
	name     string    // empty: all
	services []Service // of the run, in this namespace

	mu       sync.Mutex
	subj     subjects // of Events
	interest interest // in other objects
}

// namespaces returns the Services' namespaces, in the order of each one's first Service.
func (w *watcher) namespaces() []*namespace {
	var all []*namespace
	for _, s := range w.Services {
		name := s.Namespace
		if w.AllNamespaces {
			name = metav1.NamespaceAll
		}
		i := slices.IndexFunc(all, func(n *namespace) bool { return n.name == name })
		if i < 0 {
			i, all = len(all), append(all, &namespace{watcher: w, name: name})
		}
		all[i].services = append(all[i].services, s)
	}
	for _, n := range all {
		n.subj, n.interest = newSubjects(n.services), newInterest()
	}
	return all
}

// keys returns NAMESPACE/NAME of each Service.
func (n *namespace) keys() []string { return keysOf(n.services) }

func keysOf(services []Service) []string {
	var keys []string
	for _, s := range services {
		keys = append(keys, s.key())
	}
	return keys
}

// names returns the names of the Services.
func (n *namespace) names() []string {
	var names []string
	for _, s := range n.services {
		names = append(names, s.Name)
	}
	return names
}

// subject returns a text that names the Services.
func (n *namespace) subject() string {
	if n.name == metav1.NamespaceAll {
		return "Services of all namespaces"
	}
	return fmt.Sprintf("Service %s of namespace %s", strings.Join(n.names(), ", "), n.name)
}

// run watches the namespace until ctx ends. If a right is missing without which nothing can be watched, it records
// all kinds as off and returns the error.
func (n *namespace) run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var reflectors sync.WaitGroup
	need := func(run func(context.Context) error) {
		reflectors.Go(func() {
			if err := run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	need(n.watchServicesAndPods)
	need(n.endpoints().run)
	reflectors.Go(func() { n.ifAllowed(ctx, n.kubeEvents()) })
	reflectors.Go(func() { n.ifAllowed(ctx, n.evictionRequests()) })
	reflectors.Wait()
	err := denial(ctx)
	if err == nil {
		return nil
	}
	for _, kind := range []string{"Service", "Pod", "EndpointSlice", "Event"} {
		n.emit(n.now(), 0, laneIs(kind, n.keys(), "off", err.Error()))
	}
	err = fmt.Errorf("watch %s: %w", n.subject(), err)
	n.log.Warn("a namespace is not watched", "error", err)
	return err
}

// denial returns the forbiddenError that ended ctx, or nil.
func denial(ctx context.Context) error {
	if _, ok := errors.AsType[*forbiddenError](context.Cause(ctx)); ok {
		return context.Cause(ctx)
	}
	return nil
}
