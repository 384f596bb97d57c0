package correlate

import (
	"slices"
	"time"

	"lapse/correlate/model"
)

// addLost says of each removal for how long its node still routed to the Pod after it had stopped, and what it waited
// for: the Pod stopped (S), its deletion was asked for (T), the EndpointSlice changed (A), the node's routes followed
// (R). T ≤ A ≤ R; S is anywhere. It needs S.
func addLost(pods []model.Pod, routes []model.Route) {
	for i := range routes {
		r := &routes[i]
		if r.Change != model.Removal {
			continue
		}
		p := slices.IndexFunc(pods, func(p model.Pod) bool { return p.UID == r.PodUID })
		if p < 0 || pods[p].Stopped == nil {
			continue
		}
		lost := lostTime(*pods[p].Stopped, askedFor(&pods[p], r), r.API, r.Changed)
		if r.Open && lost.Mostly != model.LostProxy {
			lost.Mostly = "" // how long the proxy took is not known: it may be more
		}
		if lost.Max > 0 {
			r.Lost = &lost
		}
	}
}

// askedFor returns when a Pod's deletion was asked for. Of one that nobody deleted before its endpoint left, it is when
// that left: nobody waited for it until then.
func askedFor(p *model.Pod, r *model.Route) model.Instant {
	switch {
	case r.Asked != nil:
		return *r.Asked
	case p.Deleted != nil && p.Deleted.Earliest <= r.API.Latest:
		return model.Instant{Earliest: min(p.Deleted.Earliest, r.API.Earliest),
			Latest: min(p.Deleted.Latest, r.API.Latest)}
	}
	return r.API
}

// lostTime bounds the parts of the time from S to R. Each is the longest and the shortest that its instants allow, so
// the truth of all three sums to that of the whole; their bounds need not.
func lostTime(stopped, asked, api, routed model.Instant) model.LostTime {
	between := func(from, to func(bound) time.Duration) model.Length {
		return model.Length{Min: max(0, to(lower)-from(upper)), Max: max(0, to(upper)-from(lower))}
	}
	s, t, a, r := at(stopped), at(asked), at(api), at(routed)
	first := func(x, y func(bound) time.Duration) func(bound) time.Duration {
		return func(b bound) time.Duration { return min(x(b), y(b)) }
	}
	last := func(x, y func(bound) time.Duration) func(bound) time.Duration {
		return func(b bound) time.Duration { return max(x(b), y(b)) }
	}
	lost := model.LostTime{
		Length:     between(s, r),
		AppEarly:   between(s, first(t, r)),
		Controller: between(last(s, t), first(a, r)),
		Proxy:      between(last(s, a), r),
	}
	lost.Mostly = mostly(lost)
	return lost
}

// A bound is the earliest or the latest that an instant can be.
type bound bool

const (
	lower bound = false
	upper bound = true
)

func at(i model.Instant) func(bound) time.Duration {
	return func(b bound) time.Duration {
		if b == upper {
			return i.Latest
		}
		return i.Earliest
	}
}

// mostly returns the part that took longest, if it is known which.
func mostly(l model.LostTime) model.LostPart {
	parts := []struct {
		part   model.LostPart
		length model.Length
	}{{model.LostAppEarly, l.AppEarly}, {model.LostController, l.Controller}, {model.LostProxy, l.Proxy}}
	for i, p := range parts {
		longest := p.length.Min > 0
		for j, other := range parts {
			longest = longest && (i == j || p.length.Min >= other.length.Max)
		}
		if longest {
			return p.part
		}
	}
	return ""
}
