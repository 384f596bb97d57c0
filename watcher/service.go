package watcher

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// watchServicesAndPods watches the Services of a namespace and the Pods that they select. It follows changes of the
// selectors.
func (n *namespace) watchServicesAndPods(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	chosen := newSelectors(n.keys())
	var services sync.WaitGroup
	services.Go(func() {
		if err := n.watchServices(ctx, chosen); err != nil {
			cancel(err)
		}
	})
	err := n.watchPods(ctx, chosen.changed)
	cancel(err)
	services.Wait()
	return cmp.Or(err, denial(ctx))
}

// watchServices watches all Services of the namespace at once, or each by its name if the rights allow only that.
func (n *namespace) watchServices(ctx context.Context, chosen *selectors) error {
	err := n.serviceReflector(ctx, chosen, n.services...).run(ctx)
	if err == nil || len(n.services) == 1 || n.name == metav1.NamespaceAll {
		return err
	}
	n.log.Debug("each Service is watched by its name", "namespace", n.name, "error", err)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var each sync.WaitGroup
	for _, s := range n.services {
		each.Go(func() {
			if err := n.serviceReflector(ctx, chosen, s).run(ctx); err != nil {
				cancel(err)
			}
		})
	}
	each.Wait()
	return denial(ctx)
}

// selectors are the selectors of a namespace's Services.
type selectors struct {
	// changed gets all selectors that are not empty whenever one has changed. It gets nothing until every Service was
	// looked up once.
	changed chan []selector

	mu      sync.Mutex
	unknown map[string]bool     // Services that were not looked up yet
	of      map[string]selector // by Service: NAMESPACE/NAME
	stale   bool                // one has changed since they were sent
}

// A selector selects Pods of a namespace by their labels.
type selector struct {
	namespace string
	labels    labels.Selector
}

func (s selector) matches(namespace string, set map[string]string) bool {
	return s.namespace == namespace && s.labels.Matches(labels.Set(set))
}

func (s selector) String() string { return s.namespace + "/" + s.labels.String() }

func newSelectors(services []string) *selectors {
	s := &selectors{changed: make(chan []selector), unknown: map[string]bool{}, of: map[string]selector{}}
	for _, service := range services {
		s.unknown[service] = true
	}
	return s
}

// set notes the selector of a Service.
func (s *selectors) set(service *corev1.Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := service.Namespace + "/" + service.Name
	is := selector{service.Namespace, labels.SelectorFromSet(service.Spec.Selector)}
	if old, known := s.of[key]; !known || old.String() != is.String() {
		s.of[key], s.stale = is, true
	}
}

// send notes that these Services were looked up, and sends the selectors if one has changed.
func (s *selectors) send(ctx context.Context, services []Service) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, service := range services {
		delete(s.unknown, service.key())
	}
	if !s.stale || len(s.unknown) > 0 {
		return
	}
	var all []selector
	for _, key := range slices.Sorted(maps.Keys(s.of)) {
		if is := s.of[key]; !is.labels.Empty() {
			all = append(all, is)
		}
	}
	select {
	case s.changed <- all:
		s.stale = false
	case <-ctx.Done():
	}
}

// watchPods watches the Pods of the newest selectors until ctx ends, or the user may not watch them. A Service without
// a selector has no Pods: its endpoints are made by hand.
func (n *namespace) watchPods(ctx context.Context, changed <-chan []selector) error {
	listed := make(chan struct{}, 1)
	pods := n.podReflector(listed)
	// Which of the other objects are ours depends on the Pods.
	others := []restartable{n.deployments(), n.replicaSets(), n.statefulSets(), n.daemonSets(), n.budgets()}
	failed := make(chan error, 1)
	stop, stopOthers := func() {}, func() {}
	waiting := false // the others begin when the Pods are listed
	defer func() { stopOthers(); stop() }()
	for {
		select {
		case selectors := <-changed:
			if pods.selects(selectors) {
				continue
			}
			stopOthers()
			stop()
			stop, stopOthers, waiting = func() {}, func() {}, true
			n.selects(selectors)
			pods.follows(selectors)
			if len(selectors) > 0 {
				stop = start(ctx, &pods.reflector, failed)
			}
		case <-listed:
			if waiting {
				stopOthers, waiting = n.startAllowed(ctx, others), false
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return nil
		}
	}
}

// start starts a reflector. stop ends it and waits for that.
func start[T object](ctx context.Context, r *reflector[T], failed chan<- error) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() {
		if err := r.run(ctx); err != nil {
			failed <- err
		}
	})
	return func() { cancel(); running.Wait() }
}

// serviceReflector returns a reflector of these Services of the namespace, which sends their selectors to chosen. It
// asks for a single Service by its name.
func (n *namespace) serviceReflector(ctx context.Context, chosen *selectors, services ...Service) runner {
	var options metav1.ListOptions
	if len(services) == 1 {
		options.FieldSelector = fields.OneTermEqualSelector("metadata.name", services[0].Name).String()
	}
	taken := snapshots[*corev1.Service]{
		kind:     "Service",
		take:     specOf,
		ours:     func(*corev1.Service) bool { return true },
		words:    func(timeline.Snapshot) string { return "" },
		changed:  func(_, _ timeline.Snapshot) []string { return []string{"its spec"} },
		recorded: map[types.UID]timeline.Snapshot{},
	}
	keys := keysOf(services)
	return &reflector[*corev1.Service]{
		kind:     "Service",
		resource: "services",
		source:   from(n.Client.Services(n.name)),
		options:  options,
		wanted:   func(s *corev1.Service) bool { return slices.Contains(keys, s.Namespace+"/"+s.Name) },
		services: keys,
		in:       n.name,
		change: func(old, new *corev1.Service, how origin) []timeline.Event {
			if new != nil {
				chosen.set(new)
			}
			return append(diffService(old, new, how), taken.change(old, new, how)...)
		},
		flush: func(origin) []timeline.Event {
			chosen.send(ctx, services)
			return nil
		},
		w: n.watcher,
	}
}

func selectorOf(s *corev1.Service) string { return labels.Set(s.Spec.Selector).String() }

// diffService returns an event for each change of a Service that can change who serves its requests. The first list of
// a Service is no change.
func diffService(old, new *corev1.Service, how origin) []timeline.Event {
	switch {
	case new == nil:
		return []timeline.Event{serviceEvent(old, "deleted", "present", "absent")}
	case old == nil && how == listed:
		return nil
	case old == nil:
		return []timeline.Event{serviceEvent(new, "created", "absent", "present")}
	}
	var events []timeline.Event
	actor := snapshot.Actor(new)
	add := func(what, from, to string) {
		if from != to {
			from, to = cmp.Or(from, "none"), cmp.Or(to, "none")
			e := serviceEvent(new, fmt.Sprintf("%s: %s → %s", what, from, to), from, to)
			e.Actor = actor
			events = append(events, e)
		}
	}
	add("selector", selectorOf(old), selectorOf(new))
	add("ports", strings.Join(ports(old), ", "), strings.Join(ports(new), ", "))
	add("type", string(old.Spec.Type), string(new.Spec.Type))
	add("cluster IP", old.Spec.ClusterIP, new.Spec.ClusterIP)
	add("session affinity", string(old.Spec.SessionAffinity), string(new.Spec.SessionAffinity))
	add("internal traffic policy", text(old.Spec.InternalTrafficPolicy), text(new.Spec.InternalTrafficPolicy))
	add("external traffic policy", string(old.Spec.ExternalTrafficPolicy), string(new.Spec.ExternalTrafficPolicy))
	add("traffic distribution", text(old.Spec.TrafficDistribution), text(new.Spec.TrafficDistribution))
	early := func(s *corev1.Service) string { return strconv.FormatBool(s.Spec.PublishNotReadyAddresses) }
	add("publishNotReadyAddresses", early(old), early(new))
	return events
}

func specOf(s *corev1.Service) timeline.Snapshot {
	spec := &timeline.ServiceSpec{
		Selector:        selectorOf(s),
		Type:            string(s.Spec.Type),
		Internal:        text(s.Spec.InternalTrafficPolicy),
		External:        string(s.Spec.ExternalTrafficPolicy),
		Distribution:    text(s.Spec.TrafficDistribution),
		PublishNotReady: s.Spec.PublishNotReadyAddresses,
	}
	if s.Spec.SessionAffinity != corev1.ServiceAffinityNone {
		spec.Affinity = string(s.Spec.SessionAffinity)
	}
	return timeline.Snapshot{Service: spec}
}

func text[T ~string](s *T) string {
	if s == nil {
		return ""
	}
	return string(*s)
}

func serviceEvent(s *corev1.Service, detail, from, to string) timeline.Event {
	return timeline.Event{
		Kind:   timeline.ServiceChanged,
		From:   from,
		To:     to,
		Object: objectOf("Service", s),
		Writer: apiserver,
		Detail: detail,
	}
}

// ports returns a Service's ports as people write them: "80/TCP → http".
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
