// Package cluster reads what was watched of the cluster: when each event happened on the run's clock, the lifecycle
// of every Pod, and which endpoints were ready.
package cluster

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// The assumed longest time from a change until it is seen, where nothing better is known. See
// docs/decisions/0004-placing-events.md.
const (
	WatchLag = time.Second // written by the API server, sent down an unbroken watch
	// noticed by a kubelet first: its relist period (1 s), its status update, then the watch
	KubeletLag = 3 * time.Second
	childLag   = time.Second // the wrapped command: its buffers, its pipe, our being scheduled
)

// lags is the longest time from when an event happened until it was seen, by kind. Lapse itself records the other kinds
// as they happen: their brackets are points.
var lags = map[timeline.EventKind]time.Duration{
	timeline.PodSeen:           WatchLag,
	timeline.PodScheduled:      WatchLag,
	timeline.PodDeleted:        WatchLag,
	timeline.PodDisrupted:      WatchLag,
	timeline.EvictionRequested: WatchLag,
	timeline.PodGone:           WatchLag,
	timeline.EndpointChanged:   WatchLag,
	timeline.ServiceChanged:    WatchLag,
	timeline.NodeSchedulable:   WatchLag,
	timeline.NodeTaint:         WatchLag,
	timeline.NodeMarked:        WatchLag,
	timeline.NodeGone:          WatchLag,
	timeline.SnapshotTaken:     WatchLag,
	timeline.PodContainer:      KubeletLag,
	timeline.PodReady:          KubeletLag,
	timeline.PodPhase:          KubeletLag,
	timeline.KubeEvent:         KubeletLag,
	timeline.NodeReady:         KubeletLag,
	timeline.Command:           childLag,
	timeline.CommandOutput:     childLag,
}

// A Placer gives events their brackets on the run's clock, in the order in which they were recorded. An event happened
// no later than it was seen, and no earlier than Since; without Since, no earlier than the assumed lag of its kind
// before it was seen. After a watch gap, it may have happened since the gap's start, less that lag. What the first list
// found, and the state of a Pod that came back, may have happened at any time before.
//
// A stamp narrows no bracket: another machine's clock proves nothing until it has been compared with ours. But a stamp
// from before the bracket widens it.
type Placer struct {
	t0    time.Time             // the wall clock at the run's zero
	met   map[string]bool       // by UID, Pods that were seen
	found map[string][]sighting // by UID of the Pod
	gaps  []timeline.Event
}

// NewPlacer returns a Placer of a run whose zero was at the wall-clock time t0.
func NewPlacer(t0 time.Time) *Placer {
	return &Placer{t0: t0, met: map[string]bool{}, found: map[string][]sighting{}}
}

// Note takes in what an event says of others. Call it for each event before any is placed. It reports whether that may
// change the place of an earlier event.
func (p *Placer) Note(e *timeline.Event) (changes bool) {
	if e.Kind != timeline.PodSeen {
		return false
	}
	uid := e.Object.UID
	if e.Detail == "listed" || p.met[uid] {
		p.found[uid] = append(p.found[uid], sighting{e.Seen, !p.met[uid]})
		changes = true
	}
	p.met[uid] = true
	return changes
}

// Place places the next event. The result refers to parts of e.
func (p *Placer) Place(e *timeline.Event) model.Event {
	if e.Kind == timeline.WatchGap {
		p.gaps = append(p.gaps, *e)
	}
	return published(e, model.Instant{Earliest: min(p.stamped(e, p.earliest(e)), e.Seen), Latest: e.Seen})
}

// Place places all events of a run whose zero was at t0. The result refers to parts of evs.
func Place(t0 time.Time, evs []timeline.Event) []model.Event {
	p, placed := NewPlacer(t0), make([]model.Event, len(evs))
	for i := range evs {
		p.Note(&evs[i])
	}
	for i := range evs {
		placed[i] = p.Place(&evs[i])
	}
	return placed
}

// A sighting is when a Pod was found that had existed before: events seen with it are its state, not changes.
type sighting struct {
	seen  time.Duration
	first bool // by the first list; else it came back, as when a selector was restored
}

func (p *Placer) earliest(e *timeline.Event) time.Duration {
	lag, watched := lags[e.Kind]
	switch {
	case e.Since != 0: // negative in a guard's run: before its zero
		return e.Since
	case !watched:
		return e.Seen
	case p.foundByList(e):
		return model.Unbounded
	}
	at := e.Seen - lag
	for _, gap := range p.gaps {
		if at <= gap.Seen && gapHides(&gap, e) {
			at = min(at, gap.Since-lag) // what was on its way when the gap began came after it
		}
	}
	return at
}

// ClocksApart is how far another machine's clock may be from ours, where nothing is known of it.
const ClocksApart = time.Second

// stamped returns the lower bound at, or an earlier one if the stamp says that the event happened before: then the
// assumed lag does not hold. A kubelet that could not write tries again after 10 s, and only the stamp shows it.
func (p *Placer) stamped(e *timeline.Event, at time.Duration) time.Duration {
	lag, watched := lags[e.Kind]
	if !watched || e.Stamp.IsZero() || p.t0.IsZero() {
		return at
	}
	least := e.Stamp.Sub(p.t0) - ClocksApart
	if lag == WatchLag {
		// a stamp is rounded down to a whole second, which is as long as this lag
		least += ClocksApart + time.Second
	}
	if least < at {
		return max(e.Stamp.Sub(p.t0)-ClocksApart, model.Unbounded)
	}
	return at
}

// foundByList reports whether an event is what a list found, and no change: it names no state before, or it is about a
// Pod and was seen with the list that found the Pod. Endpoints are listed separately, at about the same time.
func (p *Placer) foundByList(e *timeline.Event) bool {
	switch e.Kind {
	case timeline.NodeReady, timeline.NodeSchedulable, timeline.NodeTaint, timeline.NodeMarked, timeline.ServiceChanged,
		timeline.EvictionRequested:
		return e.From == ""
	case timeline.SnapshotTaken:
		return e.To == timeline.SnapshotFound
	case timeline.EndpointChanged:
		if e.From == "" {
			return true
		}
	}
	for _, found := range p.found[e.Object.UID] {
		switch {
		case e.Kind != timeline.EndpointChanged && e.Seen == found.seen:
			return true
		case e.Kind == timeline.EndpointChanged && e.From == timeline.EndpointAbsent && found.first &&
			(e.Seen-found.seen).Abs() <= WatchLag:
			return true
		}
	}
	return false
}

// WatchedKind returns the kind of object, in lower case, whose watch an event came from.
func WatchedKind(e *timeline.Event) string {
	switch e.Kind {
	case timeline.SnapshotTaken:
		if e.Snapshot != nil && e.Snapshot.Template != nil {
			return "pod"
		}
		return strings.ToLower(e.Object.Kind)
	case timeline.EndpointChanged:
		return "endpointslice"
	case timeline.NodeReady, timeline.NodeSchedulable, timeline.NodeTaint, timeline.NodeMarked, timeline.NodeGone:
		return "node"
	case timeline.ServiceChanged:
		return "service"
	case timeline.KubeEvent:
		return "event"
	case timeline.EvictionRequested:
		return "evictionrequest"
	}
	if aboutPod(e.Kind) {
		return "pod"
	}
	return ""
}

// gapHides reports whether the event came through the watch that had the gap. A gap without a kind is one of all
// watches; without Services, of those for every Service.
func gapHides(gap, e *timeline.Event) bool {
	kind := WatchedKind(e)
	return kind != "" && (gap.Object.Kind == "" || SameKind(gap.Object.Kind, kind)) && mayTell(gap.Services, e)
}

// mayTell reports whether an event may have come through a watch of these Services. An event without a Service came
// through a watch of its namespace.
func mayTell(services []string, e *timeline.Event) bool {
	if e.Service != "" {
		return model.Concerns(services, e.Service)
	}
	in := e.Object.Namespace
	return in == "" || len(services) == 0 || slices.ContainsFunc(services, func(s string) bool {
		return strings.HasPrefix(s, in+"/")
	})
}

// SameKind compares the name of a watched kind as events carry it ("EndpointSlice",
// "endpointslices") with one of [WatchedKind].
func SameKind(name, kind string) bool {
	return strings.TrimSuffix(strings.ToLower(name), "s") == kind
}

// published turns a fact into an event of the timeline, which refers to parts of it.
func published(e *timeline.Event, at model.Instant) model.Event {
	p := model.Event{Event: *e, At: at}
	p.Event.Source, p.Since = 0, 0
	return p
}
