package network

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/timeline"
)

// unreachableNodes returns the nodes whose ready Pods all became unreachable at their own addresses at once during
// the window, with these Pods, and the nodes where at least one Pod went on answering then.
func unreachableNodes(v *evidence.Evidence, w *model.Window) (
	unreachable map[string][]evidence.Suspect, answering map[string]bool,
) {
	unreachable, answering = map[string][]evidence.Suspect{}, map[string]bool{}
	if evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.DNS, timeline.NoSlot) == 0 {
		return unreachable, answering
	}
	lost := v.Suspects.That(w, func(s evidence.Suspect) bool {
		return !evidence.AnswersBadly(s.Outage) && silent(v, w, &s)
	})
	if len(lost) == 0 {
		return unreachable, answering
	}
	first := slices.MinFunc(lost, func(a, b evidence.Suspect) int {
		return cmp.Compare(a.Outage.Start.Earliest, b.Outage.Start.Earliest)
	})
	at := first.Outage.Start
	of := map[string]evidence.Suspect{}
	for _, s := range lost {
		if s.Outage.Span().Overlaps(at) {
			of[s.Pod.UID] = s
		}
	}
	for _, p := range v.Services.Pods(w) {
		probe := v.Addresses.Probe(w, p)
		s, cut := of[p.UID]
		ended := p.TerminatingBy(at.Latest) && (probe.LastOK == nil || *probe.LastOK <= at.Latest)
		if !cut && ended || !p.ReadyBy(at.Latest) || probe.FirstOK == nil || *probe.FirstOK >= at.Latest {
			continue
		}
		if cut {
			unreachable[p.Node] = append(unreachable[p.Node], s)
		} else if v.Traffic.OutageNear(probe.Target, at) == nil {
			answering[p.Node] = true
		}
	}
	maps.DeleteFunc(unreachable, func(node string, _ []evidence.Suspect) bool { return node == "" || answering[node] })
	return unreachable, answering
}

// longSilence is how long an address must have been silent within a window that covers only part of its outage.
const longSilence = time.Second

// silent reports whether a suspect's address failed all the time, or all of its outage within the window: a Pod that
// can be reached again may fail again at once, because it ends.
func silent(v *evidence.Evidence, w *model.Window, s *evidence.Suspect) bool {
	from, to := max(s.Outage.Start.Latest, w.Start.Latest), min(s.Outage.End.Earliest, w.End.Earliest)
	if s.Whole() || to-from < longSilence {
		return s.Whole()
	}
	answered, sent := v.Answered(v.Traffic.TargetNamed(s.Target).ID, from, to)
	return sent > 0 && float64(sent-answered) >= evidence.NearlyAll*float64(sent)
}
