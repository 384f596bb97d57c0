// Package empty explains windows in which a Service had no endpoint to route to.
package empty

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// This file is about a Service that had no endpoint to route to.

// An emptyReason is a rule that knows what can empty a Service. Of several only the first that finds something speaks.
type emptyReason struct {
	Name, Doc string
	Needs     []rule.Need
	Reasons   []string

	// reports whether that emptied the Service, and notes what shows it
	finds     func(*emptiness) bool
	says      func(*emptiness) rule.Finding                  // called only if it did
	otherwise func(c *rule.Case, whyNot string) rule.Finding // called if it did not; nil: then the rule does not apply
}

// An emptiness is a window in which a Service had no endpoint to route to, and what emptied it.
type emptiness struct {
	view    *evidence.Evidence
	window  *model.Window
	span    *evidence.EmptySpan
	from    time.Duration // Pods that left before were made good, or left long before
	leavers []leaver      // the Pods whose endpoints had been ready before, the first to leave first
	rule    string        // the one that knows what emptied it
	event   *model.Event  // which shows that; nil if a rule does without
	object  string        // what was changed: a workload, KIND/NAME
	lastFor string        // in brackets, why the last Pod left; "" where that is not said
}

// clock writes an instant of the run as the time of day.
func (e *emptiness) clock(at time.Duration) string { return quantity.Clock(e.view.Run, at) }

// A leaver is a Pod whose endpoint was ready, and was not any more when the Service was empty.
type leaver struct {
	*model.Pod
	left model.Instant // the last time before that
}

// wasDeleted reports whether the Pod's deletion can have made its endpoint leave: a later one was a reaction.
func (p *leaver) wasDeleted() bool { return p.Deleted != nil && p.Deleted.Earliest <= p.left.Latest }

// wasTaken reports whether the Pod's deletion can have made its endpoint leave, or its kubelet ended it.
func (e *emptiness) wasTaken(p leaver) bool { return p.wasDeleted() || e.endedByKubelet(p) }

// endedByKubelet reports whether the Pod's kubelet ended it for reasons of its own before an endpoint was ready again.
// That may be known only after its endpoint left.
func (e *emptiness) endedByKubelet(p leaver) bool {
	if p.Ending == nil || p.Ending.By != model.ByKubelet {
		return false
	}
	ev := e.view.Changes.Event(p.Ending.Event)
	return ev != nil && ev.At.Earliest <= e.span.End.Latest
}

// emptying is how long before a Service was empty the Pods that left count.
const emptying = 30 * time.Second

// findLeavers finds the Pods whose endpoints were ready shortly before.
func (e *emptiness) findLeavers() {
	svc := e.view.Services.Service(e.window)
	left, from := map[string]model.Instant{}, e.span.Start.Latest-emptying
	from = max(from, svc.LastReady(e.span.Start.Latest, e.wanted)+1)
	for _, before := range e.view.Services.EmptySpans(e.window) {
		if before.Start.Latest < e.span.Start.Latest {
			from = max(from, before.Start.Latest+1) // those that had left by then were made good
		}
	}
	e.from = from
	for _, ev := range svc.Endpoints {
		if cluster.IsReady(ev.From) && !cluster.IsReady(ev.To) && from <= ev.At.Latest &&
			ev.At.Latest <= e.span.Start.Latest {
			left[ev.Object.UID] = ev.At
		}
	}
	for _, p := range e.view.Services.Pods(e.window) {
		if at, of := left[p.UID]; of {
			e.leavers = append(e.leavers, leaver{p, at})
		}
	}
	slices.SortStableFunc(e.leavers, func(a, b leaver) int { return cmp.Compare(a.left.Latest, b.left.Latest) })
}

// wanted returns how many Pods the Service's workloads were to have at an instant; 0 if that is not known.
func (e *emptiness) wanted(at time.Duration) (n int) {
	states, counted := e.view.Changes.States, map[string]bool{}
	for _, p := range e.view.Services.Pods(e.window) {
		top := states.Top(p)
		if counted[p.Namespace+"/"+top] {
			continue
		}
		counted[p.Namespace+"/"+top] = true
		is := states.At(p.Namespace, top, at)
		if is == nil {
			return 0
		}
		n += is.Replicas
	}
	return n
}

// apart returns how far apart the first and the last of them left.
func (e *emptiness) apart() model.Length {
	return evidence.Length(e.leavers[0].left, e.leavers[len(e.leavers)-1].left)
}

// aboutStart returns when a change can have emptied the Service: its bracket, and a controller's time to follow before
// it.
func (e *emptiness) aboutStart(controller time.Duration) model.Instant {
	return model.Instant{Earliest: e.span.Start.Earliest - controller, Latest: e.span.Start.Latest}
}

// followed is how long controllers may take to follow a change.
const followed = 5 * time.Second

// lastOfAll returns the Pod whose endpoint left last, among those that left.
func (e *emptiness) lastOfAll() (leaver, bool) {
	for _, p := range e.leavers {
		if p.UID == e.span.Last.Object.UID {
			return p, true
		}
	}
	return leaver{}, false
}

// lastLeaver returns the Pod whose endpoint left last, nil if it was not seen.
func (e *emptiness) lastLeaver() *model.Pod { return e.podOf(e.span.Last) }

// nextPod returns the Pod whose endpoint ended the emptiness, nil if none did.
func (e *emptiness) nextPod() *model.Pod { return e.podOf(e.span.Next) }

// podOf returns the Pod of an endpoint that changed, nil if none did or the Pod was not seen.
func (e *emptiness) podOf(endpoint *model.Event) *model.Pod {
	for _, p := range e.view.Services.Pods(e.window) {
		if endpoint != nil && p.UID == endpoint.Object.UID {
			return p
		}
	}
	return nil
}

// madeNext returns the Pod whose endpoint ended the emptiness; where none did, the first that the workload of the last
// Pod made after that one's deletion; nil if none was seen.
func (e *emptiness) madeNext() *model.Pod {
	last, next := e.lastLeaver(), e.nextPod()
	if e.span.Next != nil || last == nil || last.Deleted == nil {
		return next
	}
	for _, p := range e.view.Services.Pods(e.window) {
		if p.UID != last.UID && p.Created != nil && p.Created.Latest >= last.Deleted.Earliest &&
			e.view.Changes.States.Top(p) == e.view.Changes.States.Top(last) &&
			(next == nil || p.Created.Latest < next.Created.Latest) {
			next = p
		}
	}
	return next
}

// wentOnAnswering reports whether the Pod's own address answered at least half of what it was sent after its endpoint
// had left and while there was none, good or bad.
func (e *emptiness) wentOnAnswering(p leaver) bool {
	probe := e.view.Addresses.Probe(e.window, p.Pod)
	if probe.Target == "" || p.TerminatingBy(e.span.Start.Latest) ||
		e.view.Changes.EndedItself(p.Pod, model.Instant{Earliest: p.left.Earliest - followed,
			Latest: e.span.End.Latest}) != nil {
		return false
	}
	answered, sent := e.view.Answered(e.view.Traffic.TargetNamed(probe.Target).ID, p.left.Latest, e.span.End.Earliest)
	return answered >= 3 && 2*answered >= sent
}

// leaver returns the Pod that left with this UID, nil if there is none.
func (e *emptiness) leaver(uid string) *model.Pod {
	for _, p := range e.leavers {
		if p.UID == uid {
			return p.Pod
		}
	}
	return nil
}

// readyBefore returns how many endpoints were ready at most while the Service was being emptied.
func (e *emptiness) readyBefore() int {
	return e.view.Services.Service(e.window).MostReady(e.from, e.span.Start.Latest)
}

// names returns the names of the Pods that left.
func (e *emptiness) names() []string {
	var names []string
	for _, p := range e.leavers {
		names = append(names, p.Name)
	}
	return names
}
