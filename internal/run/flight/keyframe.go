package flight

import (
	"fmt"
	"strings"
	"time"

	"lapse/timeline"
)

// A keyframe is the state of what is watched: of each thing the last event that says how it is. It is written as a
// watch that begins there would list it.
type keyframe struct {
	order []key // by when the thing was first seen; has keys that are no longer in state
	state map[key]timeline.Event
	// since is when the last run ended, and changes are when specs of workloads were changed since then, each for the
	// last time.
	since   time.Duration
	changes map[string]time.Duration
}

// mostFollowed is how long after a change of a workload a run may begin that knows what followed: for as long the full
// rate is kept.
const mostFollowed = 15 * time.Minute

// cut notes that a run has ended at an instant. The next one does not know what was before.
func (k *keyframe) cut(at time.Duration) { k.since, k.changes = at, nil }

// A key names what an event states the state of.
type key struct {
	of   string // whose state it is: all of it goes when that goes
	what string // which part of it
}

// add takes in an event. What it says nothing lasting of is left out: Events of Kubernetes, gaps, failures of requests.
func (k *keyframe) add(e timeline.Event) {
	of := string(e.Object.Kind) + " " + e.Object.UID
	switch e.Kind {
	case timeline.PodSeen:
		k.drop(of)
		e.Detail = "listed"
		k.set(key{of, "seen"}, e)
	case timeline.PodPhase:
		k.seen(of, e, func(pod *timeline.Event) { pod.To = e.To })
	case timeline.PodScheduled, timeline.PodReady, timeline.PodDeleted, timeline.PodDisrupted:
		k.seen(of, e, func(*timeline.Event) {})
		k.set(key{of, string(e.Kind)}, e)
	case timeline.EvictionRequested:
		k.setUnless(e.To == timeline.EvictionNotRequested, key{of, "eviction request " + e.Detail}, e)
	case timeline.PodContainer:
		name, _, _ := strings.Cut(e.Detail, " ")
		k.set(key{of, "container " + name}, e)
	case timeline.NodeGone:
		delete(k.state, proberOf(e))
		k.drop(of)
	case timeline.PodGone:
		k.gone(of)
	case timeline.NodeReady, timeline.NodeSchedulable:
		k.set(key{of, string(e.Kind)}, e)
	case timeline.NodeTaint:
		k.setUnless(e.To == "absent", key{of, "taint " + e.Detail}, e)
	case timeline.NodeMarked:
		k.setUnless(e.To == "absent", key{of, "mark " + e.Detail}, e)
	case timeline.EndpointChanged:
		at := fmt.Sprintf("endpoint %s %s:%d %s", e.Service, e.Addr, e.Port, e.PortName)
		k.setUnless(e.To == timeline.EndpointAbsent, key{at, of}, e)
	case timeline.SnapshotTaken:
		k.snapshot(of, e)
	case timeline.WatchLane:
		k.set(key{"lane " + e.Object.Kind, strings.Join(e.Services, " ")}, e)
	case timeline.ProberChanged:
		k.prober(e)
	case timeline.PlaneNotAsked:
		k.set(key{string(e.Kind), ""}, e)
	case timeline.NodeChecked:
		k.set(key{of, fmt.Sprintf("check %s:%d %s", e.Addr, e.Port, e.Service)}, e)
	case timeline.NameAnswered:
		name := fmt.Sprintf("name %s %s", e.Addr, e.Service)
		k.setUnless(e.To == timeline.LookupEnded, key{name, of + e.Object.Name}, e)
	case timeline.Predicted:
		k.set(key{"predicted", of + e.Object.Namespace + "/" + e.Object.Name}, e)
	}
}

// gone removes a Pod, and its template if no other Pod has it.
func (k *keyframe) gone(of string) {
	template := k.state[key{of, "seen"}].Template
	k.drop(of)
	for at, e := range k.state {
		if at.what == "seen" && e.Template == template {
			return
		}
	}
	k.setUnless(true, key{"template", template}, timeline.Event{})
}

// snapshot takes in the state of an object. A Pod template never changes, and is stated with the first of its Pods.
func (k *keyframe) snapshot(of string, e timeline.Event) {
	switch {
	case e.Snapshot == nil:
		return
	case e.Snapshot.Template != nil:
		k.set(key{"template", e.Snapshot.Template.ID}, e)
		return
	case e.To == timeline.SnapshotChanged:
		e.Detail = "" // it says what changed, not how it is
	}
	deleted := e.To == timeline.SnapshotDeleted
	if changed := e.To == timeline.SnapshotChanged || e.To == timeline.SnapshotCreated; deleted {
		delete(k.changes, of)
	} else if changed && e.Snapshot.Workload != nil && e.Seen >= k.since {
		if k.changes == nil {
			k.changes = map[string]time.Duration{}
		}
		k.changes[of] = e.Seen
	}
	e.To, e.Actor = timeline.SnapshotFound, ""
	k.setUnless(deleted, key{of, "snapshot"}, e)
}

// mostLost is how many lost probers are kept where nodes are not watched: a node that is gone may be one of theirs.
const mostLost = 100

func proberOf(e timeline.Event) key { return key{string(timeline.ProberChanged), e.Object.Name} }

// prober takes in the state of a node's prober, unless the node is gone. Where that is not known, it keeps the last
// [mostLost] of those that were lost.
func (k *keyframe) prober(e timeline.Event) {
	if e.To != "lost" {
		k.set(proberOf(e), e)
		return
	}
	there := k.nodes()
	k.setUnless(len(there) > 0 && !there[e.Object.Name], proberOf(e), e)
	if len(there) > 0 {
		return
	}
	var first key
	lost := 0
	for at, other := range k.state {
		if other.Kind != timeline.ProberChanged || other.To != "lost" {
			continue
		}
		if lost++; lost == 1 || other.Seen < k.state[first].Seen {
			first = at
		}
	}
	if lost > mostLost {
		delete(k.state, first)
		k.compact()
	}
}

// seen changes what was first seen of a Pod, which has the Pod's node and address of now.
func (k *keyframe) seen(of string, e timeline.Event, change func(pod *timeline.Event)) {
	pod, ok := k.state[key{of, "seen"}]
	if !ok {
		return
	}
	pod.Object, pod.Addr = e.Object, e.Addr
	change(&pod)
	k.state[key{of, "seen"}] = pod
}

func (k *keyframe) set(at key, e timeline.Event) {
	if k.state == nil {
		k.state = map[key]timeline.Event{}
	}
	if _, known := k.state[at]; !known {
		k.order = append(k.order, at)
	}
	k.state[at] = e
}

// setUnless sets a state, or removes it if it is no more.
func (k *keyframe) setUnless(gone bool, at key, e timeline.Event) {
	if !gone {
		k.set(at, e)
		return
	}
	delete(k.state, at)
	k.compact()
}

// drop removes all state of a thing.
func (k *keyframe) drop(of string) {
	for at := range k.state {
		if at.of == of {
			delete(k.state, at)
		}
	}
	k.compact()
}

// compact forgets the keys of what is no more, when they are as many as the others: the keyframe of a cluster in which
// Pods come and go does not grow.
func (k *keyframe) compact() {
	if len(k.order) < 2*len(k.state)+16 {
		return
	}
	kept := k.order[:0]
	for _, at := range k.order {
		if _, ok := k.state[at]; ok {
			kept = append(kept, at)
		}
	}
	k.order = kept
}

// events returns the state, as events that were seen when the run began: how it was before is not known.
func (k *keyframe) events(begin time.Duration) (all []timeline.Event) {
	written, there := map[key]bool{}, k.nodes()
	for _, at := range k.order {
		e, ok := k.state[at]
		gone := e.Kind == timeline.ProberChanged && len(there) > 0 && !there[e.Object.Name]
		if !ok || written[at] || gone { // nothing is to be measured from a node that is gone
			continue
		}
		written[at] = true
		e.ID, e.Seen, e.Since, e.From = 0, 0, 0, ""
		if changed, ok := k.changes[at.of]; ok && begin-changed <= mostFollowed && e.Kind == timeline.SnapshotTaken {
			e.Detail = timeline.SnapshotFollowed
		}
		all = append(all, e)
	}
	return all
}

// nodes returns the nodes that are there, by name; none if nodes are not watched.
func (k *keyframe) nodes() map[string]bool {
	there := map[string]bool{}
	for _, e := range k.state {
		if e.Kind == timeline.NodeSchedulable {
			there[e.Object.Name] = true
		}
	}
	return there
}
