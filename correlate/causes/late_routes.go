package causes

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file tells a Pod that stopped too early from routes that were changed too late, and says who was late: whoever
// changes EndpointSlices, or the node. No Pod can be expected to serve until they have caught up.

// tooLate is how long the EndpointSlice controller, or a node's proxy, takes at most where nothing is wrong:
// kube-proxy gathers changes for 1 s, and at the 99th percentile of large clusters 6.8 s were measured for the whole
// way (kubernetes/kubernetes#124272). Only proven lags count. If neither the controller nor the node is proven late,
// route-outlives-pod has medium confidence at most.
const tooLate = 3 * time.Second

// controllerLag is how long after the Pod's deletion its endpoint left the ready ones.
func (s *podStop) controllerLag() model.Length {
	if s.pod.Deleted == nil || s.pod.EndpointNotReady == nil || s.published {
		return model.Length{}
	}
	return length(*s.pod.Deleted, *s.pod.EndpointNotReady)
}

// proxyLag is for how long after its endpoint had left the Pod was routed to. Its Min is proven.
func (s *podStop) proxyLag() model.Length {
	if s.pod.EndpointNotReady == nil {
		return model.Length{}
	}
	least := max(0, s.routed-s.pod.EndpointNotReady.Latest)
	return model.Length{Min: least, Max: max(least, s.gone-s.pod.EndpointNotReady.Earliest)}
}

// Who changed routes too late.
const (
	lateController = "controller-lag"
	lateProxy      = "kube-proxy-late"
)

// late names the rule of whoever was too late with the route to the Pod, "" if nobody was.
func (s *podStop) late() string {
	controller, proxy := s.controllerLag().Min, s.proxyLag().Min
	if s.outside {
		proxy = 0 // no node's
	}
	switch {
	case s.unwatched, max(controller, proxy) < tooLate || s.lag().Min < tooLate/2:
		return ""
	case controller >= proxy:
		return lateController
	}
	return lateProxy
}

// unclear reports whether the Pod was routed to for so long that somebody was too late, without it being known who.
// What is behind a URL may take so long: a load balancer, until its health checks have failed.
func (s *podStop) unclear() bool { return s.late() == "" && s.lag().Min >= tooLate && !s.outside }

// latest is the Pod of the race that was routed to for longest because somebody was too late, nil if nobody was.
func (r *race) latest() *podStop {
	var worst *podStop
	for _, s := range r.stops {
		if s.late() != "" && (worst == nil || s.lag().Min > worst.lag().Min) {
			worst = s
		}
	}
	return worst
}

// tooLateBy is the finding of a rule that names who was too late, without its text and its fix; ok is false where it
// was not them.
func (c *Case) tooLateBy(rule string) (f Finding, s *podStop, r race, ok bool) {
	r = c.raceIn(c.Window)
	if s = r.latest(); s == nil {
		return no("no route was changed later than " + quantity.Span(tooLate) + " after it should have been"), nil, r, false
	}
	if s.late() != rule {
		return no(fmt.Sprintf("of %s, somebody else was late: %s", s.pod.Name, s.late())), nil, r, false
	}
	v, w, p := c.index, c.Window, s.pod
	if p.Deleted != nil {
		f.For = context(model.Evidence{Event: v.changeOf(p, timeline.PodDeleted, p.Deleted), At: p.Deleted, Text: p.Name + " was deleted"})
	}
	if s.proved {
		f.For = append(f.For, Sign{model.Evidence{Target: s.target, At: &s.at, Text: p.Name + " itself stopped answering"}, Measured})
	} else {
		f.missing(doubt(Measured, p.Name+" has no direct target, so its stop is only known from the watch"))
	}
	f.For = append(f.For, Sign{model.Evidence{Event: v.changeOf(p, timeline.EndpointChanged, p.EndpointNotReady), At: p.EndpointNotReady, Text: p.Name + " left the ready endpoints"}, Watched})
	f.Measures = []model.Measure{
		{Name: lateController, Object: p.Name, Length: s.controllerLag()},
		{Name: model.RouteLag, Object: p.Name, Node: v.routerNode(w), Length: s.lag()},
	}
	f.against(alsoTroubled(r.troubled, w)...)
	f.missing(v.unasked(w)...)
	fresh := w
	if t := v.target(w); t.Kind == timeline.Reused { // where connections are kept, those that fail are more
		fresh = v.windowNear(t, timeline.New, w.Span())
	}
	if fresh != nil && r.moreThanTheirShare(v, fresh) {
		f.against(doubt(Watched, fmt.Sprintf("%d of %d requests failed on new connections: more than the share of the Pods that had stopped, so more than their routes was wrong", fresh.Failed, fresh.Sent)))
	}
	f.explains(w, r.explained)
	return f, s, r, true
}
