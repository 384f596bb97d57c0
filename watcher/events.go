package watcher

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
)

// maxHeld is the largest number of Events and EvictionRequests that wait for their Pod. If there are more, the older
// half is dropped.
const maxHeld = 4000

// subjects separate a namespace's Events about our Services, their Pods and the Pods' owners from other Events. An
// Event may come before its Pod: then it is held.
type subjects struct {
	services map[string]bool             // NAMESPACE/NAME
	uids     map[types.UID]int           // because of how many objects that are there
	gone     map[types.UID]time.Duration // when the last of these went
	held     []heldEvent
}

type heldEvent struct {
	uid types.UID
	timeline.Event
}

func newSubjects(services []Service) subjects {
	s := subjects{services: map[string]bool{}, uids: map[types.UID]int{}, gone: map[types.UID]time.Duration{}}
	for _, service := range services {
		s.services[service.key()] = true
	}
	return s
}

// kubeEvents watches the Events of the namespace. Events from before the run are ignored.
func (n *namespace) kubeEvents() *reflector[*corev1.Event] {
	return &reflector[*corev1.Event]{
		kind:     "Event",
		resource: "events",
		source:   from(n.Client.Events(n.name)),
		services: n.keys(),
		in:       n.name,
		change: func(old, new *corev1.Event, how origin) []timeline.Event {
			if how == listed {
				return nil
			}
			return n.ours(diffEvent(old, new))
		},
		w: n.watcher,
	}
}

// diffEvent returns a fact if the Event is new or happened again. That an Event has expired is not a fact.
func diffEvent(old, new *corev1.Event) []timeline.Event {
	if new == nil || old != nil && old.Count == new.Count && seriesCount(old) == seriesCount(new) {
		return nil
	}
	return []timeline.Event{kubeEvent(new)}
}

func seriesCount(e *corev1.Event) int32 {
	if e.Series == nil {
		return 0
	}
	return e.Series.Count
}

// ours returns the events about our subjects and holds the others, because their subject may become ours. If it has
// to drop held events, it also returns a gap.
func (n *namespace) ours(events []timeline.Event) []timeline.Event {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	var ours []timeline.Event
	if n.HoldFor > 0 {
		old := func(h heldEvent) bool { return h.Seen < now-n.HoldFor }
		n.subj.held = slices.DeleteFunc(n.subj.held, old)
	}
	for _, e := range events {
		uid := types.UID(e.Object.UID)
		if n.subj.has(uid) || e.Object.Kind == "Service" && n.subj.services[e.Object.Namespace+"/"+e.Object.Name] {
			ours = append(ours, e)
			continue
		}
		if len(n.subj.held) == maxHeld {
			gap := n.subj.forget()
			gap.Services = n.keys()
			ours = append(ours, gap)
		}
		e.Seen = now
		n.subj.held = append(n.subj.held, heldEvent{uid, e})
	}
	return ours
}

// forgotten is the detail of the gap that dropped Events leave.
const forgotten = "%d Events were dropped, because so far their objects belong to no measured Service: " +
	"of a Pod that comes to one later, earlier Events are missing"

// forget drops the older half of the held Events, and returns the gap that this leaves.
func (s *subjects) forget() timeline.Event {
	half := len(s.held) / 2
	since := s.held[0].Seen
	s.held = slices.Clone(s.held[half:])
	return timeline.Event{
		Kind:   timeline.WatchGap,
		Since:  since,
		Object: timeline.Object{Kind: "Event"},
		Writer: writer,
		Detail: fmt.Sprintf(forgotten, half),
	}
}

// about makes objects subjects because of one that is there, and returns the events held for them.
func (n *namespace) about(uids ...types.UID) []timeline.Event {
	n.mu.Lock()
	defer n.mu.Unlock()
	known := true
	for _, uid := range uids {
		known = known && n.subj.has(uid)
		n.subj.uids[uid]++
		delete(n.subj.gone, uid)
	}
	if known {
		return nil
	}
	var events []timeline.Event
	n.subj.held = slices.DeleteFunc(n.subj.held, func(h heldEvent) bool {
		ours := n.subj.has(h.uid)
		if ours {
			events = append(events, h.Event)
		}
		return ours
	})
	return events
}

func (s *subjects) has(uid types.UID) bool {
	_, gone := s.gone[uid]
	return s.uids[uid] > 0 || gone
}

// lose notes that an object is gone because of which others are subjects. Events about them may come later.
func (n *namespace) lose(uids ...types.UID) {
	now := n.now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, uid := range uids {
		if n.subj.uids[uid]--; n.subj.uids[uid] == 0 {
			delete(n.subj.uids, uid)
			n.subj.gone[uid] = now
		}
	}
	if n.HoldFor > 0 {
		maps.DeleteFunc(n.subj.gone, func(_ types.UID, at time.Duration) bool { return at < now-n.HoldFor })
	}
}

// kubeEvent returns an Event as a fact.
func kubeEvent(e *corev1.Event) timeline.Event {
	about := e.InvolvedObject
	return timeline.Event{
		Kind:   timeline.KubeEvent,
		To:     e.Reason,
		Detail: e.Message,
		Stamp:  stampOf(e),
		Writer: reporter(e),
		Object: timeline.Object{
			Kind:      about.Kind,
			Namespace: about.Namespace,
			Name:      about.Name,
			UID:       string(about.UID),
			Node:      e.Source.Host,
		},
		Container: containerOf(about.FieldPath),
	}
}

// containerOf returns the container that a field of a Pod is about: of "spec.containers{main}" it is main.
func containerOf(field string) string {
	_, name, _ := strings.Cut(field, "{")
	return strings.TrimSuffix(name, "}")
}

// reporter returns who reported an Event, by whose clock it is stamped: "kubelet/node1".
func reporter(e *corev1.Event) string {
	name := cmp.Or(e.Source.Component, e.ReportingController)
	if host := cmp.Or(e.Source.Host, e.ReportingInstance); host != "" && host != name {
		return name + "/" + host
	}
	return name
}

// stampOf returns when an Event last happened, by its reporter's clock. Most time fields have whole seconds. The name
// of an Event that happened once ends in that time in nanoseconds, in hexadecimal.
// https://github.com/kubernetes/client-go/blob/master/tools/record/event.go, makeEvent
func stampOf(e *corev1.Event) time.Time {
	if e.Series != nil {
		return e.Series.LastObservedTime.Time
	}
	coarse := e.LastTimestamp.Time
	if coarse.IsZero() {
		coarse = e.EventTime.Time
	}
	nanos, err := strconv.ParseInt(e.Name[strings.LastIndexByte(e.Name, '.')+1:], 16, 64)
	fine := time.Unix(0, nanos)
	if err != nil || e.Count > 1 || fine.Sub(coarse).Abs() > time.Minute {
		return coarse // happened again, or the name is of another kind: it may end in a UUID
	}
	return fine
}
