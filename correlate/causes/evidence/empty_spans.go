package evidence

import (
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

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
