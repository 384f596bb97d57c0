package evidence

import (
	"fmt"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// EmptyIn returns the time without an endpoint to route to that explains the window. If there is none, it returns nil
// and says why.
func (v *Addresses) EmptyIn(w *model.Window) (span *EmptySpan, whyNot string) {
	if w.Kind == model.Slow {
		return nil, "requests were answered, only late"
	}
	span = EmptyNear(v.services, w)
	if span == nil {
		return nil, "an endpoint was ready, or terminating and still serving, all the time"
	}
	if last := WhenLastLeft(v, w, span); !last.Overlaps(v.traffic.Onset(w)) {
		return nil, fmt.Sprintf("no endpoint was ready %s, but requests began to fail %s",
			quantity.Between(span.Whole()), quantity.Between(w.Start))
	}
	if why := AnsweredMeanwhile(w, span); why != "" {
		return nil, why
	}
	return span, ""
}

// WhenLastLeft returns when a window must open for the empty span to explain it: from when the last Pod began to end
// (it may stop before its endpoint says so) to the end of the span.
func WhenLastLeft(v *Addresses, w *model.Window, empty *EmptySpan) model.Instant {
	from := empty.Whole()
	if gone := v.services.Deleted(w); gone != nil {
		from.Earliest = min(from.Earliest, gone.At.Earliest)
	}
	for _, p := range v.services.Pods(w) {
		if p.UID != empty.Last.Object.UID {
			continue
		}
		for _, sign := range []*model.Instant{p.Deleted, v.Probe(w, p).Stopped, p.EndpointNotReady} {
			if sign != nil {
				from.Earliest = min(from.Earliest, sign.Earliest)
			}
		}
	}
	return from
}

// AnsweredMeanwhile says why the empty span does not explain the window: requests were answered. It returns "" if it
// does.
func AnsweredMeanwhile(w *model.Window, empty *EmptySpan) string {
	if w.Kind == model.Outage {
		return ""
	}
	certain := common(model.Instant{Earliest: empty.Start.Latest, Latest: empty.End.Earliest}, w.Span())
	if w.Blackout == nil || w.Blackout.Max < certain/2 {
		return "requests were answered while no endpoint was ready"
	}
	return ""
}

// This file finds when a Service had no endpoint to route to.

// An EmptySpan is a stretch in which a Service had no endpoint to route to.
type EmptySpan struct {
	Start, End model.Instant
	Last       *model.Event // the endpoint that left last
	Next       *model.Event // the one that ended it, nil if it went on to the end of what is known
}

// Whole returns all the time the span can have taken.
func (e EmptySpan) Whole() model.Instant {
	return model.Instant{Earliest: e.Start.Earliest, Latest: e.End.Latest}
}

// emptySpans finds when there was no usable endpoint, from how they changed until the end of the
// run. Changes seen in the same instant came in one update and count as one. Where there never was an
// endpoint there is no span.
func emptySpans(endpoints []*model.Event, end time.Duration) []EmptySpan {
	var spans []EmptySpan
	var states timeline.Endpoints
	for _, e := range endpoints {
		was := states.Serving()
		cluster.SetEndpoint(&states, e)
		now := states.Serving()
		switch open := len(spans) > 0 && spans[len(spans)-1].Next == nil; {
		case was > 0 && now == 0:
			spans = append(spans, EmptySpan{Start: e.At, End: model.Instant{Earliest: e.At.Latest, Latest: end},
				Last: e})
		case open && was == 0 && now > 0 && spans[len(spans)-1].Last.Seen == e.Seen:
			spans = spans[:len(spans)-1]
		case open && was == 0 && now > 0:
			spans[len(spans)-1].End = e.At
			spans[len(spans)-1].Next = e
		}
	}
	return spans
}

// EmptySpans returns the empty spans of the window's Service, and none if EndpointSlices could not be watched: then the
// last state proves nothing.
func (v *Services) EmptySpans(w *model.Window) []EmptySpan {
	if v.watches.LaneOff("endpointslice", w) {
		return nil
	}
	return v.Service(w).empty
}

// LocalPolicy is an internalTrafficPolicy or externalTrafficPolicy.
const LocalPolicy = "Local"

// Unrouted returns when no endpoint could get the prober's requests: there was none at all, or none on the node that
// routes them if the Service routes only within a node.
func (v *Services) Unrouted(w *model.Window) []EmptySpan {
	policy, node := v.Policy(w)
	svc := v.Service(w)
	if v.watches.LaneOff("endpointslice", w) || policy != LocalPolicy || node == "" {
		return v.EmptySpans(w)
	}
	spans, known := svc.local[node]
	if !known {
		var local []*model.Event
		for _, e := range svc.Endpoints {
			if e.Object.Node == node {
				local = append(local, e)
			}
		}
		spans = emptySpans(local, v.traffic.End())
		svc.local[node] = spans
	}
	return spans
}

// EmptyNear returns the first span without endpoints that overlaps the window, nil if there is none.
func EmptyNear(v *Services, w *model.Window) *EmptySpan {
	for _, empty := range v.EmptySpans(w) {
		if empty.Whole().Overlaps(w.Span()) {
			return &empty
		}
	}
	return nil
}
