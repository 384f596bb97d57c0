package causes

import (
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file finds which rule knows what emptied a Service.

// findRule finds the reason, the most telling fact first.
func (e *emptiness) findRule() {
	for _, reason := range []struct {
		rule string
		find func(*emptiness) bool
	}{
		{"selector-switch", (*emptiness).selectorChanged},
		{"no-ready-endpoint", (*emptiness).scaledToZero},
		{"admission-blocked", (*emptiness).creationFailed},
		{"replacement-waits", (*emptiness).replacementWaited},
		{"node-unreachable", (*emptiness).nodesDied},
		{"node-presumed-dead", (*emptiness).nodesPresumedDead},
		{"shared-readiness", (*emptiness).readinessLost},
	} {
		e.event, e.object = nil, ""
		if reason.find(e) {
			e.rule = reason.rule
			return
		}
	}
	e.rule, e.event, e.object = "no-ready-endpoint", nil, ""
}

// selectorChanged reports whether the Service's selector was changed, and the last endpoint left though its Pod was
// not ending.
func (e *emptiness) selectorChanged() bool {
	service := e.view.Traffic.Target(e.window).Service
	for _, ev := range e.view.Services.Edits {
		if !strings.HasPrefix(ev.Detail, evidence.SelectorEdited) {
			continue
		}
		if service != "" && ev.Object.Namespace+"/"+ev.Object.Name != service ||
			!ev.At.Overlaps(e.aboutStart(followed)) {
			continue
		}
		if last := e.lastLeaver(); last != nil && e.span.Last.To == timeline.EndpointAbsent &&
			!last.TerminatingBy(e.span.Start.Earliest) {
			e.event, e.object = ev, ev.Object.Kind+"/"+ev.Object.Name
			return true
		}
	}
	return false
}

// scaledToZero reports whether the workload of all Pods that left was scaled to 0, or deleted, before the last did.
func (e *emptiness) scaledToZero() bool {
	for _, p := range e.leavers {
		if !p.wasDeleted() || e.view.Changes.States.Top(p.Pod) != e.view.Changes.States.Top(e.leavers[0].Pod) {
			return false
		}
	}
	last := e.lastLeaver()
	if last == nil {
		return false
	}
	e.object = e.view.Changes.States.Top(last)
	for _, ev := range e.view.Changes.States.Of(last.Namespace, e.object) {
		if ev.At.Earliest > e.span.Start.Latest {
			break
		}
		if e.event = nil; ev.To == timeline.SnapshotDeleted || ev.To != timeline.SnapshotFound &&
			ev.Snapshot.Workload.Replicas == 0 {
			e.event = ev
		}
	}
	return e.event != nil
}

// creationFailed reports whether the controller of the Pods that left could create no others.
func (e *emptiness) creationFailed() bool {
	last, next := e.lastLeaver(), e.nextPod()
	if last == nil || last.Deleted == nil || !last.TerminatingBy(e.span.Start.Latest) {
		return false
	}
	if next != nil && next.Created != nil &&
		2*(next.Created.Latest-e.span.Start.Earliest) < e.span.End.Earliest-e.span.Start.Latest {
		return false // most of the time it was there, and was starting
	}
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind != timeline.KubeEvent || ev.To != "FailedCreate" || ev.Object == nil ||
			ev.Object.Namespace != last.Namespace || !ev.At.Overlaps(e.span.Whole()) {
			continue
		}
		key := ev.Object.Kind + "/" + ev.Object.Name
		if key != last.Owner && next != nil && next.Owner == last.Owner {
			continue // of another version: this one's next Pod was made
		}
		if key == last.Owner ||
			e.view.Changes.States.Top(&model.Pod{Namespace: last.Namespace, Owner: key}) == e.view.Changes.States.Top(
				last) {
			e.event, e.object = ev, key
			return true
		}
	}
	return false
}

// replacementWaited reports whether the next Pod was made only after the last one had gone, because of what makes
// them: a Deployment that rolls out with the strategy Recreate, or a StatefulSet of one.
func (e *emptiness) replacementWaited() bool {
	last, next := e.lastLeaver(), e.madeNext()
	if last == nil || last.Deleted == nil || !last.TerminatingBy(e.span.Start.Latest) {
		return false
	}
	e.object = e.view.Changes.States.Top(last)
	w := e.view.Changes.States.At(last.Namespace, e.object, e.span.Start.Latest)
	if w == nil || next != nil && e.view.Changes.States.Top(next) != e.object {
		return false
	}
	events := e.view.Changes.States.Of(last.Namespace, e.object)
	e.event = events[0]
	switch {
	case strings.HasPrefix(e.object, "StatefulSet/"):
		return w.Replicas == 1
	case w.Strategy != "Recreate":
		return false
	}
	for _, ev := range events {
		if ev.To == timeline.SnapshotChanged && ev.At.Earliest <= last.Deleted.Latest {
			e.event = ev
		}
	}
	return next != nil && next.Template != last.Template && next.Owner != last.Owner
}

// readinessLost reports whether several Pods turned not ready together, none of them ending, and went on answering at
// their own addresses.
func (e *emptiness) readinessLost() bool {
	if len(e.leavers) < 2 || e.apart().Min > readinessSpread(e) {
		return false
	}
	for _, p := range e.leavers {
		if p.NotReady == nil || !e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}

// readinessSpread returns how far apart Pods turn not ready whose probes share what they ask: two rounds of the probe,
// 20 s if it is not known.
func readinessSpread(e *emptiness) time.Duration {
	if p := e.view.Templates.ReadinessOf(e.leavers[0].Pod); p != nil {
		return time.Duration(p.Threshold+1) * p.Period
	}
	return 20 * time.Second
}

// nodesPresumedDead reports whether the nodes of all Pods that left had just been found to report no more, none of
// the Pods being deleted.
func (e *emptiness) nodesPresumedDead() bool {
	for _, p := range e.leavers {
		ev := e.view.Changes.NodeLost(p.Node, model.Instant{Earliest: p.left.Earliest - followed,
			Latest: p.left.Latest})
		if ev == nil || p.TerminatingBy(e.span.Start.Earliest) {
			return false
		}
		e.event, e.object = ev, "Node/"+p.Node
	}
	return len(e.leavers) > 0
}

// nodesDied reports whether the nodes of all Pods that left were found to report no more, and these Pods did not
// answer at their own addresses either: then the Service was lost with the nodes, long before its endpoints left.
func (e *emptiness) nodesDied() bool {
	if !e.nodesPresumedDead() {
		return false
	}
	for _, p := range e.leavers {
		if e.view.Addresses.DirectName(e.window, p.Pod) == "" || e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}
