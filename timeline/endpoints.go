package timeline

import "net/netip"

// Endpoints are the states of one Service's endpoints, and how many are ready and serving. A Pod counts once, whatever
// addresses and ports it has. If no Pod is named, each address counts. The zero value has no endpoint.
type Endpoints struct {
	states         map[endpoint]string
	ready, serving map[string]int // by Pod, or address: how many of its addresses and ports
}

// An endpoint is one address and port. It may be in several EndpointSlices.
type endpoint struct {
	owner string
	addr  netip.Addr
	port  uint16
}

// Set notes the state of one address and port. behind is its Pod, or any other object if none is named.
func (s *Endpoints) Set(behind Object, addr netip.Addr, port uint16, state string) {
	if s.states == nil {
		s.states, s.ready, s.serving = map[endpoint]string{}, map[string]int{}, map[string]int{}
	}
	key := endpoint{addr.String(), addr, port}
	if behind.Kind == "Pod" && behind.UID != "" {
		key.owner = behind.UID
	}
	was := s.states[key]
	s.states[key] = state
	count(s.ready, key.owner, was == EndpointReady, state == EndpointReady)
	count(s.serving, key.owner, endpointServes(was), endpointServes(state))
}

func count(of map[string]int, owner string, was, is bool) {
	switch {
	case is && !was:
		of[owner]++
	case was && !is && of[owner] == 1:
		delete(of, owner)
	case was && !is:
		of[owner]--
	}
}

// Ready returns how many are ready.
func (s *Endpoints) Ready() int { return len(s.ready) }

// Serving returns how many are ready, or terminating and still serving: kube-proxy routes to these if none is ready
// (KEP-1669).
func (s *Endpoints) Serving() int { return len(s.serving) }

func endpointServes(state string) bool {
	return state == EndpointReady || state == EndpointTerminatingServing
}
