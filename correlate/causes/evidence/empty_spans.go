package evidence

import (
	"cmp"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file finds when a Service had no endpoint to route to.

// An EmptySpan is a stretch in which a Service had no endpoint to route to.
type EmptySpan struct {
	Start, End model.Instant
	Last       *model.Event // the endpoint that left last, or whose Pod was the last to refuse connections
	Refused    bool         // it did, though its endpoint was terminating and serving
	Next       *model.Event // the one that ended it, nil if it went on to the end of what is known
}

// Whole returns all the time the span can have taken.
func (e EmptySpan) Whole() model.Instant {
	return model.Instant{Earliest: e.Start.Earliest, Latest: e.End.Latest}
}

// emptyAmong returns when none of these endpoints served. Where their EndpointSlices do not say so, the Pods may have
// refused all connections: a terminating endpoint counts as serving until its readiness probe fails.
func (s *Service) emptyAmong(endpoints []*model.Event, end time.Duration) []EmptySpan {
	spans := emptySpans(endpoints, end)
	for _, e := range emptySpans(s.leftAsRefused(endpoints), end) {
		if !slices.ContainsFunc(spans, func(o EmptySpan) bool { return o.Whole().Overlaps(e.Whole()) }) {
			e.Refused = true
			spans = append(spans, e)
		}
	}
	slices.SortStableFunc(spans, func(a, b EmptySpan) int { return cmp.Compare(a.Start.Latest, b.Start.Latest) })
	return spans
}

// leftAsRefused returns the changes as if endpoints had not turned terminating and serving, but had left when their
// Pods began to refuse connections.
func (s *Service) leftAsRefused(endpoints []*model.Event) []*model.Event {
	changes := slices.Clone(endpoints)
	for i, e := range changes {
		if from, known := s.refused[e.Object.UID]; known && e.To == timeline.EndpointTerminatingServing {
			left := *e
			left.Seen, left.To = max(e.Seen, from.Latest), timeline.EndpointTerminating
			left.At = model.Instant{Earliest: max(e.At.Earliest, from.Earliest), Latest: max(e.At.Latest, from.Latest)}
			changes[i] = &left
		}
	}
	slices.SortStableFunc(changes, func(a, b *model.Event) int { return cmp.Compare(a.Seen, b.Seen) })
	return changes
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
