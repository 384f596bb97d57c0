package correlate

import (
	"cmp"

	"lapse/timeline"
)

// An endpointBook knows the state of every endpoint, and counts Pods by it: a Pod once, however many addresses and ports it has;
// and an address, where no Pod is named.
type endpointBook struct {
	states        map[endpointKey]string
	ready, usable endpointCount
}

// An endpointCount is how many addresses and ports of each Pod count, of those that have any.
type endpointCount map[string]int

// An endpointKey names one address and port. It may be in several EndpointSlices.
type endpointKey struct {
	addr, uid string
	port      int
}

func newEndpointBook() *endpointBook {
	return &endpointBook{states: map[endpointKey]string{}, ready: endpointCount{}, usable: endpointCount{}}
}

func (b *endpointBook) enter(e *Event) {
	key := endpointKey{e.Addr, e.Object.UID, e.Code}
	pod := cmp.Or(key.uid, key.addr)
	was := b.states[key]
	b.states[key] = e.To
	b.ready.change(pod, isReady(was), isReady(e.To))
	b.usable.change(pod, isUsable(was), isUsable(e.To))
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

func isReady(state string) bool { return state == timeline.EndpointReady }

// isUsable reports whether the endpoint is ready or terminating and still serving: kube-proxy routes to the latter where none is
// ready (KEP-1669).
func isUsable(state string) bool {
	return isReady(state) || state == timeline.EndpointTerminatingServing
}
