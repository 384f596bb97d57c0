package empty

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/timeline"
)

// no-ready-endpoint, of several Pods that left for different reasons: each has its own, and so has who did not come.

// leftFor says why a Pod's endpoint left: it was ended, a container of it ended, its readiness probe failed.
func leftFor(e *emptiness, p leaver) string {
	switch ended := e.endedAsItLeft(p); {
	case p.wasDeleted() && p.Ending != nil && p.Ending.By != model.ByItself:
		return p.Ending.Text
	case p.wasDeleted():
		return "deleted"
	case ended != nil:
		return "a container ended by itself"
	}
	switch failed := e.probeFailure(p); {
	case failed == nil:
		return "turned not ready"
	case probeTimedOut(failed):
		return "its readiness probe timed out"
	}
	return "its readiness probe failed"
}

// probeFailure returns the Event of a leaver's last readiness probe that failed before its endpoint left, nil if there
// is none.
func (e *emptiness) probeFailure(p leaver) (last *model.Event) {
	for _, ev := range e.view.Changes.About[p.UID] {
		if ev.Kind == timeline.KubeEvent && ev.To == "Unhealthy" && strings.HasPrefix(ev.Detail, "Readiness probe") &&
			ev.At.Earliest <= p.left.Latest && ev.At.Latest >= p.left.Earliest-emptying {
			last = ev
		}
	}
	return last
}

// probeTimedOut reports whether a probe was not answered in time, by its kubelet's words.
func probeTimedOut(e *model.Event) bool {
	return strings.Contains(e.Detail, "deadline exceeded") || strings.Contains(e.Detail, "Client.Timeout") ||
		strings.Contains(e.Detail, "timed out")
}

// eachLeft says when and why each Pod left, and which Pods had been made and were not ready.
func eachLeft(e *emptiness) string {
	if len(e.leavers) < 2 {
		return ""
	}
	var each []string
	for _, p := range e.leavers[:min(len(e.leavers), rule.MostNamed)] {
		each = append(each, fmt.Sprintf("%s left at %s (%s)", p.Name, e.clock(p.left.Latest), leftFor(e, p)))
	}
	for _, p := range missing(e) {
		text := p.Name + " was not ready"
		if p.Created != nil {
			text = fmt.Sprintf("%s, created at %s, was not ready", p.Name, e.clock(p.Created.Latest))
		}
		if p.Template != e.leavers[0].Template {
			text += ", and is of another revision"
		}
		each = append(each, text)
	}
	return "; " + strings.Join(each, ", ")
}

// missing returns the Pods that were there when the Service was emptied, and were not ready before.
func missing(e *emptiness) (pods []*model.Pod) {
	for _, p := range e.view.Services.Pods(e.window) {
		there := p.Created == nil || p.Created.Latest <= e.span.Start.Latest
		never := p.EndpointReady == nil || p.EndpointReady.Earliest >= e.span.Start.Earliest
		if there && never && !p.TerminatingBy(e.span.Start.Latest) && e.leaver(p.UID) == nil &&
			len(pods) < rule.MostNamed {
			pods = append(pods, p)
		}
	}
	return pods
}

// tooLittle reports whether capacity was missing: Pods had been taken away, requests were answered late, and then the
// readiness probes of two others or more timed out. From says since when requests were late.
func tooLittle(e *emptiness) (away, timeouts int, from time.Duration, is bool) {
	first := model.Never
	for _, p := range e.leavers {
		ended := p.wasDeleted() || e.endedAsItLeft(p) != nil
		if failed := e.probeFailure(p); !ended && failed != nil && probeTimedOut(failed) {
			timeouts, first = timeouts+1, min(first, p.left.Earliest)
		}
	}
	for _, p := range e.leavers {
		if p.wasDeleted() && p.Deleted.Earliest < first || e.endedAsItLeft(p) != nil && p.left.Earliest < first {
			away++
		}
	}
	late := slices.IndexFunc(e.view.Run.Windows, func(w model.Window) bool {
		return w.Kind == model.Slow && w.Target == e.window.Target && w.Start.Latest < first
	})
	if away == 0 || timeouts < 2 || late < 0 {
		return 0, 0, 0, false
	}
	return away, timeouts, e.view.Run.Windows[late].Start.Latest, true
}

// overloaded: a part of the Pods was taken away, and the others could not bear the load.
func overloaded(e *emptiness) (rule.Finding, bool) {
	away, timeouts, from, is := tooLittle(e)
	if !is {
		return rule.Finding{}, false
	}
	n := len(e.leavers)
	return e.finding(fmt.Sprintf("with %d of %d replicas away requests were answered late from %s on, then the "+
		"readiness probes of %d others timed out: too little capacity was left, and ", away, n, e.clock(from),
		timeouts),
		fmt.Sprintf("keep the capacity: maxUnavailable 0 and maxSurge 1 or more, or more replicas than the load "+
			"needs (with %d of %d away it was too little); a readiness probe that waits behind requests needs a "+
			"longer timeout, or a way of its own", away, n),
		e.unhealthy()...), true
}

// endedAsItLeft returns the end of a container for which a Pod's endpoint can have left; nil if none ended by itself
// then. An earlier one was made good.
func (e *emptiness) endedAsItLeft(p leaver) *model.Event {
	return e.view.Changes.EndedItself(p.Pod, model.Instant{Earliest: p.left.Earliest - followed, Latest: p.left.Latest})
}
