package empty

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
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

// probeTimedOut reports whether a probe was not answered in time, by its kubelet's words.
func probeTimedOut(e *model.Event) bool {
	return strings.Contains(e.Detail, "deadline exceeded") || strings.Contains(e.Detail, "Client.Timeout") ||
		strings.Contains(e.Detail, "timed out")
}

// sayWhyLast notes why the last Pod left, where several did.
func (e *emptiness) sayWhyLast() {
	if last, known := e.lastOfAll(); known && len(e.leavers) > 1 && len(e.gaps()) == 1 {
		e.lastFor = " (" + leftFor(e, last) + ")"
	}
}

// eachLeft says when and why each of these Pods left, and which Pods had been made and were not ready. Each is named
// once in a text.
func eachLeft(e *emptiness, left []leaver) string {
	if len(e.leavers) < 2 {
		return ""
	}
	var each []string
	for _, p := range left[:min(len(left), rule.MostNamed)] {
		if p.UID != e.span.Last.Object.UID || e.lastFor == "" {
			each = append(each, fmt.Sprintf("%s had left by %s (%s)", p.Name, e.clock(p.left.Latest), leftFor(e, p)))
		}
	}
	next := e.nextPod()
	for _, p := range missing(e) {
		if next != nil && p.UID == next.UID && len(e.gaps()) == 1 {
			continue
		}
		text := p.Name + " was not ready"
		if p.Created != nil {
			text = fmt.Sprintf("%s, created by %s, was not ready", p.Name, e.clock(p.Created.Latest))
		}
		each = append(each, text)
	}
	if len(each) == 0 {
		return ""
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
func tooLittle(e *emptiness) (away, timeouts []leaver, from time.Duration, is bool) {
	first := model.Never
	for _, p := range e.leavers {
		ended := p.wasDeleted() || e.endedAsItLeft(p) != nil
		if failed := e.probeFailure(p); !ended && failed != nil && probeTimedOut(failed) {
			timeouts, first = append(timeouts, p), min(first, p.left.Earliest)
		}
	}
	for _, p := range e.leavers {
		if p.wasDeleted() && p.Deleted.Earliest < first || e.endedAsItLeft(p) != nil && p.left.Earliest < first {
			away = append(away, p)
		}
	}
	late := slices.IndexFunc(e.view.Run.Windows, func(w model.Window) bool {
		return w.Kind == model.Slow && w.Target == e.window.Target && w.Start.Latest < first
	})
	if len(away) == 0 || len(timeouts) < 2 || late < 0 {
		return nil, nil, 0, false
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
	var names []string
	for _, p := range timeouts {
		names = append(names, p.Name)
	}
	f := e.finding(fmt.Sprintf("too little capacity: with %d of %d replicas away requests were answered late from %s "+
		"on, and then the readiness probes of %s timed out; ", len(away), n, e.clock(from), quantity.Names(names)),
		fmt.Sprintf("keep the capacity: maxUnavailable 0 and maxSurge 1 or more, or more replicas than the load "+
			"needs (with %d of %d away it was too little); give the readiness probe a longer timeout, or a port and a "+
			"thread of its own, so that it does not wait behind requests", len(away), n),
		named(e.unhealthy())...)
	f.Text += eachLeft(e, away)
	return f, true
}

// endedAsItLeft returns the end of a container for which a Pod's endpoint can have left; nil if none ended by itself
// then. An earlier one was made good.
func (e *emptiness) endedAsItLeft(p leaver) *model.Event {
	return e.view.Changes.EndedItself(p.Pod, model.Instant{Earliest: p.left.Earliest - followed, Latest: p.left.Latest})
}
