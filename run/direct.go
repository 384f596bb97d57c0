package run

import (
	"cmp"
	"net/netip"
	"slices"
	"time"

	"lapse/timeline"
)

// maxHurried bounds what the endpoints in transition may cost together, in budgets.
const maxHurried = 4

// mostDirect is how many endpoints are probed at their own address at a time, over all Services of a run. Each takes
// memory in the prober and in the judgement.
const mostDirect = 100

// youngFor is for how long a new endpoint goes before those that have been there, and sampleFor how long each of
// those is probed before it is the next one's turn, where there are more than may be probed.
const (
	youngFor  = 30 * time.Second
	sampleFor = 30 * time.Second
)

// hurryFor is for how long an endpoint in transition is probed faster. Drains and rollouts are over by then,
// terminations too but for very long grace periods; what stays not ready for longer is a state and no moment.
const hurryFor = 2 * time.Minute

// A directPlan decides which endpoints' own addresses are probed, and how fast: all of a Service share one budget of
// requests per second, but one that turns not ready or terminating gets the whole budget for itself at once, because
// its last moments are the interesting ones. An endpoint is probed from when the watcher first sees it until its Pod
// is gone, and again should that come back. Of more than most endpoints, those in transition and the new ones are
// probed, and the others in turn.
type directPlan struct {
	budget    float64
	most      int             // how many are probed at a time
	ports     map[string]bool // names of the ports that are measured
	endpoints map[endpointKey]*directEndpoint
	order     []*directEndpoint // as they were first seen
	gone      map[string]bool   // Pods that have ended or are not the Service's any more, by UID
}

// An endpointKey names an endpoint. A Pod has one for each address family and port of the Service.
type endpointKey struct {
	uid  string // of its Pod; empty if there is none
	addr netip.AddrPort
	port string // the name of the Service's port
}

type directEndpoint struct {
	endpointKey
	pod   timeline.Object
	state string
	since time.Duration // when the state was seen
	young time.Duration // when it was first seen

	target  timeline.TargetID // 0: never probed
	probed  bool
	turned  time.Duration // when it was last started or stopped
	refused bool          // it cannot be probed
	rate    float64       // as last set
}

// A directChange is what is to be done to an endpoint's target: it is started, stopped, or goes on at another rate.
type directChange struct {
	*directEndpoint
	probe bool
	rate  float64
}

func newDirectPlan(budget float64, most int, ports ...string) *directPlan {
	p := &directPlan{budget: budget, most: most, ports: map[string]bool{}, endpoints: map[endpointKey]*directEndpoint{}, gone: map[string]bool{}}
	for _, port := range ports {
		p.ports[port] = true
	}
	return p
}

// learn takes in an event. It reports whether the plan may have changed.
func (p *directPlan) learn(e timeline.Event) bool {
	switch e.Kind {
	case timeline.EndpointChanged:
		return p.endpointChanged(e)
	case timeline.PodGone:
		p.gone[e.Object.UID] = true
		return true
	case timeline.PodPhase:
		if e.To == "Failed" || e.To == "Succeeded" { // its object stays, its address does not
			p.gone[e.Object.UID] = true
			return true
		}
	case timeline.PodSeen:
		if p.gone[e.Object.UID] && e.To != "Failed" && e.To != "Succeeded" {
			delete(p.gone, e.Object.UID)
			return true
		}
	}
	return false
}

func (p *directPlan) endpointChanged(e timeline.Event) bool {
	key := endpointKey{addr: netip.AddrPortFrom(e.Addr, e.Port), port: e.PortName}
	if e.Object.Kind == "Pod" {
		key.uid = e.Object.UID
	}
	ep, ok := p.endpoints[key]
	if !ok {
		if e.To == timeline.EndpointAbsent || e.Port == 0 || !p.ports[e.PortName] {
			return false
		}
		ep = &directEndpoint{endpointKey: key, pod: e.Object, young: e.Seen}
		p.endpoints[key] = ep
		p.order = append(p.order, ep)
	}
	ep.state, ep.since = e.To, e.Seen
	return true
}

// changes are what is to be done at now.
func (p *directPlan) changes(now time.Duration) []directChange {
	wanted := slices.DeleteFunc(slices.Clone(p.order), func(ep *directEndpoint) bool { return !p.wants(ep) })
	chosen := map[*directEndpoint]bool{}
	settled, hurried := 0, 0
	for _, ep := range chooseDirect(wanted, p.most, now) {
		chosen[ep] = true
		if ep.hurried(now) {
			hurried++
		} else {
			settled++
		}
	}
	var changes []directChange
	for _, ep := range p.order {
		rate := p.budget / float64(max(settled, 1))
		if ep.hurried(now) {
			rate = min(p.budget, maxHurried*p.budget/float64(max(hurried, 1)))
		}
		if chosen[ep] != ep.probed || ep.probed && rate != ep.rate {
			changes = append(changes, directChange{ep, chosen[ep], rate})
		}
	}
	return changes
}

// chooseDirect chooses at most so many endpoints to be probed at now: those in transition first, then the new ones,
// then those whose turn it is. Nothing else changes while there are no more than most.
func chooseDirect(wanted []*directEndpoint, most int, now time.Duration) []*directEndpoint {
	if len(wanted) <= most {
		return wanted
	}
	chosen := slices.SortedStableFunc(slices.Values(wanted), func(a, b *directEndpoint) int {
		return cmp.Or(cmp.Compare(a.precedence(now), b.precedence(now)), a.compare(b, now))
	})
	return chosen[:most]
}

// precedence is which endpoints come first where not all can be probed: the lowest.
func (ep *directEndpoint) precedence(now time.Duration) int {
	switch {
	case ep.hurried(now):
		return 0
	case now-ep.young < youngFor:
		return 1
	case ep.probed && now-ep.turned < sampleFor:
		return 2
	case !ep.probed:
		return 3
	}
	return 4
}

// compare orders endpoints of one precedence: what is probed goes on, then the latest come first of those in
// transition and the new ones, and of the others what has waited longest.
func (ep *directEndpoint) compare(other *directEndpoint, now time.Duration) int {
	if ep.probed != other.probed {
		if ep.probed {
			return -1
		}
		return 1
	}
	switch ep.precedence(now) {
	case 0:
		return cmp.Compare(other.since, ep.since)
	case 1:
		return cmp.Compare(other.young, ep.young)
	}
	return cmp.Compare(ep.turned, other.turned)
}

// wants reports whether an endpoint is to be probed. Without a Pod whose end will be seen, the endpoint's removal is
// the end; so it is where its Pod has another address of that family since, as after its sandbox was made anew.
func (p *directPlan) wants(ep *directEndpoint) bool {
	switch {
	case ep.refused, p.gone[ep.uid]:
		return false
	case ep.state == timeline.EndpointAbsent:
		return ep.uid != "" && !p.moved(ep)
	}
	return true
}

func (p *directPlan) moved(ep *directEndpoint) bool {
	for _, other := range p.order {
		if other.uid == ep.uid && other.port == ep.port && other.addr.Addr().Is4() == ep.addr.Addr().Is4() && other.state != timeline.EndpointAbsent {
			return true
		}
	}
	return false
}

// hurried reports whether something is about to happen to the endpoint.
func (ep *directEndpoint) hurried(now time.Duration) bool {
	return ep.state != timeline.EndpointReady && now-ep.since < hurryFor
}
