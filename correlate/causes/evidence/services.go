package evidence

import (
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Services is what stands behind the targets: Pods, their endpoints, and how Services were set.
type Services struct {
	*Input
	Edits    []*model.Event  // changes of Services, by Seen
	Moves    map[uint32]bool // of endpoints that only moved to another port, by the ID of their changes
	specs    []*model.Event  // snapshots of Services
	services map[frontend]*Service
	served   map[string]*Service // by the target that sends to it
	traffic  *Traffic
	watches  *Watches
}

func newServices(s *Input, traffic *Traffic, watches *Watches) *Services {
	return &Services{
		Input:    s,
		Moves:    cluster.Moves(s.Run.Events),
		services: map[frontend]*Service{},
		served:   map[string]*Service{},
		traffic:  traffic,
		watches:  watches,
	}
}

// Service returns what stands behind the window's target.
func (v *Services) Service(w *model.Window) *Service {
	if known := v.served[w.Target]; known != nil {
		return known
	}
	t := v.traffic.Target(w)
	f := v.traffic.frontend(t)
	if known := v.services[f]; known != nil {
		v.served[t.Name] = known
		return known
	}
	svc := &Service{frontend: f, refused: map[string]model.Instant{}, local: map[string][]EmptySpan{}}
	v.services[f], v.served[t.Name] = svc, svc
	strangers := map[string]bool{}
	for i := range v.Run.Pods {
		p := &v.Run.Pods[i]
		if !v.Behind(p, t) {
			strangers[p.UID] = true
			continue
		}
		svc.pods = append(svc.pods, p)
		if v.RefusedAtLast(p) {
			svc.refused[p.UID] = *p.Stopped
		}
	}
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		if e.Kind == timeline.EndpointChanged && !e.Object.IsZero() && !strangers[e.Object.UID] &&
			f.reaches(frontendOfEndpoint(e)) {
			svc.Endpoints = append(svc.Endpoints, e)
		}
	}
	svc.readEndpoints(v.traffic.End(), v.Moves)
	of := map[string][]*model.Event{} // by UID of their Pod
	for _, e := range svc.Endpoints {
		of[e.Object.UID] = append(of[e.Object.UID], e)
	}
	for i, p := range svc.pods {
		svc.pods[i] = cluster.OfEndpoints(p, of[p.UID], v.Moves)
	}
	return svc
}

// Pods returns the Pods that may stand behind the window's Service, with the instants of their endpoints of that
// Service only: other Services may have the same Pods.
func (v *Services) Pods(w *model.Window) []*model.Pod { return v.Service(w).pods }

// Behind reports whether the Pod may serve the target: its direct target says for which Services it
// does. Where none does, or the target is a bare URL, no Pod can be ruled out but by its namespace.
func (v *Services) Behind(p *model.Pod, t *model.Target) bool {
	if t.Service == "" {
		return true
	}
	known := false
	for _, direct := range v.traffic.direct[p.UID] {
		if direct.Service != "" {
			if direct.Service == t.Service {
				return true
			}
			known = true
		}
	}
	return !known && p.Namespace == NamespaceOf(t.Service)
}

// Together reports whether two Pods may stand behind one Service.
func (v *Services) Together(p, o *model.Pod) bool {
	known := false
	for _, direct := range v.traffic.direct[p.UID] {
		if direct.Service != "" && v.Behind(o, direct) {
			return true
		}
		known = known || direct.Service != ""
	}
	return !known && p.Namespace == o.Namespace
}

// RefusedAtLast reports whether the Pod's own address refused connections when it stopped answering for good. One that
// only timed out may have been cut off.
func (v *Services) RefusedAtLast(p *model.Pod) bool {
	return p.Stopped != nil && slices.ContainsFunc(v.traffic.direct[p.UID], func(t *model.Target) bool {
		u := v.traffic.OutageNear(t.Name, *p.Stopped)
		return u != nil && Count(u.Classes, timeline.Refused) > 0
	})
}

// WasEndpoint reports whether a Pod may have been a ready endpoint before an instant: only then can requests have been
// sent to it.
func (v *Services) WasEndpoint(w *model.Window, p *model.Pod, by time.Duration) bool {
	all := v.Service(w).Endpoints
	return len(all) == 0 || v.watches.LaneOff("endpointslice", w) ||
		slices.ContainsFunc(all, func(e *model.Event) bool {
			return e.Object.UID == p.UID && (cluster.IsReady(e.From) || cluster.IsReady(e.To)) && e.At.Earliest <= by
		})
}

// RoutedAt reports whether the Pod may have been a ready endpoint at some time in a bracket.
func (v *Services) RoutedAt(w *model.Window, p *model.Pod, at model.Instant) bool {
	if v.watches.LaneOff("endpointslice", w) || len(v.Service(w).Endpoints) == 0 {
		return true
	}
	ready := false
	for _, e := range v.Service(w).Endpoints {
		if e.Object.UID != p.UID || e.At.Earliest > at.Latest {
			continue
		}
		if ready = cluster.IsReady(e.To); ready || e.At.Latest >= at.Earliest && cluster.IsReady(e.From) {
			return true
		}
	}
	return false
}

// LeftAfter returns when the Pod's endpoint was seen to leave after an instant; the end of the run if it was not.
func (v *Services) LeftAfter(w *model.Window, p *model.Pod, at time.Duration) time.Duration {
	for _, e := range v.Service(w).Endpoints {
		if e.Object.UID == p.UID && cluster.IsReady(e.From) && !cluster.IsReady(e.To) && e.At.Latest >= at {
			return e.At.Latest
		}
	}
	return v.traffic.End()
}

// routesIn returns the largest number of endpoints that the node can have had routes to: as many as were ready at one
// time, or before an endpoint left that the node may still route to. A node that follows late has older routes.
func (v *Services) routesIn(w *model.Window, at model.Instant) int {
	svc := v.Service(w)
	n := svc.MostReady(at.Earliest-cluster.WatchLag, at.Latest)
	for i, left := range svc.leaves {
		if left.Seen <= at.Latest {
			n = max(n, svc.before[i])
		}
	}
	if n == 0 || v.watches.LaneOff("endpointslice", w) {
		return max(n, len(v.Pods(w)))
	}
	return n
}
