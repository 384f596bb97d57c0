package evidence

import (
	"time"

	"lapse/correlate/model"
)

// This file tells a Pod that stopped too early from routes that were changed too late, and says who was late: whoever
// changes EndpointSlices, or the node. No Pod can be expected to serve until they have caught up.

// TooLate is how long the EndpointSlice controller, or a node's proxy, takes at most where nothing is wrong:
// kube-proxy gathers changes for 1 s, and at the 99th percentile of large clusters 6.8 s were measured for the whole
// way (kubernetes/kubernetes#124272). Only proven lags count. If neither the controller nor the node is proven late,
// route-outlives-pod has medium confidence at most.
const TooLate = 3 * time.Second

// ControllerLag is how long after the Pod's deletion its endpoint left the ready ones.
func (s *PodStop) ControllerLag() model.Length {
	if s.Pod.Deleted == nil || s.Pod.EndpointNotReady == nil || s.Published {
		return model.Length{}
	}
	return Length(*s.Pod.Deleted, *s.Pod.EndpointNotReady)
}

// ProxyLag is for how long after its endpoint had left the Pod was routed to. Its Min is proven.
func (s *PodStop) ProxyLag() model.Length {
	if s.Pod.EndpointNotReady == nil {
		return model.Length{}
	}
	least := max(0, s.routed-s.Pod.EndpointNotReady.Latest)
	return model.Length{Min: least, Max: max(least, s.gone-s.Pod.EndpointNotReady.Earliest)}
}

// Who changed routes too late.
const (
	LateController = "controller-lag"
	LateProxy      = "kube-proxy-late"
)

// Late names the rule of whoever was too late with the route to the Pod, "" if nobody was.
func (s *PodStop) Late() string {
	controller, proxy := s.ControllerLag().Min, s.ProxyLag().Min
	if s.Outside {
		proxy = 0 // no node's
	}
	switch {
	case s.unwatched, max(controller, proxy) < TooLate || s.Lag().Min < TooLate/2:
		return ""
	case controller >= proxy:
		return LateController
	}
	return LateProxy
}

// Unclear reports whether the Pod was routed to for so long that somebody was too late, without it being known who.
// What is behind a URL may take so long: a load balancer, until its health checks have failed.
func (s *PodStop) Unclear() bool { return s.Late() == "" && s.Lag().Min >= TooLate && !s.Outside }

// Latest is the Pod of the race that was routed to for longest because somebody was too late, nil if nobody was.
func (r *Race) Latest() *PodStop {
	var worst *PodStop
	for _, s := range r.Stops {
		if s.Late() != "" && (worst == nil || s.Lag().Min > worst.Lag().Min) {
			worst = s
		}
	}
	return worst
}
