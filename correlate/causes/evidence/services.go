package evidence

import (
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A Service is what the rules ask about what stands behind a window, or about all there is if the
// window's target is a bare URL.
type Service struct {
	frontend
	pods      []*model.Pod
	probes    map[string]Probe // of their own addresses, by UID
	Endpoints []*model.Event   // their changes, by Seen
	// by UID of its Pod: the place in the order in which endpoints left the ready ones; those that one update took away
	// share it
	order   map[string]int
	leaves  []*model.Event         // by that place
	before  []int                  // by that place: how many endpoints were ready before
	steps   []model.EndpointStep   // how many endpoints were ready
	empty   []EmptySpan            // when there was no endpoint to route to
	local   map[string][]EmptySpan // and none on a node; by the node
	longest *LongestLag            // nil until asked for
	outages []Suspect              // of its Pods at their own addresses; nil until asked for
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
	svc := &Service{frontend: f, probes: map[string]Probe{}, local: map[string][]EmptySpan{}}
	v.services[f], v.served[t.Name] = svc, svc
	strangers := map[string]bool{}
	for i := range v.Run.Pods {
		p := &v.Run.Pods[i]
		if v.behind(p, t) {
			svc.pods = append(svc.pods, p)
		} else {
			strangers[p.UID] = true
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
	return svc
}

// Pods returns the Pods that may stand behind the window's Service.
func (v *Services) Pods(w *model.Window) []*model.Pod { return v.Service(w).pods }

// behind reports whether the Pod may serve the target: its direct target says for which Services it
// does. Where none does, or the target is a bare URL, no Pod can be ruled out but by its namespace.
func (v *Services) behind(p *model.Pod, t *model.Target) bool {
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
	namespace, _, _ := strings.Cut(t.Service, "/")
	return !known && p.Namespace == namespace
}
