package causes

import (
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file finds when a Service had no endpoint to route to.

// An emptySpan is a stretch in which a Service had no endpoint to route to.
type emptySpan struct {
	start, end model.Instant
	last       *model.Event // the endpoint that left last
	next       *model.Event // the one that ended it, nil if it went on to the end of what is known
}

// whole is all the time the span can have taken.
func (e emptySpan) whole() model.Instant {
	return model.Instant{Earliest: e.start.Earliest, Latest: e.end.Latest}
}

// emptySpans finds when there was no usable endpoint, from how they changed until the end of the
// run. Changes seen in the same instant came in one update and count as one. Where there never was an
// endpoint there is no span.
func emptySpans(endpoints []*model.Event, end time.Duration) []emptySpan {
	var spans []emptySpan
	var states timeline.Endpoints
	for _, e := range endpoints {
		was := states.Serving()
		cluster.SetEndpoint(&states, e)
		now := states.Serving()
		switch open := len(spans) > 0 && spans[len(spans)-1].next == nil; {
		case was > 0 && now == 0:
			spans = append(spans, emptySpan{start: e.At, end: model.Instant{Earliest: e.At.Latest, Latest: end}, last: e})
		case open && was == 0 && now > 0 && spans[len(spans)-1].last.Seen == e.Seen:
			spans = spans[:len(spans)-1]
		case open && was == 0 && now > 0:
			spans[len(spans)-1].end = e.At
			spans[len(spans)-1].next = e
		}
	}
	return spans
}

// emptySpans are those of the window's Service; none where EndpointSlices could not be watched, for
// then the last state proves nothing.
func (v *index) emptySpans(w *model.Window) []emptySpan {
	if v.laneOff("endpointslice", w) {
		return nil
	}
	return v.service(w).empty
}

// localPolicy is an internalTrafficPolicy or externalTrafficPolicy.
const localPolicy = "Local"

// unrouted is when the window's prober had no endpoint to be routed to: none at all, or none on the node that leads
// requests on where the Service routes only there.
func (v *index) unrouted(w *model.Window) []emptySpan {
	policy, node := v.policy(w)
	svc := v.service(w)
	if v.laneOff("endpointslice", w) || policy != localPolicy || node == "" {
		return v.emptySpans(w)
	}
	spans, known := svc.local[node]
	if !known {
		var local []*model.Event
		for _, e := range svc.endpoints {
			if e.Object.Node == node {
				local = append(local, e)
			}
		}
		spans = emptySpans(local, v.end())
		svc.local[node] = spans
	}
	return spans
}

// emptyNear is the first span without endpoints that overlaps the window, nil if there is none.
func emptyNear(v *index, w *model.Window) *emptySpan {
	for _, empty := range v.emptySpans(w) {
		if empty.whole().Overlaps(w.Span()) {
			return &empty
		}
	}
	return nil
}
