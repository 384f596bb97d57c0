package evidence

import (
	"lapse/correlate/model"
	"lapse/timeline"
	"slices"
)

// EmptySpans returns the empty spans of the window's Service, and none if EndpointSlices could not be watched: then the
// last state proves nothing.
func (v *Services) EmptySpans(w *model.Window) []EmptySpan {
	if v.watches.LaneOff("endpointslice", w) {
		return nil
	}
	return v.Service(w).empty
}

// LocalPolicy is an internalTrafficPolicy or externalTrafficPolicy.
const LocalPolicy = "Local"

// Unrouted returns when no endpoint could get the prober's requests: there was none at all, or none on the node that
// routes them if the Service routes only within a node.
func (v *Services) Unrouted(w *model.Window) []EmptySpan {
	policy, node := v.Policy(w)
	svc := v.Service(w)
	if v.watches.LaneOff("endpointslice", w) || policy != LocalPolicy || node == "" {
		return v.EmptySpans(w)
	}
	spans, known := svc.local[node]
	if !known {
		spans = svc.emptyAmong(v.reachable(w), v.traffic.End())
		svc.local[node] = spans
	}
	return spans
}

// NeverLocal reports whether the Service routes only within a node, and no endpoint of the one that routes the prober's
// requests was ready in the whole run.
func (v *Services) NeverLocal(w *model.Window) bool {
	policy, node := v.Policy(w)
	return policy == LocalPolicy && node != "" && !v.watches.LaneOff("endpointslice", w) &&
		!slices.ContainsFunc(v.reachable(w), func(e *model.Event) bool {
			return e.To == timeline.EndpointReady || e.To == timeline.EndpointTerminatingServing
		})
}

// reachable returns the changes of the endpoints that the prober's requests can be routed to: those on the node that
// routes them, if the Service routes only within a node.
func (v *Services) reachable(w *model.Window) (changes []*model.Event) {
	policy, node := v.Policy(w)
	for _, e := range v.Service(w).Endpoints {
		if policy != LocalPolicy || node == "" || e.Object.Node == node {
			changes = append(changes, e)
		}
	}
	return changes
}

// EmptyNear returns the first span without endpoints that overlaps the window, nil if there is none.
func EmptyNear(v *Services, w *model.Window) *EmptySpan {
	for _, empty := range v.EmptySpans(w) {
		if empty.Whole().Overlaps(w.Span()) {
			return &empty
		}
	}
	return nil
}
