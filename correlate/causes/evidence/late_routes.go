package evidence

import (
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file tells a Pod that stopped too early from routes that were changed too late, and says what was late: the
// EndpointSlice controller or the node. No Pod can be expected to serve until they have caught up.

// TooLate is how long the EndpointSlice controller, or a node's proxy, takes at most if nothing is wrong:
// kube-proxy gathers changes for 1 s, and at the 99th percentile of large clusters 6.8 s were measured for the whole
// way (kubernetes/kubernetes#124272). Only proven lags count. If neither the controller nor the node is proven late,
// route-outlives-pod has medium confidence at most.
const TooLate = 3 * time.Second

// ControllerLag returns how long after the Pod's deletion its endpoint left the ready ones.
func (s *PodStop) ControllerLag() model.Length {
	if s.Pod.Deleted == nil || s.Pod.EndpointNotReady == nil || s.Published {
		return model.Length{}
	}
	return Length(*s.Pod.Deleted, *s.Pod.EndpointNotReady)
}

// ProxyLag returns how long the Pod was routed to after its endpoint had left, and was not the only one that served.
// Its Min is proven.
func (s *PodStop) ProxyLag() model.Length {
	left := s.Pod.EndpointNotReady
	if left == nil {
		return model.Length{}
	}
	least := max(0, s.routed-max(left.Latest, s.Alone.Latest))
	return model.Length{Min: least, Max: max(least, s.gone-max(left.Earliest, s.Alone.Earliest))}
}

// aloneUntil returns until when nodes had to route to a Pod whose endpoint was seen to leave: it was terminating and
// serving, and no other of these endpoints was ready. It returns zero if another one was, or if it did not serve.
func aloneUntil(endpoints []*model.Event, uid string, left time.Duration) model.Instant {
	until := model.Instant{Earliest: model.Never, Latest: model.Never}
	if i := slices.IndexFunc(endpoints, func(e *model.Event) bool {
		return e.Object.UID == uid && e.Seen >= left && e.To != timeline.EndpointTerminatingServing
	}); i >= 0 {
		until = endpoints[i].At
	}
	for _, step := range slices.Backward(cluster.EndpointSteps(endpoints)) {
		if step.Ready > 0 && step.At.Latest < until.Latest {
			until = step.At
		}
		if step.At.Latest <= left {
			break
		}
	}
	if until.Latest <= left {
		return model.Instant{}
	}
	return until
}

// Who changed routes too late.
const (
	LateController = "controller-lag"
	LateProxy      = "kube-proxy-late"
)

// Late returns the rule that names what was too late with the route to the Pod, "" if nothing was.
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

// Unclear reports whether something was too late with the route to the Pod, but it is not known what. Behind a URL that
// is no lateness: a load balancer takes as long, until its health checks have failed.
func (s *PodStop) Unclear() bool {
	return s.Late() == "" && s.routed-max(s.At.Latest, s.Alone.Latest) >= TooLate && !s.Outside
}
