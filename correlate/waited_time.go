package correlate

import (
	"slices"

	"lapse/correlate/model"
)

// addWaited says of each addition of a new Pod how long after its first container had started its node routed to it,
// and what it waited for: that container started (S), the Pod turned ready (T), the EndpointSlice changed (A), the
// node's routes followed (R). S ≤ T ≤ A ≤ R.
func addWaited(pods []model.Pod, routes []model.Route) {
	for i := range routes {
		r := &routes[i]
		if r.Change != model.Addition {
			continue
		}
		p := slices.IndexFunc(pods, func(p model.Pod) bool { return p.UID == r.PodUID })
		if p >= 0 && becameReady(&pods[p], r) {
			r.Waited = waitedTime(pods[p].Started, pods[p].Ready, r)
		}
	}
}

// becameReady reports whether a Pod that was created in the run had not been ready before the change: one that was
// waits for something else, and one that was there when the run began may have been.
func becameReady(p *model.Pod, r *model.Route) bool {
	if p.Created == nil || p.Started == nil || p.Ready == nil || p.Ready.Earliest > r.API.Latest ||
		p.Started.Earliest < p.Created.Earliest {
		return false
	}
	times := 0
	for _, s := range p.States {
		if s.State == "ready" && s.Start <= r.API.Latest {
			times++
		}
	}
	return times <= 1
}

// waitedTime bounds the parts of the time from S to R, as [lostTime] does.
func waitedTime(started, ready *model.Instant, r *model.Route) *model.WaitedTime {
	t := lostTime(*started, *ready, r.API, r.Changed)
	waited := &model.WaitedTime{Length: t.Length, StartUp: t.AppEarly, Controller: t.Controller, Proxy: t.Proxy,
		Mostly: t.Mostly}
	if waited.Mostly == model.LostAppEarly {
		waited.Mostly = model.LostStartUp
	}
	if r.Open && waited.Mostly != model.LostProxy {
		waited.Mostly = "" // how long the proxy took is not known: it may be more
	}
	return waited
}
