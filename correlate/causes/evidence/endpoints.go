package evidence

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
)

// A Service is what the rules ask about what stands behind a window, or about all there is if the
// window's target is a bare URL.
type Service struct {
	frontend
	pods      []*model.Pod
	refused   map[string]model.Instant // when those began to refuse connections for good, by UID
	Endpoints []*model.Event           // their changes, by Seen
	// by UID of its Pod: the place in the order in which endpoints left the ready ones; those that one update took away
	// share it
	order  map[string]int
	leaves []*model.Event         // by that place
	before []int                  // by that place: how many endpoints were ready before
	steps  []model.EndpointStep   // how many endpoints were ready
	empty  []EmptySpan            // when there was no endpoint to route to
	local  map[string][]EmptySpan // and none on a node; by the node
}

// readEndpoints derives what rules ask of the endpoints from their changes; moves are the changes by which an endpoint
// only moved to another port.
func (s *Service) readEndpoints(end time.Duration, moves map[uint32]bool) {
	// Several watches are not in order by the microsecond.
	slices.SortStableFunc(s.Endpoints, func(a, b *model.Event) int { return cmp.Compare(a.Seen, b.Seen) })
	s.empty = s.emptyAmong(s.Endpoints, end)
	s.order, s.steps = map[string]int{}, cluster.EndpointSteps(s.Endpoints)
	for _, e := range s.Endpoints {
		if !cluster.IsReady(e.From) || cluster.IsReady(e.To) || moves[e.ID] {
			continue
		}
		if last := len(s.leaves) - 1; last < 0 || s.leaves[last].Seen != e.Seen {
			s.leaves, s.before = append(s.leaves, e), append(s.before, s.readyBefore(e.Seen))
		}
		s.order[e.Object.UID] = len(s.leaves) - 1 // the last time, if it came back
	}
}

// readyBefore returns how many endpoints were ready just before an instant.
func (s *Service) readyBefore(at time.Duration) int {
	next, _ := slices.BinarySearchFunc(s.steps, at, func(step model.EndpointStep, at time.Duration) int {
		return cmp.Compare(step.At.Latest, at)
	})
	if next == 0 {
		return 0
	}
	return s.steps[next-1].Ready
}

// MostReady returns the largest number of endpoints that were ready at one time between two instants.
func (s *Service) MostReady(from, to time.Duration) int { return model.MostReady(s.steps, from, to) }

// LastReady returns when a change left as many endpoints ready as were wanted then, the last time before an instant;
// -1 if none did. wanted returns 0 where that is not known.
func (s *Service) LastReady(before time.Duration, wanted func(at time.Duration) int) time.Duration {
	for _, step := range slices.Backward(s.steps) {
		if at := step.At.Latest; at < before {
			if n := wanted(at); n > 0 && step.Ready >= n {
				return at
			}
		}
	}
	return -1
}

// LeastReady returns the smallest number of endpoints that were ready between two instants. Something changed before
// the second.
func (s *Service) LeastReady(from, to time.Duration) int {
	before, least := 0, math.MaxInt
	for _, step := range s.steps {
		if step.At.Latest >= to {
			break
		}
		if step.At.Latest >= from {
			least = min(least, before, step.Ready)
		}
		before = step.Ready
	}
	return min(least, before)
}
