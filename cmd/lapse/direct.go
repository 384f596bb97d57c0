package main

import (
	"cmp"
	"net/netip"

	"lapse/timeline"
)

// maxHurried bounds what the endpoints in transition may cost together, in budgets.
const maxHurried = 4

// A directPlan decides which endpoints' own addresses are probed, and how fast: all share one
// budget of requests per second, but one that turns not ready or terminating gets the whole budget
// for itself at once, because its last moments are the interesting ones. An endpoint is probed from
// when the watcher first sees it until its Pod is gone.
type directPlan struct {
	budget    float64
	endpoints map[string]*directEndpoint
}

type directEndpoint struct {
	key   string
	addr  netip.AddrPort
	pod   timeline.Object
	state string
	gone  bool

	target uint16  // 0: not probed yet
	rate   float64 // as last set
}

func newDirectPlan(budget float64) *directPlan {
	return &directPlan{budget: budget, endpoints: map[string]*directEndpoint{}}
}

// learn takes in an event. It reports whether the plan may have changed.
func (p *directPlan) learn(e timeline.Event) bool {
	switch e.Kind {
	case timeline.EndpointChanged:
		return p.endpointChanged(e)
	case timeline.PodGone:
		return p.podGone(e.Object.UID)
	}
	return false
}

func (p *directPlan) endpointChanged(e timeline.Event) bool {
	key := cmp.Or(e.Object.UID, e.Addr.String())
	ep, ok := p.endpoints[key]
	if !ok {
		if e.To == timeline.EndpointAbsent || e.Code == 0 {
			return false
		}
		ep = &directEndpoint{key: key, addr: netip.AddrPortFrom(e.Addr, uint16(e.Code)), pod: e.Object}
		p.endpoints[key] = ep
	}
	ep.state = e.To
	// Without a Pod whose end will be seen, the endpoint's removal is the end.
	if e.To == timeline.EndpointAbsent && e.Object.Kind != "Pod" {
		ep.gone = true
	}
	return true
}

func (p *directPlan) podGone(uid string) bool {
	ep, ok := p.endpoints[uid]
	if ok {
		ep.gone = true
	}
	return ok
}

// settled reports whether nothing is about to happen to the endpoint.
func (ep *directEndpoint) settled() bool { return ep.state == timeline.EndpointReady }

// rateOf returns the rate ep is to be probed at now.
func (p *directPlan) rateOf(ep *directEndpoint) float64 {
	settled, hurried := 0, 0
	for _, other := range p.endpoints {
		switch {
		case other.gone:
		case other.settled():
			settled++
		default:
			hurried++
		}
	}
	if ep.settled() {
		return p.budget / float64(settled)
	}
	return min(p.budget, maxHurried*p.budget/float64(hurried))
}
