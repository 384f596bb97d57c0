package evidence

import (
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about the ends of containers and of endpoints.

// ProbeKilled is the reason of crashes, and of there being no endpoint: the liveness probe ended the container.
const ProbeKilled = "liveness"

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

// IsRestart reports whether a kubelet restarts a container because its spec was changed, by its words: "Container main
// resize requires restart", "Container main definition changed, will be restarted" (kubernetes,
// pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions).
func IsRestart(words string) bool {
	return strings.HasSuffix(words, " resize requires restart") ||
		strings.HasSuffix(words, " definition changed, will be restarted")
}

// Killing returns the Event by which a kubelet said that it would end the container, with words that say why; nil if
// there is none.
func (v *Changes) Killing(p *model.Pod, ended *model.Event, why func(words string) bool) *model.Event {
	for _, e := range v.About[p.UID] {
		if e.Kind == timeline.KubeEvent && e.To == "Killing" && why(e.Detail) &&
			strings.HasPrefix(e.Detail, "Container "+containerOf(ended)+" ") &&
			ended.At.Earliest-time.Minute <= e.At.Latest && e.At.Earliest <= ended.At.Latest &&
			!v.StartedBetween(p, e, ended.Seen) {
			return e
		}
	}
	return nil
}

// StartedBetween reports whether a container of the Pod was seen to start after an event and before an instant: then
// the event has nothing to do with what happened later.
func (v *Changes) StartedBetween(p *model.Pod, after *model.Event, before time.Duration) bool {
	return slices.ContainsFunc(v.About[p.UID], func(e *model.Event) bool {
		return e.Kind == timeline.PodContainer && e.To == "running" && after.Seen < e.Seen && e.Seen < before
	})
}

// EndedItself returns the last unrequested end of a container of the Pod within a bracket; nil if there is none.
func (v *Changes) EndedItself(p *model.Pod, in model.Instant) (last *model.Event) {
	for _, e := range v.About[p.UID] {
		if e.Kind == timeline.PodContainer && e.From == "running" && e.To == "terminated" && e.At.Bounded() &&
			e.At.Overlaps(in) && !p.TerminatingBy(e.At.Latest) && v.Killing(p, e, IsRestart) == nil {
			last = e
		}
	}
	return last
}

// EndedByKubelet returns the event that shows that a kubelet ended the whole Pod without a deletion: a condition or the
// Pod's phase. It is nil if there is none.
func (v *Changes) EndedByKubelet(p *model.Pod, ended *model.Event) *model.Event {
	for _, e := range v.About[p.UID] {
		if (e.Seen - ended.Seen).Abs() > time.Minute {
			continue
		}
		if e.Kind == timeline.PodDisrupted && e.To == "TerminationByKubelet" || e.Kind == timeline.PodPhase &&
			e.To == "Failed" && e.Detail != "" {
			return e
		}
	}
	return nil
}
