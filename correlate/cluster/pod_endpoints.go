package cluster

import (
	"net/netip"
	"slices"

	"lapse/correlate/model"
	"lapse/timeline"
)

// OfEndpoints returns a Pod with the instants of some of its endpoints only, as of those of one Service: how these
// changed, by Seen. It returns p itself if they are the same. moves are the changes by which an endpoint only moved to
// another port.
func OfEndpoints(p *model.Pod, changes []*model.Event, moves map[uint32]bool) *model.Pod {
	of := *p
	of.EndpointReady, of.EndpointNotReady, of.EndpointRemoved = nil, nil, nil
	s := newPodEndpoints(moves)
	for _, e := range changes {
		s.apply(e, &of)
	}
	narrowEndpoints(&of)
	if equal(p.EndpointReady, of.EndpointReady) && equal(p.EndpointNotReady, of.EndpointNotReady) &&
		equal(p.EndpointRemoved, of.EndpointRemoved) {
		return p
	}
	return &of
}

func equal(a, b *model.Instant) bool { return a == b || a != nil && b != nil && *a == *b }

// narrowEndpoints raises lower bounds: no endpoint of a Pod changes before the Pod's creation.
func narrowEndpoints(p *model.Pod) {
	if p.Created != nil {
		NotBefore(p.EndpointReady, p.Created.Earliest)
		NotBefore(p.EndpointNotReady, p.Created.Earliest)
	}
}

// An endpointKey names one address and port of a Pod, as one Service has it.
type endpointKey struct {
	service string
	addr    netip.Addr
	port    uint16
}

// podEndpoints are the endpoints of one Pod.
type podEndpoints struct {
	moves  map[uint32]bool // changes by which they only moved to another port
	states map[endpointKey]string
	best   string // of the states; empty if there was none
}

func newPodEndpoints(moves map[uint32]bool) podEndpoints {
	return podEndpoints{moves: moves, states: map[endpointKey]string{}}
}

// apply takes in a change of one of the endpoints. The Pod turned ready with the first of them, and left with the last.
// One that only moved to another port, as where the Service's targetPort was changed, neither came nor left.
func (s *podEndpoints) apply(e *model.Event, p *model.Pod) {
	was := s.best
	s.states[endpointKey{e.Service, e.Addr, e.Port}] = e.To
	s.best = timeline.EndpointAbsent
	for _, state := range s.states {
		if slices.Index(endpointStates, state) < slices.Index(endpointStates, s.best) {
			s.best = state
		}
	}
	switch {
	case s.moves[e.ID]:
		return
	case s.best == timeline.EndpointReady && was == timeline.EndpointReady:
		return // another one changed
	case s.best == timeline.EndpointReady:
		first(&p.EndpointReady, e.At)
		p.EndpointRemoved = nil
		return
	}
	if was == timeline.EndpointReady || e.From == timeline.EndpointReady {
		p.EndpointNotReady = new(e.At)
	}
	if s.best == timeline.EndpointAbsent {
		p.EndpointRemoved = new(e.At)
	}
}

// endpointStates are the states of an endpoint, the best first.
var endpointStates = []string{
	timeline.EndpointReady, timeline.EndpointTerminatingServing, timeline.EndpointNotReady,
	timeline.EndpointTerminating, timeline.EndpointAbsent,
}
