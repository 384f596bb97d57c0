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
