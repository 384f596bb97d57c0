package evidence

import (
	"cmp"
	"maps"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about nodes: which could be reached, and what Kubernetes reported of them.

// UnreachableNodes returns the nodes whose ready Pods all became unreachable at their own addresses at once during
// the window, with these Pods, and the nodes where at least one Pod went on answering then.
func (v *Suspects) UnreachableNodes(w *model.Window) (unreachable map[string][]Suspect, answering map[string]bool) {
	unreachable, answering = map[string][]Suspect{}, map[string]bool{}
	if Count(w.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.DNS, timeline.NoSlot) == 0 {
		return unreachable, answering
	}
	lost := v.That(w, func(s Suspect) bool { return !AnswersBadly(s.Outage) && v.silent(w, &s) })
	if len(lost) == 0 {
		return unreachable, answering
	}
	first := slices.MinFunc(lost, func(a, b Suspect) int {
		return cmp.Compare(a.Outage.Start.Earliest, b.Outage.Start.Earliest)
	})
	at := first.Outage.Start
	of := map[string]Suspect{}
	for _, s := range lost {
		if s.Outage.Span().Overlaps(at) {
			of[s.Pod.UID] = s
		}
	}
	for _, p := range v.services.Pods(w) {
		probe := v.addresses.Probe(w, p)
		s, cut := of[p.UID]
		ended := p.TerminatingBy(at.Latest) && (probe.LastOK == nil || *probe.LastOK <= at.Latest)
		if !cut && ended || !p.ReadyBy(at.Latest) || probe.FirstOK == nil || *probe.FirstOK >= at.Latest {
			continue
		}
		if cut {
			unreachable[p.Node] = append(unreachable[p.Node], s)
		} else if v.traffic.OutageNear(probe.Target, at) == nil {
			answering[p.Node] = true
		}
	}
	maps.DeleteFunc(unreachable, func(node string, _ []Suspect) bool { return node == "" || answering[node] })
	return unreachable, answering
}
