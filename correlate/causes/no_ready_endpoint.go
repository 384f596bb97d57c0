package causes

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// no-ready-endpoint: the Service has no endpoint to route to, and every request fails, from
// everywhere. kube-proxy then rejects connections; but Linux limits the ICMP replies it does so with
// to a burst of about 6 per peer and then 1/s, so that most connects time out instead.
//
//	endpoints  1 1 1 0 0 0 0 0 0 0 1 1
//	svc        ok ok x x x x … x x x x ok      first refused, then timing out

var noReadyEndpoint = Rule{
	Name: "no-ready-endpoint",
	Doc:  "The Service had no endpoint that was ready, and none that was terminating and still serving.",
	Looks: `All requests fail. Often they are refused first and then time out: kube-proxy rejects connections to a Service without endpoints, and
Linux limits the rate of rejections. The lane "endpoints" shows 0.`,
	Fix:   "Run two replicas or more on different nodes, and a PodDisruptionBudget.",
	Needs: []Need{endpointSlices, endpointsWatched},
	Test:  testNoReadyEndpoint,
}

func testNoReadyEndpoint(c *Case) Finding {
	v, w := c.index, c.Window
	if w.Kind == model.Slow {
		return no("requests were answered, only late")
	}
	empty := emptyNear(v, w)
	if empty == nil {
		return no("an endpoint was ready, or terminating and still serving, all the time")
	}
	if last := whenLastLeft(v, w, empty); !last.Overlaps(v.onset(w)) {
		return no(fmt.Sprintf("no endpoint was ready %s, but requests began to fail %s", quantity.Between(empty.whole()), quantity.Between(w.Start)))
	}
	if why := answeredMeanwhile(w, empty); why != "" {
		return no(why)
	}
	f := Finding{For: emptySigns(v, w, empty), Text: emptyText(v, w, empty), Fix: emptyFix(v, w, empty)}
	if refused, timedOut, ok := firstRefused(v, w); ok {
		f.For = append(f.For, Sign{model.Evidence{
			Target: w.Target,
			Text:   fmt.Sprintf("%d refused first, then %d timed out: kube-proxy rejects connections without an endpoint, and Linux limits the rate of rejections", refused, timedOut),
		}, Watched})
	}
	if name := unansweredThroughout(v, w, empty); name != "" {
		f.For = append(f.For, Sign{model.Evidence{Target: name, Text: "no Pod answered at its own address meanwhile"}, Measured})
	}
	if v.gapNear("endpointslice", w) {
		f.against(doubt(Close, "the watch of EndpointSlices had a gap: an endpoint may have been ready unseen"))
	}
	return f
}

// whenLastLeft is when a window must open to be blamed on the empty span: from the moment the last
// Pod began to end (it may stop before its endpoint says so) to the end of the span.
func whenLastLeft(v *index, w *model.Window, empty *emptySpan) model.Instant {
	from := empty.whole()
	for _, p := range v.pods(w) {
		if p.UID != empty.last.Object.UID {
			continue
		}
		for _, sign := range []*model.Instant{p.Deleted, v.probe(w, p).stopped, p.EndpointNotReady} {
			if sign != nil {
				from.Earliest = min(from.Earliest, sign.Earliest)
			}
		}
	}
	return from
}

// answeredMeanwhile says why the window is not the empty span's: requests were answered in it.
func answeredMeanwhile(w *model.Window, empty *emptySpan) string {
	if w.Kind == model.Outage {
		return ""
	}
	certain := common(model.Instant{Earliest: empty.start.Latest, Latest: empty.end.Earliest}, w.Span())
	if w.Blackout == nil || w.Blackout.Max < certain/2 {
		return "requests were answered while no endpoint was ready"
	}
	return ""
}

// emptyText takes the length from the traffic, which tells it better than the watch does.
func emptyText(v *index, w *model.Window, empty *emptySpan) string {
	service := v.target(w).Service
	if service == "" {
		service = "the Service"
	}
	text := fmt.Sprintf("no endpoint of %s was ready, or terminating and still serving: %s left last (%s)", service, empty.last.Object.Name, quantity.Clock(empty.start.Latest))
	if empty.next == nil {
		text += ", and none became ready before the run ended"
	} else {
		text += fmt.Sprintf(", %s became ready at %s", empty.next.Object.Name, quantity.Clock(empty.end.Latest))
	}
	return text + nothingAnswered(w) + routedLate(v, w, empty)
}

func nothingAnswered(w *model.Window) string {
	length := w.Blackout
	if w.Kind == model.Outage {
		length = &w.Length
	}
	switch {
	case length == nil:
		return ""
	case w.Open != model.Open{}:
		return "; nothing answered for ≥ " + quantity.Lowest(length.Min)
	}
	return "; nothing answered for " + quantity.Length(*length, false)
}

// routedLate says that requests failed for long after an endpoint was ready again.
func routedLate(v *index, w *model.Window, empty *emptySpan) string {
	late := w.End.Earliest - empty.end.Latest
	if empty.next == nil || w.Kind != model.Outage || late < moment {
		return ""
	}
	return fmt.Sprintf(", and %s did not route to %s until ≥ %s after it was", v.from(w), empty.next.Object.Name, quantity.Lowest(late))
}

// emptyFix gives the time a second replica has to bridge, and how much of it is the replacement's
// own slowness.
func emptyFix(v *index, w *model.Window, empty *emptySpan) string {
	fix := "run ≥ 2 replicas on different nodes, with a PodDisruptionBudget that lets only 1 go at a time"
	if empty.next == nil {
		return fix
	}
	for _, p := range v.pods(w) {
		if p.UID == empty.next.Object.UID && p.Created != nil && p.EndpointReady != nil {
			startup := length(*p.Created, *p.EndpointReady).Max
			return fix + fmt.Sprintf(": the others must carry the load for ≥ %s (%s took up to %s from created to ready)",
				quantity.Span(quantity.RoundUp(w.Length.Max)), p.Name, quantity.Span(startup))
		}
	}
	return fix + fmt.Sprintf(": the others must carry the load for ≥ %s", quantity.Span(quantity.RoundUp(w.Length.Max)))
}

// emptySigns are what happened, in order. That the last endpoint left decides.
func emptySigns(v *index, w *model.Window, empty *emptySpan) []Sign {
	signs := []Sign{{model.Evidence{
		Event: empty.last.ID, At: &empty.start,
		Text: fmt.Sprintf("%s, the last endpoint, turned %s", empty.last.Object.Name, empty.last.To),
	}, Watched}}
	for _, p := range v.pods(w) {
		if probe := v.probe(w, p); p.UID == empty.last.Object.UID && probe.stopped != nil {
			signs = append(signs, context(model.Evidence{Target: probe.target, At: probe.stopped, Text: p.Name + " itself stopped answering"})...)
		}
	}
	signs = append(signs, context(model.Evidence{
		Target: w.Target, At: &w.Start,
		Text: fmt.Sprintf("%d of %d requests failed: %s", w.Failed, w.Sent, quantity.ClassCounts(w.Classes)),
	})...)
	if empty.next != nil {
		signs = append(signs, context(model.Evidence{
			Event: empty.next.ID, At: &empty.end,
			Text: empty.next.Object.Name + " became ready",
		})...)
	}
	return signs
}

// firstRefused recognises refusals followed by connect timeouts, looking at the failures one by one.
func firstRefused(v *index, w *model.Window) (refused, timedOut int, ok bool) {
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
	return refused, timedOut, refused > 0 && timedOut > refused && lastTimeout > lastRefused && firstTimeout > w.Start.Earliest
}

// unansweredThroughout names a direct target that had answered before and, as every other, did not
// while there was certainly no endpoint; "" if one did, or none was probed.
func unansweredThroughout(v *index, w *model.Window, empty *emptySpan) string {
	certain := model.Instant{Earliest: empty.start.Latest, Latest: empty.end.Earliest}
	name := ""
	for _, p := range v.pods(w) {
		switch probe := v.probe(w, p); {
		case probe.firstOK == nil || *probe.firstOK >= certain.Latest:
		case *probe.lastOK < certain.Earliest:
			name = probe.target
		default:
			return ""
		}
	}
	return name
}
