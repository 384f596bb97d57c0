// Package direct decides which Pods' own addresses are asked, and how often.
package direct

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"
	"time"

	"lapse/timeline"
)

// Most is how many endpoints of all Services of a run are probed at their own address at a time. Each takes memory in
// the prober and in the judgement.
const Most = 100

// MaxHurried bounds the rate to all endpoints in transition together, in budgets.
const MaxHurried = 4

const (
	// hurryFor is how long an endpoint in transition is probed faster. Drains and rollouts are over by then, and
	// terminations except those with very long grace periods. Not ready for longer is a state, not a transition.
	hurryFor = 2 * time.Minute
	// youngFor is how long a new endpoint takes precedence over older ones, if not all can be probed.
	youngFor = 30 * time.Second
	// sampleFor is how long each of the older ones is probed then, before the next one's turn.
	sampleFor = 30 * time.Second
)

// A Plan decides which endpoints' own addresses are probed, and how fast. The endpoints of a Service share one budget
// of requests per second. One that turns not ready or terminating gets the whole budget for itself at once, because
// its last moments are the interesting ones. An endpoint is probed from when the watcher first sees it until its Pod
// is gone, and again if that comes back. If there are more than most endpoints, those in transition and the new ones
// are probed, and the others in turn.
type Plan struct {
	Calm bool // endpoints in transition get no more than others

	budget    float64
	most      int             // how many are probed at a time
	ports     map[string]bool // names of the ports that are measured
	endpoints map[Key]*Endpoint
	Order     []*Endpoint     // as they were first seen
	alive     map[string]bool // Pods that were seen and have not ended, by UID
	// Pods that have ended or no longer belong to the Service, by UID, and when that was seen
	gone map[string]time.Duration
}

// A Key names an endpoint. A Pod has one for each address family and port of the Service.
type Key struct {
	uid  string // of its Pod; empty if there is none
	Addr netip.AddrPort
	Port string // the name of the Service's port
}

// An Endpoint is one address of a Service, and what is known of its target.
type Endpoint struct {
	Key
	Pod   timeline.Object
	state string
	since time.Duration // when the state was seen
	young time.Duration // when it was first seen

	Target  timeline.TargetID // 0: never probed
	Probed  bool
	Turned  time.Duration // when it was last started or stopped
	Refused bool          // it cannot be probed
	Rate    float64       // as last set
}

// A Change starts or stops an endpoint's target, or changes its rate.
type Change struct {
	*Endpoint
	Probe bool
	Rate  float64
}

// NewPlan returns a plan for a Service's ports: at most most endpoints at a time, at budget requests per second.
func NewPlan(budget float64, most int, ports ...string) *Plan {
	p := &Plan{
		budget: budget, most: most, ports: map[string]bool{},
		endpoints: map[Key]*Endpoint{}, alive: map[string]bool{}, gone: map[string]time.Duration{},
	}
	for _, port := range ports {
		p.ports[port] = true
	}
	return p
}

// SetBudget changes the requests per second of all endpoints together.
func (p *Plan) SetBudget(budget float64) { p.budget = budget }

// Learn takes in an event. It reports whether the plan may have changed.
func (p *Plan) Learn(e timeline.Event) bool {
	switch e.Kind {
	case timeline.EndpointChanged:
		return p.endpointChanged(e)
	case timeline.PodGone:
		return p.podEnded(e)
	case timeline.PodPhase:
		return ended(e.To) && p.podEnded(e) // the object stays, the address does not
	case timeline.PodSeen:
		if uid := e.Object.UID; !ended(e.To) && !p.alive[uid] {
			p.alive[uid] = true
			delete(p.gone, uid)
			return true
		}
	}
	return false
}

// ended reports whether a Pod in this phase has ended.
func ended(phase string) bool { return phase == "Failed" || phase == "Succeeded" }

func (p *Plan) podEnded(e timeline.Event) bool {
	delete(p.alive, e.Object.UID)
	p.gone[e.Object.UID] = e.Seen
	return true
}

func (p *Plan) endpointChanged(e timeline.Event) bool {
	key := Key{Addr: netip.AddrPortFrom(e.Addr, e.Port), Port: e.PortName}
	if e.Object.Kind == "Pod" {
		key.uid = e.Object.UID
	}
	ep, ok := p.endpoints[key]
	if !ok {
		if e.To == timeline.EndpointAbsent || e.Port == 0 || !p.ports[e.PortName] {
			return false
		}
		ep = &Endpoint{Key: key, Pod: e.Object, young: e.Seen}
		p.endpoints[key] = ep
		p.Order = append(p.Order, ep)
	}
	ep.state, ep.since = e.To, e.Seen
	return true
}

// Changes returns the changes that are due at now.
func (p *Plan) Changes(now time.Duration) []Change {
	wanted := slices.DeleteFunc(slices.Clone(p.Order), func(ep *Endpoint) bool { return !p.wants(ep) })
	chosen := map[*Endpoint]bool{}
	settled, hurried := 0, 0
	for _, ep := range chooseDirect(wanted, p.most, now) {
		chosen[ep] = true
		if p.hurries(ep, now) {
			hurried++
		} else {
			settled++
		}
	}
	var changes []Change
	for _, ep := range p.Order {
		rate := p.budget / float64(max(settled, 1))
		if p.hurries(ep, now) {
			rate = min(p.budget, MaxHurried*p.budget/float64(max(hurried, 1)))
		}
		if chosen[ep] != ep.Probed || ep.Probed && rate != ep.Rate {
			changes = append(changes, Change{ep, chosen[ep], rate})
		}
	}
	return changes
}

// chooseDirect returns the endpoints to probe at now, at most most: those in transition first, then the new ones, then
// those whose turn it is.
func chooseDirect(wanted []*Endpoint, most int, now time.Duration) []*Endpoint {
	if len(wanted) <= most {
		return wanted
	}
	chosen := slices.SortedStableFunc(slices.Values(wanted), func(a, b *Endpoint) int {
		return cmp.Or(cmp.Compare(a.precedence(now), b.precedence(now)), a.compare(b, now))
	})
	return chosen[:most]
}

// precedence returns the order in which endpoints are probed if not all can be: the lowest first.
func (ep *Endpoint) precedence(now time.Duration) int {
	switch {
	case ep.hurried(now):
		return 0
	case now-ep.young < youngFor:
		return 1
	case ep.Probed && now-ep.Turned < sampleFor:
		return 2
	case !ep.Probed:
		return 3
	}
	return 4
}

// compare orders endpoints of one precedence. Those that are probed come first. Then come the latest in transition,
// the youngest of the new ones, and of the others those that have waited longest.
func (ep *Endpoint) compare(other *Endpoint, now time.Duration) int {
	if ep.Probed != other.Probed {
		if ep.Probed {
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
	return cmp.Compare(ep.Turned, other.Turned)
}

// wants reports whether an endpoint should be probed. The end of its Pod is its end. Its removal is the end if it has
// no Pod that is watched, as of a Service without a selector, or if its Pod has got another address of that family, as
// after a new sandbox.
func (p *Plan) wants(ep *Endpoint) bool {
	switch {
	case ep.Refused, p.isGone(ep.uid):
		return false
	case ep.state == timeline.EndpointAbsent:
		return p.alive[ep.uid] && !p.moved(ep)
	}
	return true
}

func (p *Plan) isGone(uid string) bool {
	_, gone := p.gone[uid]
	return gone
}

// Forget lets go of the endpoints that ended before an instant, and returns their targets.
func (p *Plan) Forget(before time.Duration) (targets []timeline.TargetID) {
	p.Order = slices.DeleteFunc(p.Order, func(ep *Endpoint) bool {
		over := !ep.Probed && max(ep.since, ep.Turned, p.gone[ep.uid]) < before && !p.wants(ep)
		if over {
			delete(p.endpoints, ep.Key)
			targets = append(targets, ep.Target)
		}
		return over
	})
	maps.DeleteFunc(p.gone, func(uid string, at time.Duration) bool {
		return at < before && !slices.ContainsFunc(p.Order, func(ep *Endpoint) bool { return ep.uid == uid })
	})
	return targets
}

// moved reports whether the endpoint's Pod has another address of its family.
func (p *Plan) moved(ep *Endpoint) bool {
	return slices.ContainsFunc(p.Order, func(other *Endpoint) bool {
		alike := other.uid == ep.uid && other.Port == ep.Port && other.Addr.Addr().Is4() == ep.Addr.Addr().Is4()
		return alike && other.state != timeline.EndpointAbsent
	})
}

// hurries reports whether an endpoint is probed faster than others.
func (p *Plan) hurries(ep *Endpoint, now time.Duration) bool { return !p.Calm && ep.hurried(now) }

// hurried reports whether something is about to happen to the endpoint.
func (ep *Endpoint) hurried(now time.Duration) bool {
	return ep.state != timeline.EndpointReady && now-ep.since < hurryFor
}
