package empty

import (
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about nodes that stopped reporting.

// nodesPresumedDead reports whether the nodes of all Pods that left had been found to report no more, none of the Pods
// being deleted or ended by its kubelet: a node that shuts down is not ready, too.
func nodesPresumedDead(e *emptiness) bool {
	for _, p := range e.leavers {
		ev := e.nodeLost(p)
		if ev == nil || p.TerminatingBy(e.span.Start.Earliest) || e.endedByKubelet(p) {
			return false
		}
		e.event, e.object = ev, "Node/"+p.Node
	}
	return len(e.leavers) > 0
}

// nodeLost returns the event by which a Pod's node was found not ready, if the Pod can have left for that; else nil.
// The node controller sets the Pods of a node not ready one after the other, and tries again after 5 s where it could
// not. It stops when the kubelet reports again. A Pod that was ready again left for something else.
func (e *emptiness) nodeLost(p leaver) (lost *model.Event) {
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		ofNode := ev.Kind == timeline.NodeReady && ev.Object.Name == p.Node
		ready := ev.Kind == timeline.PodReady && ev.Object.UID == p.UID && ev.To == "true"
		switch {
		case ev.At.Latest < p.left.Earliest-emptying || ev.At.Earliest > p.left.Latest:
		case ofNode && ev.From == "true" && ev.To != "true":
			lost = ev
		case ofNode && ev.At.Latest < p.left.Earliest-followed, ready && ev.At.Latest < p.left.Earliest:
			lost = nil
		}
	}
	return lost
}

// nodesDied reports whether the nodes of all Pods that left were found to report no more, and these Pods did not
// answer at their own addresses either: then the Service was lost with the nodes, long before its endpoints left.
func nodesDied(e *emptiness) bool {
	if !nodesPresumedDead(e) {
		return false
	}
	for _, p := range e.leavers {
		if e.view.Addresses.DirectName(e.window, p.Pod) == "" || e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}
