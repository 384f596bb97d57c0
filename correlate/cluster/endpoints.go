package cluster

import (
	"cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// An EndpointStates knows the state of every endpoint, and counts Pods by it: a Pod once, however many addresses and ports it has;
// and an address, where no Pod is named.
type EndpointStates struct {
	states        map[endpointKey]string
	Ready, Usable endpointCount
}

// An endpointCount is how many addresses and ports of each Pod count, of those that have any.
type endpointCount map[string]int

// An endpointKey names one address and port. It may be in several EndpointSlices.
type endpointKey struct {
	addr, uid string
	port      uint16
}

func NewEndpointStates() *EndpointStates {
	return &EndpointStates{states: map[endpointKey]string{}, Ready: endpointCount{}, Usable: endpointCount{}}
}

func (b *EndpointStates) Set(e *model.Event) {
	key := endpointKey{e.Addr, e.Object.UID, e.Port}
	pod := cmp.Or(key.uid, key.addr)
	was := b.states[key]
	b.states[key] = e.To
	b.Ready.change(pod, IsReady(was), IsReady(e.To))
	b.Usable.change(pod, isUsable(was), isUsable(e.To))
}

func (c endpointCount) change(pod string, was, is bool) {
	switch {
	case is && !was:
		c[pod]++
	case was && !is && c[pod] == 1:
		delete(c, pod)
	case was && !is:
		c[pod]--
	}
}

func IsReady(state string) bool { return state == timeline.EndpointReady }

// isUsable reports whether the endpoint is ready or terminating and still serving: kube-proxy routes to the latter where none is
// ready (KEP-1669).
func isUsable(state string) bool {
	return IsReady(state) || state == timeline.EndpointTerminatingServing
}
