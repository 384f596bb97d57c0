package evidence

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about the ends of Pods, of containers and of endpoints.

// ProbeKilled is the reason of crashes, and of there being no endpoint: the liveness probe ended the container.
const ProbeKilled = "liveness"

// IsRestart reports whether a kubelet restarts a container because its spec was changed, by its words: "Container main
// resize requires restart", "Container main definition changed, will be restarted" (kubernetes,
// pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions).
func IsRestart(words string) bool {
	return strings.HasSuffix(words, " resize requires restart") ||
		strings.HasSuffix(words, " definition changed, will be restarted")
}

// Killing returns the Event by which a kubelet said that it would end the container, with words that say why; nil if
// there is none. The container may end much later: its preStop hook, and its grace period, come between.
func (v *Changes) Killing(p *model.Pod, ended *model.Event, why func(words string) bool) *model.Event {
	for _, e := range v.About[p.UID] {
		if e.Kind == timeline.KubeEvent && e.To == "Killing" && why(e.Detail) &&
			strings.HasPrefix(e.Detail, "Container "+containerOf(ended)+" ") &&
			e.At.Earliest <= ended.At.Latest && !v.StartedBetween(p, e, ended.Seen) {
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

// containerOf returns the name of the container that an event is about.
func containerOf(e *model.Event) string {
	name, _, _ := strings.Cut(e.Detail, " ")
	return name
}

// AnyEnds reports whether one of these Pods was ending during a window, or exited.
func AnyEnds(pods []*model.Pod, w *model.Window) bool {
	return slices.ContainsFunc(pods, func(p *model.Pod) bool {
		return p.TerminatingBy(w.End.Latest) && (p.Gone == nil || p.Gone.Latest >= w.Start.Earliest) ||
			p.Exited != nil && p.Exited.Overlaps(w.Span())
	})
}

// SignsOfEnd returns what was watched of a Pod's end: what came before its stop, or may have, and what came after.
func SignsOfEnd(v *Changes, p *model.Pod, stop model.Instant) (before, after []model.Evidence) {
	add := func(to *[]model.Evidence, at *model.Instant, kind timeline.EventKind, text string) {
		if at != nil {
			*to = append(*to, model.Evidence{Event: v.IDOf(p, kind, at), At: at, Text: p.Name + " " + text})
		}
	}
	add(&before, p.Deleted, timeline.PodDeleted, "was deleted")
	left := &before
	if p.EndpointNotReady != nil && p.EndpointNotReady.Earliest > stop.Latest {
		left = &after
	}
	add(left, p.EndpointNotReady, timeline.EndpointChanged, "left the ready endpoints")
	add(&before, p.Killing, timeline.KubeEvent, "was being killed by its kubelet")
	add(&after, p.Exited, timeline.PodContainer, "exited")
	if p.EndpointRemoved != nil && (p.EndpointNotReady == nil || *p.EndpointRemoved != *p.EndpointNotReady) {
		add(&after, p.EndpointRemoved, timeline.EndpointChanged, "left the EndpointSlice")
	}
	return before, after
}

// Killed is the exit code of a process that SIGKILL ended.
const Killed = 137

// NotKilled returns a doubt if the Pod was killed: then its requests in flight were cut in any case.
func NotKilled(p *model.Pod) []Sign {
	if p.ExitCode == nil || *p.ExitCode != Killed {
		return nil
	}
	return []Sign{Watched.Doubt(fmt.Sprintf("%s was killed (exit code %d), perhaps because its grace period was "+
		"over: that cuts all that is in flight", p.Name, Killed))}
}
