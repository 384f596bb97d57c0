package empty

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what all rules say of a Service that had no endpoint to route to, whatever emptied it.

// finding returns what all these rules say: that the Service had no endpoint, and what showed it. Text begins with why.
func (e *emptiness) finding(why, fix string, deciding ...evidence.Sign) rule.Finding {
	v, w := e.view, e.window
	f := rule.Finding{For: append(deciding, emptySigns(v, w, e.span)...), Text: why + e.text(), Fix: fix}
	if refused, timedOut, ok := firstRefused(v, w); ok {
		f.For = append(f.For,
			evidence.Watched.Target(w.Target, nil,
				fmt.Sprintf("%d refused first, then %d timed out: kube-proxy rejects connections without an endpoint, "+
					"and Linux limits the rate of rejections", refused, timedOut)))
	}
	if name := unansweredThroughout(v, w, e.span); name != "" {
		f.For = append(f.For, evidence.Measured.Target(name, nil, "no Pod answered at its own address meanwhile"))
	}
	if v.Watches.GapNear("endpointslice", w) {
		f.Oppose(evidence.Close.Doubt("the watch of EndpointSlices had a gap: an endpoint may have been ready unseen"))
	}
	f.ExplainsAtMost(w, e.explains())
	return f
}

// explains returns how many of the window's failures the emptiness can have made: those that were sent before an
// endpoint was ready again and its node had time to route to it. A load balancer or DNS may need more time, and so may
// clients of a Service that was made anew.
func (e *emptiness) explains() int {
	v, w, last := e.view, e.window, e.span
	for _, gap := range e.gaps() {
		last = &gap
	}
	routed := last.End.Latest + evidence.TooLate
	if v.Services.Deleted(w) != nil || v.Services.RouterNode(w) == "" && !e.silentUntil(last.Next, routed) {
		return w.Failed
	}
	later := 0
	for _, f := range v.Traffic.Failures(w) {
		if f.Earliest() > routed {
			later++
		}
	}
	// what the cap of the list left out; answers with errors count as answers there
	answered, sent := v.Answered(v.Traffic.Target(w).ID, routed, w.End.Latest)
	return w.Failed - max(later, sent-answered)
}

// silentUntil reports whether the Pod of an endpoint was asked at its own address, and did not answer well before an
// instant.
func (e *emptiness) silentUntil(endpoint *model.Event, at time.Duration) bool {
	p := e.podOf(endpoint)
	if p == nil {
		return false
	}
	probe := e.view.Addresses.Probe(e.window, p)
	return probe.Target != "" && (probe.FirstOK == nil || *probe.FirstOK > at)
}

// text says that the Service had no endpoint, and how long nothing answered. The traffic measures that better than the
// watch.
func (e *emptiness) text() string {
	v, w, span := e.view, e.window, e.span
	text := cmp.Or(v.Traffic.Target(w).Service, "the Service") + " had no serving endpoint"
	after := fmt.Sprintf(" after %s left%s", span.Last.Object.Name, e.lastFor)
	if span.Refused {
		after = fmt.Sprintf(" after %s stopped%s, though its EndpointSlice still said that it served",
			span.Last.Object.Name, e.lastFor)
	}
	switch gaps := e.gaps(); {
	case len(gaps) > 1: // then who failed to route to the first that was ready is not known
		return text + fmt.Sprintf(" %d times: %s", len(gaps), e.times(gaps)) +
			nothingAnswered(w, v.Traffic.Target(w).Kind)
	case span.Next == nil:
		text += after + ", and none became ready before the run ended"
	default:
		text += after + fmt.Sprintf(", until %s became ready", span.Next.Object.Name)
	}
	return text + nothingAnswered(w, v.Traffic.Target(w).Kind) + e.routedLate()
}

// gaps returns when the Service had no endpoint during the window, from the span on that emptied it.
func (e *emptiness) gaps() (gaps []evidence.EmptySpan) {
	for _, span := range e.view.Services.EmptySpans(e.window) {
		if span.Start.Earliest >= e.span.Start.Earliest && span.Start.Latest < e.window.End.Earliest {
			gaps = append(gaps, span)
		}
	}
	return gaps
}

// mostGaps is how many times without an endpoint are said one by one.
const mostGaps = 4

// times says when there surely was no endpoint.
func (e *emptiness) times(gaps []evidence.EmptySpan) string {
	texts := make([]string, 0, len(gaps))
	for _, gap := range gaps[:min(len(gaps), mostGaps)] {
		if gap.Next == nil {
			texts = append(texts, "from "+e.clock(gap.Start.Latest)+" on")
			continue
		}
		texts = append(texts, e.clock(gap.Start.Latest)+" to "+e.clock(gap.End.Earliest))
	}
	if more := len(gaps) - mostGaps; more > 0 {
		texts = append(texts, fmt.Sprintf("%d more", more))
	}
	return strings.Join(texts, ", ")
}

// nothingAnswered says for how long no request of the window's kind was answered.
func nothingAnswered(w *model.Window, of timeline.TargetKind) string {
	length, what := w.Blackout, "; no request was answered for "
	if w.Kind == model.Outage {
		length = &w.Length
	}
	if of == timeline.New {
		what = "; no new connection was answered for "
	}
	switch {
	case length == nil, length.Min == 0 && w.Open != model.Open{}:
		return ""
	case w.Open != model.Open{}:
		return what + "≥ " + quantity.Lowest(length.Min)
	}
	return what + quantity.Length(*length, false)
}

// routedLate says that requests failed for long though an endpoint was ready again and its Pod answered at its own
// address.
func (e *emptiness) routedLate() string {
	v, w, next := e.view, e.window, e.nextPod()
	// a recreated Service may have another address
	if next == nil || w.Kind != model.Outage || v.Services.Deleted(w) != nil {
		return ""
	}
	first := v.Addresses.Probe(w, next).FirstOK
	if first == nil {
		return ""
	}
	late := w.End.Earliest - max(e.span.End.Latest, *first)
	if late < evidence.Moment {
		return ""
	}
	return fmt.Sprintf(", and %s did not route to %s until ≥ %s after that", v.Services.Router(w), next.Name,
		quantity.Lowest(late))
}

// lasted returns how long nothing served, in the words of a fix.
func (e *emptiness) lasted() string { return quantity.Span(quantity.RoundUp(e.window.Length.Max)) }

// emptySigns returns what happened, in order. The last endpoint's leaving decides.
func emptySigns(v *evidence.Evidence, w *model.Window, empty *evidence.EmptySpan) []evidence.Sign {
	did := evidence.Turned(empty.Last.To)
	if empty.Refused {
		did = "refused connections while it was terminating and serving"
	}
	signs := []evidence.Sign{evidence.Watched.Event(empty.Last.ID, &empty.Start,
		fmt.Sprintf("%s, the last endpoint, %s", empty.Last.Object.Name, did))}
	for _, p := range v.Services.Pods(w) {
		if probe := v.Addresses.Probe(w, p); p.UID == empty.Last.Object.UID && probe.Stopped != nil {
			signs = append(signs, evidence.Context.Target(probe.Target, probe.Stopped,
				p.Name+" stopped answering new clients"))
		}
	}
	signs = append(signs, evidence.Context.Target(w.Target, &w.Start, fmt.Sprintf("%d of %d requests failed: %s",
		w.Failed, w.Sent, quantity.ClassCounts(w.Classes))))
	if empty.Next != nil {
		signs = append(signs, evidence.Context.Event(empty.Next.ID, &empty.End, empty.Next.Object.Name+
			" became ready"))
	}
	return signs
}

// firstRefused recognises refusals followed by connect timeouts.
func firstRefused(v *evidence.Evidence, w *model.Window) (refused, timedOut int, ok bool) {
	var lastRefused, lastTimeout time.Duration
	firstTimeout := model.Never
	for _, f := range v.Run.Failures {
		if f.Target != w.Target || f.Earliest() < w.Start.Earliest || f.Earliest() > w.End.Earliest {
			continue
		}
		switch f.Class {
		case timeline.Refused, timeline.Unreachable:
			refused++
			lastRefused = f.Sent
		case timeline.TimeoutConnect:
			timedOut++
			firstTimeout = min(firstTimeout, f.Sent)
			lastTimeout = f.Sent
		}
	}
	return refused, timedOut, refused > 0 && timedOut > refused && lastTimeout > lastRefused &&
		firstTimeout > w.Start.Earliest
}

// unansweredThroughout names a direct target that had answered before and, as every other, did not while there was no
// endpoint: for as long as that is certain, or, if no time is, between the brackets of its start and its end. It
// returns "" if one did, or none was probed.
func unansweredThroughout(v *evidence.Evidence, w *model.Window, empty *evidence.EmptySpan) string {
	from, to := empty.Start.Latest, empty.End.Earliest
	if empty.Next == nil {
		to = empty.End.Latest
	}
	from, to = min(from, to), max(from, to)
	name := ""
	for _, p := range v.Services.Pods(w) {
		switch probe := v.Addresses.Probe(w, p); {
		case probe.FirstOK == nil || *probe.FirstOK >= to:
		case *probe.LastOK < from:
			name = probe.Target
		default:
			return ""
		}
	}
	return name
}

// sign returns the event that shows what emptied the Service.
func (e *emptiness) sign(text string) evidence.Sign {
	return evidence.Watched.Seen(e.event, text)
}

// all returns the sign that no request was answered, as without endpoints.
func (e *emptiness) all() evidence.Sign {
	return evidence.Watched.Target(e.window.Target, &e.window.Start, "from then on no request was answered")
}

// unhealthy returns the Events of the failed readiness probes for which Pods can have left, one for each.
func (e *emptiness) unhealthy() (signs []evidence.Sign) {
	for _, p := range e.leavers {
		if ev := e.probeFailure(p); ev != nil {
			signs = append(signs, evidence.Watched.Seen(ev, p.Name+": "+ev.Detail))
		}
	}
	return signs
}

// probeFailure returns the Event of a leaver's last readiness probe that surely failed since the Pod was ready, and no
// later than its endpoint left, as far as two watches tell; nil if there is none.
func (e *emptiness) probeFailure(p leaver) (last *model.Event) {
	since := p.left.Earliest - emptying
	for _, ev := range e.view.Changes.About[p.UID] {
		switch {
		case ev.At.Latest > p.left.Latest+cluster.WatchLag:
		case ev.Kind == timeline.PodReady && ev.To == "true" && ev.At.Latest <= p.left.Latest:
			since, last = max(since, ev.At.Latest), nil
		case ev.Kind == timeline.KubeEvent && ev.To == "Unhealthy" && strings.HasPrefix(ev.Detail, "Readiness probe") &&
			ev.At.Earliest >= since && (last == nil || ev.At.Latest <= p.left.Latest):
			last = ev
		}
	}
	return last
}

// named returns as many signs of Pods as a finding has.
func named(signs []evidence.Sign) []evidence.Sign { return signs[:min(len(signs), rule.MostNamed)] }

// answeredBadly returns the doubt that the Pods with failed probes did not serve: then the probes were right.
func (e *emptiness) answeredBadly() []evidence.Sign {
	for _, p := range e.leavers {
		name := e.view.Addresses.DirectName(e.window, p.Pod)
		bad := e.view.Traffic.OutageNear(name, model.Instant{Earliest: p.left.Latest, Latest: e.span.End.Earliest})
		if bad == nil || 2*evidence.Count(bad.Classes, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body,
			timeline.TLS) <= bad.Failed {
			return nil
		}
	}
	return []evidence.Sign{evidence.Watched.Doubt("at their own addresses they answered badly: the probes may have " +
		"been right")}
}
