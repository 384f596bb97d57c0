package watcher

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/timeline"
)

// watchServiceAndPods watches a Service, and the Pods that its selector names: others when it changes.
func (w *watcher) watchServiceAndPods(ctx context.Context, s Service) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	selectors := make(chan labels.Selector)
	var service sync.WaitGroup
	service.Go(func() {
		if err := w.service(ctx, s.Name, selectors).run(ctx); err != nil {
			cancel(err)
		}
	})
	err := w.watchPods(ctx, selectors)
	cancel(err)
	service.Wait()
	return cmp.Or(err, denial(ctx))
}

// watchPods watches the Pods of the newest selector, until ctx ends or they may not be watched. A Service without a
// selector has none: its endpoints are made by hand.
func (w *watcher) watchPods(ctx context.Context, selectors <-chan labels.Selector) error {
	lane := w.podLane()
	failed := make(chan error, 1)
	stop := func() {}
	defer func() { stop() }()
	for {
		select {
		case selector := <-selectors:
			stop()
			stop = func() {}
			if !selector.Empty() {
				lane.follows(selector)
				stop = start(ctx, &lane.lane, failed)
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// start runs a lane until the returned function is called, which waits for its end.
func start[T object](ctx context.Context, lane *lane[T], failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := lane.run(ctx); err != nil {
			failed <- err
		}
	})
	return func() { cancel(); running.Wait() }
}

// service watches the Service of that name. Its selector goes to selectors whenever it is a new one.
func (w *watcher) service(ctx context.Context, name string, selectors chan<- labels.Selector) *lane[*corev1.Service] {
	client := w.Client.Services(w.Namespace)
	var current string
	return &lane[*corev1.Service]{
		kind: "Service", resource: "services", w: w,
		list:    func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch:   func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
		options: metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()},
		change: func(old, new *corev1.Service, how how) []timeline.Event {
			if new != nil && selectorOf(new) != current {
				current = selectorOf(new)
				select {
				case selectors <- labels.SelectorFromSet(new.Spec.Selector):
				case <-ctx.Done():
				}
			}
			return diffService(old, new, how)
		},
	}
}

func selectorOf(s *corev1.Service) string { return labels.Set(s.Spec.Selector).String() }

// diffService tells what changed that matters to who is served: an event for each. The first sight of a Service is no
// change.
func diffService(old, new *corev1.Service, how how) []timeline.Event {
	switch {
	case new == nil:
		return []timeline.Event{serviceEvent(old, "deleted", "present", "absent")}
	case old == nil && how == listed:
		return nil
	case old == nil:
		return []timeline.Event{serviceEvent(new, "created", "absent", "present")}
	}
	var events []timeline.Event
	add := func(what, from, to string) {
		if from != to {
			from, to = cmp.Or(from, "none"), cmp.Or(to, "none")
			events = append(events, serviceEvent(new, fmt.Sprintf("%s: %s → %s", what, from, to), from, to))
		}
	}
	add("selector", selectorOf(old), selectorOf(new))
	add("ports", strings.Join(ports(old), ", "), strings.Join(ports(new), ", "))
	add("type", string(old.Spec.Type), string(new.Spec.Type))
	add("cluster IP", old.Spec.ClusterIP, new.Spec.ClusterIP)
	add("session affinity", string(old.Spec.SessionAffinity), string(new.Spec.SessionAffinity))
	add("internal traffic policy", text(old.Spec.InternalTrafficPolicy), text(new.Spec.InternalTrafficPolicy))
	add("external traffic policy", string(old.Spec.ExternalTrafficPolicy), string(new.Spec.ExternalTrafficPolicy))
	return events
}

func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func serviceEvent(s *corev1.Service, detail, from, to string) timeline.Event {
	return timeline.Event{
		Kind: timeline.ServiceChanged, Writer: apiserver, Detail: detail, From: from, To: to,
		Object: timeline.Object{Kind: "Service", Namespace: s.Namespace, Name: s.Name, UID: string(s.UID)},
	}
}

// ports are a Service's ports as people write them: "80/TCP → http".
func ports(s *corev1.Service) []string {
	all := make([]string, 0, len(s.Spec.Ports))
	for _, p := range s.Spec.Ports {
		text := fmt.Sprintf("%d/%s", p.Port, p.Protocol)
		if target := p.TargetPort.String(); target != "" && target != "0" {
			text += " → " + target
		}
		all = append(all, text)
	}
	return all
}
