package causes

import (
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A readyCount is how many endpoints were ready from an instant on, as far as was seen by then.
type readyCount struct {
	seen time.Duration
	n    int
}

// readEndpoints derives what is asked of the endpoints from how they changed; moves are those that only moved to another port.
func (s *service) readEndpoints(end time.Duration, moves map[uint32]bool) {
	s.empty = emptySpans(s.endpoints, end)
	s.order = map[string]int{}
	var states timeline.Endpoints
	for _, e := range s.endpoints {
		before := states.Ready()
		cluster.SetEndpoint(&states, e)
		s.ready = append(s.ready, readyCount{e.Seen, states.Ready()})
		if !cluster.IsReady(e.From) || cluster.IsReady(e.To) || moves[e.ID] {
			continue
		}
		if last := len(s.leaves) - 1; last < 0 || s.leaves[last].Seen != e.Seen {
			s.leaves, s.before = append(s.leaves, e), append(s.before, before)
		}
		s.order[e.Object.UID] = len(s.leaves) - 1 // the last time, if it came back
	}
}

// mostReady is how many endpoints were ready at most at one time between two instants.
func (s *service) mostReady(from, to time.Duration) int {
	before, most := 0, 0
	for _, count := range s.ready {
		switch {
		case count.seen < from:
			before = count.n
		case count.seen <= to:
			most = max(most, count.n)
		}
	}
	return max(before, most)
}

// leastReady is how many endpoints were ready at least between two instants, before the last of which something changed.
func (s *service) leastReady(from, to time.Duration) int {
	before, least := 0, math.MaxInt
	for _, count := range s.ready {
		if count.seen >= to {
			break
		}
		if count.seen >= from {
			least = min(least, before, count.n)
		}
		before = count.n
	}
	return min(least, before)
}

// wasEndpoint reports whether a Pod was a ready endpoint at some time before an instant, as far as is known: only then can requests have been sent to it.
func (v *index) wasEndpoint(w *model.Window, p *model.Pod, by time.Duration) bool {
	all := v.service(w).endpoints
	return len(all) == 0 || v.laneOff("endpointslice", w) || slices.ContainsFunc(all, func(e *model.Event) bool {
		return e.Object.UID == p.UID && (cluster.IsReady(e.From) || cluster.IsReady(e.To)) && e.At.Earliest <= by
	})
}

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

// unrouted is when the window's prober had no endpoint to be routed to: none at all, or none on the node that leads requests on where the Service
// routes only there.
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

// serviceSpec is the last snapshot of the window's Service from before the window's onset was over; nil if there is none.
func (v *index) serviceSpec(w *model.Window) (spec *model.Event) {
	for _, e := range v.specs {
		if e.Object != nil && e.Object.Namespace+"/"+e.Object.Name == v.target(w).Service && (spec == nil || e.Seen <= w.Start.Latest) {
			spec = e
		}
	}
	return spec
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

// end is how far the run has come.
func (v *index) end() time.Duration {
	end := v.Run.Run.Duration
	for _, e := range v.Run.Events {
		end = max(end, e.Seen)
	}
	for _, w := range v.Run.Windows {
		end = max(end, w.End.Latest)
	}
	return end
}
