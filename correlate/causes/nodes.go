package causes

import (
	"cmp"
	"maps"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what several rules ask of nodes: which could be reached, and what Kubernetes found of them.

// unreachableNodes are the nodes of which all ready Pods turned unreachable at their own addresses at once during the
// window, with these, and the nodes of which at least one went on answering then.
func (v *index) unreachableNodes(w *model.Window) (unreachable map[string][]suspect, answering map[string]bool) {
	unreachable, answering = map[string][]suspect{}, map[string]bool{}
	if some(w.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.DNS, timeline.NoSlot) == 0 {
		return unreachable, answering
	}
	lost := v.suspectsThat(w, func(s suspect) bool { return !answersBadly(s.outage) && v.silent(w, &s) })
	if len(lost) == 0 {
		return unreachable, answering
	}
	first := slices.MinFunc(lost, func(a, b suspect) int { return cmp.Compare(a.outage.Start.Earliest, b.outage.Start.Earliest) })
	at := first.outage.Start
	of := map[string]suspect{}
	for _, s := range lost {
		if s.outage.Span().Overlaps(at) {
			of[s.pod.UID] = s
		}
	}
	for _, p := range v.pods(w) {
		probe := v.probe(w, p)
		s, cut := of[p.UID]
		ended := p.TerminatingBy(at.Latest) && (probe.lastOK == nil || *probe.lastOK <= at.Latest)
		if !cut && ended || !p.ReadyBy(at.Latest) || probe.firstOK == nil || *probe.firstOK >= at.Latest {
			continue
		}
		if cut {
			unreachable[p.Node] = append(unreachable[p.Node], s)
		} else if v.outageNear(probe.target, at) == nil {
			answering[p.Node] = true
		}
	}
	maps.DeleteFunc(unreachable, func(node string, _ []suspect) bool { return node == "" || answering[node] })
	return unreachable, answering
}

// nodeNotReady is that the node was found not to be ready after the window had begun, nil if it was not.
func (v *index) nodeNotReady(w *model.Window, node string) *model.Event {
	for _, e := range v.changes {
		if e.Kind == timeline.NodeReady && e.Object != nil && e.Object.Name == node && e.To != "true" && e.At.Latest >= w.Start.Earliest && e.At.Earliest <= w.End.Latest {
			return e
		}
	}
	return nil
}

// nodeLost is the event by which a node was found not ready in a time, nil if there is none.
func (v *index) nodeLost(node string, at model.Instant) *model.Event {
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		if e.Kind == timeline.NodeReady && e.From == "true" && e.To != "true" && e.Object != nil && e.Object.Name == node && e.At.Overlaps(at) {
			return e
		}
	}
	return nil
}
