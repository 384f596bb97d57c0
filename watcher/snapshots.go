package watcher

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
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
	selectors []selector // that the Services have, and had before: at most [mostSelectors]
	pods      map[types.UID]knownPod
	labels    map[string]*podLabels // of the Pods that are there, or of those that were there last
	templates map[string]int        // of how many Pods that are there, by ID
}

// A knownPod is what is known because a Pod is there.
type knownPod struct {
	labels, template string      // keys in [interest]
	subjects         []types.UID // of Events: the Pod and its owners
}

// podLabels are the labels of Pods of a namespace.
type podLabels struct {
	namespace string
	labels.Set
	pods int // that are there
}

func newInterest() interest {
	return interest{nil, map[types.UID]knownPod{}, map[string]*podLabels{}, map[string]int{}}
}

// mostSelectors is how many selectors are kept, if the Services do not have more. Argo Rollouts changes a Service's
// with each release.
const mostSelectors = 100

// selects notes the selectors that the Services have now.
func (n *namespace) selects(now []selector) {
	n.mu.Lock()
	defer n.mu.Unlock()
	had := slices.DeleteFunc(n.interest.selectors, func(s selector) bool {
		return slices.ContainsFunc(now, func(is selector) bool { return is.String() == s.String() })
	})
	all := slices.Concat(had, now)
	n.interest.selectors = all[max(0, len(all)-max(mostSelectors, len(now))):]
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

// come notes a Pod. It returns a snapshot of its template, too, unless another Pod that is there has it.
func (n *namespace) come(pod *corev1.Pod, how origin) (known knownPod, template []timeline.Event) {
	t := snapshot.Template(pod)
	common := labels.Set(maps.Clone(pod.Labels))
	for _, key := range ownLabels {
		delete(common, key)
	}
	known = knownPod{labels: pod.Namespace + "/" + common.String(), template: t.ID, subjects: []types.UID{pod.UID}}
	for _, owner := range pod.OwnerReferences {
		known.subjects = append(known.subjects, owner.UID)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	of := n.interest.labels[known.labels]
	if of == nil {
		of = &podLabels{namespace: pod.Namespace}
		n.interest.labels[known.labels] = of
	}
	of.Set, of.pods = pod.Labels, of.pods+1
	n.interest.dropLabels(pod.Namespace)
	n.interest.pods[pod.UID] = known
	if n.interest.templates[t.ID]++; n.interest.templates[t.ID] == 1 {
		template = append(template, templateEvent(pod, t, how))
	}
	return known, template
}

// goes lets go of what was known because of a Pod that is gone.
func (n *namespace) goes(pod *corev1.Pod) {
	n.mu.Lock()
	known := n.interest.pods[pod.UID]
	delete(n.interest.pods, pod.UID)
	n.interest.labels[known.labels].pods--
	n.interest.dropLabels(pod.Namespace)
	if n.interest.templates[known.template]--; n.interest.templates[known.template] == 0 {
		delete(n.interest.templates, known.template)
	}
	n.mu.Unlock()
	n.lose(known.subjects...)
}

// dropLabels lets go of labels in a namespace that no Pod has, unless no Pod is there.
func (i *interest) dropLabels(namespace string) {
	there := false
	for _, l := range i.labels {
		there = there || l.namespace == namespace && l.pods > 0
	}
	if there {
		maps.DeleteFunc(i.labels, func(_ string, l *podLabels) bool { return l.namespace == namespace && l.pods == 0 })
	}
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
