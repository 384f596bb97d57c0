// Package signs says which facts of a watched Service announce or begin a disruption, and when one is over. It is pure:
// it knows no clock and no client.
package signs

import (
	"cmp"
	"fmt"
	"iter"
	"maps"
	"strings"
	"time"

	"lapse/timeline"
)

// A Class is how long before the first effect a sign comes.
type Class uint8

const (
	None    Class = iota
	Planned       // it may come hours before, or announce nothing
	Soon          // some milliseconds to seconds before
	Now           // no earlier than the disruption
)

// A Sign announces or begins a disruption.
type Sign struct {
	Class Class
	Name  string        // which line of the table
	Text  string        // what happened, and who did it where that is known, for people
	At    time.Duration // when it was seen

	Holds time.Duration // how long the disruption is waited for that it announces; 0: 15 minutes
	Again bool          // an endpoint is lost that is lost again and again: see [Watch.Repeats]
}

// ARequest is the name of the sign that is no event: a request failed.
const ARequest = "request"

// MayLast reports whether a sign shows no change: a request failed, as others may have for long, or an endpoint is lost
// that is lost again and again.
func (s Sign) MayLast() bool { return s.Name == ARequest || s.Again }

// Lasting begins the sign of a run of requests that fail since long before, and says since when.
const Lasting = "requests fail since "

// repeated is in the sign of a run of an endpoint that is lost again and again, before since when it is.
const repeated = " is lost again and again since "

// Lasts reports whether a sign is that of a run of what began long before, and says since when.
func Lasts(text string) bool {
	return strings.HasPrefix(text, Lasting) || strings.Contains(text, repeated)
}

// Announced is the name of the sign that is no fact: somebody said that a disruption comes.
const Announced = "announced"

// AnEndpoint is the name of the sign that an endpoint is lost (of class [Now]), or comes (of class [Soon]).
const AnEndpoint = "endpoint"

// NodeLost is the name of the sign that a node is not ready. It comes up to 50 s after requests began to fail.
const NodeLost = "node-lost"

const (
	// mostBetween is the longest time between two losses of an endpoint that is lost again and again. The kubelet waits
	// 5 minutes at most before it starts a container that crashes, and forgets that after 10 minutes without a crash.
	// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
	mostBetween = 15 * time.Minute
	// manyTimes is from which loss on it is lost again and again.
	manyTimes = 3
)

// losses are those of an endpoint, each less than [mostBetween] after the one before.
type losses struct {
	pod         string
	n           int
	first, last time.Duration
}

func (l losses) repeat(now time.Duration) bool { return l.n >= manyTimes && now-l.last < mostBetween }

// A Watch follows the facts of the Services of a run. The zero value knows none.
type Watch struct {
	Own []Mark // signs in addition to those of the table; they count first

	on      map[string]map[string]bool // the addresses of our endpoints, by node
	ready   map[string]bool            // Pods of ready endpoints, by UID
	ending  map[string]time.Duration   // when the grace period ends of Pods that are being deleted, by UID
	coming  map[string]bool            // Pods that were created and were not ready yet, by UID
	nowhere map[string]bool            // of them those that have no node
	rolling map[string]bool            // workloads whose rollout is not over, by UID
	lost    map[string]bool            // endpoints that were ready and are not any more, until they are gone
	losses  map[string]losses          // of those that were lost and are not gone
	left    map[string]bool            // Pods that are not awaited any more, by UID, until they are ready or gone
	Last    time.Duration              // when something changed last
}

// Event takes in the next event, and returns the sign that it is, or one of class [None].
func (w *Watch) Event(e timeline.Event) Sign {
	sign := w.signOf(e)
	if w.note(e) || sign.Class > Planned {
		w.Last = max(w.Last, e.Seen)
	}
	sign.Again = e.To == timeline.EndpointNotReady && sign.Name == AnEndpoint && w.losses[endpointKey(e)].repeat(e.Seen)
	return sign
}

func (w *Watch) signOf(e timeline.Event) Sign {
	for _, lines := range [][]line{marked(w.Own), table} {
		for _, l := range lines {
			if l.kind == e.Kind && l.is(w, e) {
				text := l.text(e) + by(cmp.Or(l.actor, e.Actor))
				return Sign{Class: l.class, Name: l.name, Text: text, At: e.Seen}
			}
		}
	}
	return Sign{}
}

// Batch takes in requests. failed tells which of the targets' failures count.
func (w *Watch) Batch(b timeline.Batch, counts func(timeline.TargetID) bool) Sign {
	sign := Sign{}
	for i := range b.Requests {
		if q := &b.Requests[i]; q.Class.Failed() && counts(q.Target) {
			w.Last = max(w.Last, q.Done)
			text := fmt.Sprintf("a request failed (%s)", q.Class)
			sign = Sign{Class: Now, Name: ARequest, Text: text, At: q.Done}
		}
	}
	return sign
}

// note keeps what is under way, and reports whether the event is a change of a Pod, or says that one comes.
func (w *Watch) note(e timeline.Event) (change bool) {
	uid := e.Object.UID
	switch e.Kind {
	case timeline.EndpointChanged:
		at := endpointKey(e)
		put(&w.on, e.Object.Node, at, e.To != timeline.EndpointAbsent)
		mark(&w.ready, uid, e.To == timeline.EndpointReady)
		w.noteLoss(e, at)
		if e.From == timeline.EndpointReady || e.To == timeline.EndpointReady || e.To == timeline.EndpointAbsent {
			mark(&w.lost, at, e.To == timeline.EndpointNotReady)
		}
		return changed(w, e)
	case timeline.PodSeen:
		mark(&w.coming, uid, e.Detail == "watched" && e.To != "Succeeded" && e.To != "Failed")
		mark(&w.nowhere, uid, e.Object.Node == "")
		return e.Detail == "watched"
	case timeline.PodReady:
		if e.To == "true" {
			mark(&w.coming, uid, false)
			mark(&w.left, uid, false)
		}
	case timeline.PodDeleted:
		mark(&w.coming, uid, false)
		if w.ending == nil {
			w.ending = map[string]time.Duration{}
		}
		if w.ending[uid] = e.Seen; e.Grace != nil {
			w.ending[uid] += *e.Grace
		}
	case timeline.PodGone:
		mark(&w.coming, uid, false)
		mark(&w.nowhere, uid, false)
		delete(w.ending, uid)
		mark(&w.left, uid, false)
	case timeline.SnapshotTaken:
		w.noteRollout(e)
		return false
	case timeline.PodPhase:
		if e.To == "Failed" || e.To == "Succeeded" { // it will not be ready any more
			mark(&w.coming, uid, false)
		}
	case timeline.PodScheduled:
		mark(&w.nowhere, uid, false)
	case timeline.PodContainer:
		return !w.left[uid] // else it crashes for long
	case timeline.KubeEvent:
		// The loss of its endpoint follows, or the exit of its container. Of a Pod that fails a probe now and then, the
		// kubelet writes 25 Events, and then one in 5 minutes.
		// https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go, defaultSpamBurst
		return e.To == "Unhealthy" && w.ready[uid]
	default:
		return false
	}
	return true
}

// noteLoss counts the losses of an endpoint. It has an event for each port.
func (w *Watch) noteLoss(e timeline.Event, at string) {
	switch {
	case e.To == timeline.EndpointAbsent:
		delete(w.losses, at)
	case e.From == timeline.EndpointReady && e.To == timeline.EndpointNotReady && !w.lost[at]:
		l := w.losses[at]
		if l.n == 0 || e.Seen-l.last >= mostBetween {
			l = losses{pod: e.Object.Name, first: e.Seen}
		}
		l.n, l.last = l.n+1, e.Seen
		if w.losses == nil {
			w.losses = map[string]losses{}
		}
		w.losses[at] = l
	}
}

// noteRollout notes whether the rollout of a workload is over. Only one that began here is awaited: a workload may have
// lacked Pods for days. A paused Deployment gets no Pods of its new template, and with OnDelete nobody knows when.
func (w *Watch) noteRollout(e timeline.Event) {
	if e.Snapshot == nil || e.Snapshot.Workload == nil || e.Object.Kind == "ReplicaSet" {
		return
	}
	is := e.Snapshot.Workload
	switch {
	case is.RolledOut(), is.Paused && is.Observed(), is.Strategy == "OnDelete", e.To == timeline.SnapshotDeleted:
		mark(&w.rolling, e.Object.UID, false)
	case e.To == timeline.SnapshotChanged:
		mark(&w.rolling, e.Object.UID, true)
	}
}

// UnderWay returns how many Pods are ending, and how many are starting, and how many workloads are rolled out.
func (w *Watch) UnderWay() int { return len(w.ending) + len(w.coming) + len(w.rolling) }

// OnlyPending reports whether nothing is under way but Pods that no node has room for.
func (w *Watch) OnlyPending() bool {
	for uid := range w.coming {
		if !w.nowhere[uid] {
			return false
		}
	}
	return len(w.ending) == 0 && len(w.rolling) == 0
}

// Settled reports whether nothing has changed at now for the length quiet, and nothing is under way.
func (w *Watch) Settled(now, quiet time.Duration) bool {
	return now-w.Last >= quiet && w.UnderWay() == 0
}

// Still returns since when nothing has changed that should have: a Pod may take its whole grace period to stop. Until
// that is over, the instant returned is in the future.
func (w *Watch) Still() time.Duration {
	since := w.Last
	for _, end := range w.ending {
		since = max(since, end)
	}
	return since
}

// Forget ends the wait for what is under way: it has not come to an end for long.
func (w *Watch) Forget() {
	for _, uids := range []iter.Seq[string]{maps.Keys(w.ending), maps.Keys(w.coming)} {
		for uid := range uids {
			mark(&w.left, uid, true)
		}
	}
	clear(w.ending)
	clear(w.coming)
	clear(w.rolling)
}

// Repeats returns which endpoint is lost again and again at now, as a sign that ends before the time, and since when;
// "" if none is.
func (w *Watch) Repeats(now time.Duration) (text string, since time.Duration) {
	var of losses
	for _, l := range w.losses {
		if l.repeat(now) && (of.n == 0 || cmp.Or(cmp.Compare(l.first, of.first), cmp.Compare(l.pod, of.pod)) < 0) {
			of = l
		}
	}
	if of.n == 0 {
		return "", 0
	}
	return "the endpoint of " + of.pod + repeated, of.first
}

// endpointKey returns the Service and the address of an endpoint.
func endpointKey(e timeline.Event) string { return e.Service + " " + e.Addr.String() }

func mark(set *map[string]bool, of string, in bool) {
	if *set == nil {
		*set = map[string]bool{}
	}
	if delete(*set, of); in {
		(*set)[of] = true
	}
}

func put(sets *map[string]map[string]bool, node, at string, in bool) {
	if *sets == nil {
		*sets = map[string]map[string]bool{}
	}
	set := (*sets)[node]
	if mark(&set, at, in); len(set) > 0 {
		(*sets)[node] = set
	} else { // nodes come by ever other names
		delete(*sets, node)
	}
}
