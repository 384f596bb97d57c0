package empty

import (
	"lapse/correlate/model"
)

// This file is about nodes that stopped reporting.

// nodesPresumedDead reports whether the nodes of all Pods that left had just been found to report no more, none of
// the Pods being deleted.
func nodesPresumedDead(e *emptiness) bool {
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
