package empty

import (
	"fmt"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// replacement-waits: what makes the Pods makes the next one only when the last has gone: a Deployment with the
// strategy Recreate, a StatefulSet of one. Nobody serves until the old Pod has ended and the new one has started.
//
//	old   ready  terminating  gone
//	new                       pending  ready
//	svc   ok ok  x x x x x x  x x x x  ok ok

// Names of measures.
const (
	replacementWait = "replacement-wait" // from an old Pod's deletion until the next one was created
	startTime       = "start-time"       // from a Pod's creation until its endpoint was ready
)

var ReplacementWaits = emptyReason{
	Name:  "replacement-waits",
	Doc:   "The next Pod was made only when the last one had gone: strategy Recreate, or a StatefulSet of one.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.PodsWatched},
	finds: replacementWaited,
	says:  sayReplacementWaits,
}

// replacementWaited reports whether the next Pod was made only after the last one had gone, because of what makes
// them: a Deployment that rolls out with the strategy Recreate, or a StatefulSet of one.
func replacementWaited(e *emptiness) bool {
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

func sayReplacementWaits(e *emptiness) rule.Finding {
	what := cluster.WorkloadWords(e.object)
	why, fix := what+" has the strategy Recreate: it made new Pods only when the old ones had gone, and ",
		"use the strategy RollingUpdate with maxUnavailable 0: "
	if strings.HasPrefix(e.object, "StatefulSet/") {
		why, fix = what+" has 1 replica, and made its next Pod only when the last one had gone: ", "run ≥ 2 replicas: "
	}
	f := e.finding(why, fix+"nothing served for up to "+e.lasted(),
		e.sign(strings.TrimRight(strings.TrimSuffix(why, ", and "), ": ")))
	old, next := e.lastLeaver(), e.madeNext()
	if next == nil || next.Created == nil {
		f.Lack(evidence.Close.Doubt("when the next Pod was made was not seen"))
		return f
	}
	waited := evidence.Length(*old.Deleted, *next.Created)
	f.Measures = append(f.Measures, model.Measure{Name: replacementWait, Object: old.Name, Length: waited})
	// from its deletion on: it may have served meanwhile
	f.Fix += fmt.Sprintf("; %s took up to %s to end", old.Name, quantity.Span(waited.Max))
	switch {
	case e.span.Next == nil:
		f.Fix += fmt.Sprintf("; %s did not become ready before the run ended", next.Name)
		f.Lack(evidence.Measured.Doubt("why " + next.Name + " did not become ready is not known"))
	case next.EndpointReady != nil:
		start := evidence.Length(*next.Created, *next.EndpointReady)
		f.Measures = append(f.Measures, model.Measure{Name: startTime, Object: next.Name, Length: start})
		f.Fix += fmt.Sprintf(", and %s up to %s to start", next.Name, quantity.Span(start.Max))
	}
	switch ended := goneBy(e, old); {
	case ended == nil:
		f.Lack(evidence.Close.Doubt("when " + old.Name + " had gone was not seen"))
	case next.Created.Latest < ended.Earliest:
		f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("%s was created before %s had gone", next.Name, old.Name)))
	default:
		f.For = append(f.For, evidence.Context.Event(e.view.Changes.IDOf(next, timeline.PodSeen, next.Created),
			next.Created, next.Name+" was created"))
	}
	f.For = append(f.For, e.all())
	return f
}

// goneBy returns when nothing of a Pod was left: its containers had ended, or it was gone; nil if that was not seen.
func goneBy(e *emptiness, p *model.Pod) *model.Instant {
	if p.Exited != nil {
		return p.Exited
	}
	return p.Gone
}
