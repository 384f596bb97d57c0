package watcher

import (
	"fmt"
	"reflect"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// snapshots record the objects of one kind that are ours: each one once, and at each change.
type snapshots[T object] struct {
	kind     string
	take     func(T) timeline.Snapshot
	ours     func(T) bool
	words    func(timeline.Snapshot) string                 // a snapshot's state in words, or ""
	changed  func(before, after timeline.Snapshot) []string // what changed in the spec, in words
	recorded map[types.UID]timeline.Snapshot
}

// change returns an event if an object of ours has changed; old or new may be nil. An object may become ours later, as
// when a Service selects other Pods.
func (s *snapshots[T]) change(old, new T, how origin) []timeline.Event {
	var none T
	if any(new) == any(none) {
		last, known := s.recorded[old.GetUID()]
		if !known {
			return nil
		}
		delete(s.recorded, old.GetUID())
		return []timeline.Event{snapshotEvent(s.kind, old, timeline.SnapshotDeleted, s.words(last), last)}
	}
	last, known := s.recorded[new.GetUID()]
	if !known && !s.ours(new) {
		return nil
	}
	now := s.take(new)
	s.recorded[new.GetUID()] = now
	switch {
	case known && reflect.DeepEqual(last, now):
		return nil
	case known && len(s.changed(last, now)) > 0:
		e := snapshotEvent(s.kind, new, timeline.SnapshotChanged, strings.Join(s.changed(last, now), ", "), now)
		e.Actor = snapshot.Actor(new)
		return []timeline.Event{e}
	case known:
		return []timeline.Event{snapshotEvent(s.kind, new, timeline.SnapshotStatus, s.words(now), now)}
	case how == listed, any(old) != any(none):
		return []timeline.Event{snapshotEvent(s.kind, new, timeline.SnapshotFound, s.words(now), now)}
	}
	return []timeline.Event{snapshotEvent(s.kind, new, timeline.SnapshotCreated, s.words(now), now)}
}

func snapshotEvent(kind string, o metav1.Object, to, detail string, s timeline.Snapshot) timeline.Event {
	return timeline.Event{
		Kind:     timeline.SnapshotTaken,
		To:       to,
		Object:   objectOf(kind, o),
		Writer:   apiserver,
		Detail:   detail,
		Snapshot: &s,
	}
}

func objectOf(kind string, o metav1.Object) timeline.Object {
	return timeline.Object{Kind: kind, Namespace: o.GetNamespace(), Name: o.GetName(), UID: string(o.GetUID())}
}

// edits are changes of an object's spec, in words.
type edits []string

func (e *edits) add(what, from, to string) {
	if from != to {
		*e = append(*e, fmt.Sprintf("%s: %s → %s", what, orNone(from), orNone(to)))
	}
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

// interest decides which objects of a namespace concern its Services, in addition to the Pods.
type interest struct {
	selectors map[string]selector  // all that the Services ever had, by their text
	labels    map[string]podLabels // of the Pods seen, each set once
	templates map[string]bool      // IDs of the recorded templates
}

// podLabels are the labels of Pods of a namespace.
type podLabels struct {
	namespace string
	labels.Set
}

func newInterest() interest {
	return interest{map[string]selector{}, map[string]podLabels{}, map[string]bool{}}
}

// selects notes the Services' new selectors.
func (n *namespace) selects(selectors []selector) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range selectors {
		n.interest.selectors[s.String()] = s
	}
}

// makesOurs reports whether a Service selects, or has selected, Pods of a namespace with these labels.
func (n *namespace) makesOurs(namespace string, set map[string]string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.interest.selectors {
		if s.matches(namespace, set) {
			return true
		}
	}
	return false
}

// ownLabels differ from Pod to Pod of a StatefulSet.
var ownLabels = []string{"statefulset.kubernetes.io/pod-name", "apps.kubernetes.io/pod-index"}

// sawLabels notes the labels of a Pod.
func (n *namespace) sawLabels(namespace string, set map[string]string) {
	common := labels.Set{}
	for key, value := range set {
		common[key] = value
	}
	for _, key := range ownLabels {
		delete(common, key)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.interest.labels[namespace+"/"+common.String()] = podLabels{namespace, set}
}

// coversOurs reports whether the selector matches a Pod of ours in a namespace.
func (n *namespace) coversOurs(namespace string, selector *metav1.LabelSelector) bool {
	s, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, seen := range n.interest.labels {
		if seen.namespace == namespace && s.Matches(seen.Set) {
			return true
		}
	}
	return false
}
