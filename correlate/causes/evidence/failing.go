package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about Pods whose own addresses failed during a window.

// A Failed is a Pod whose own address failed during a window.
type Failed struct {
	Pod    *model.Pod
	Target string        // of its own address
	Outage *model.Window // of that target
	like   int           // how many of the window's failures are of the outage's classes
}

// FailingPods returns the Pods whose own addresses failed during a window, sorted by how similar their failures are to
// the window's. It leaves out Pods that were never ready before that.
func (v *Addresses) FailingPods(w *model.Window) []Failed {
	var found []Failed
	for _, p := range v.services.Pods(w) {
		name := v.DirectName(w, p)
		outage := v.traffic.OutageNear(name, w.Span())
		if outage == nil || !p.ReadyWithin(0, outage.End.Latest) {
			continue
		}
		found = append(found, Failed{p, name, outage, likeness(w, outage)})
	}
	slices.SortStableFunc(found, func(a, b Failed) int { return cmp.Compare(b.like, a.like) })
	return found
}

// likeness returns how many failures of the window have a class that the other window has too.
func likeness(w, other *model.Window) int {
	n := 0
	for class, failed := range w.Classes {
		if other.Classes[class] > 0 {
			n += failed
		}
	}
	return n
}

// stillRouted is how long requests may still be sent to a Pod after its endpoint has left.
const stillRouted = 5 * time.Second

// Alike reports whether a Pod's own address failed in the same way as at least half of the window's requests, while
// requests could be sent to the Pod.
func (v *Addresses) Alike(w *model.Window, f Failed) bool {
	if w.Failed == 0 || 2*f.like < w.Failed {
		return false
	}
	left := f.Pod.EndpointNotReady
	return left == nil || left.Latest+stillRouted >= w.Start.Earliest || f.Pod.EndpointReady != nil &&
		f.Pod.EndpointReady.Latest > left.Latest
}

// Failing returns the Pods whose own addresses failed in the same way as most of the window's requests.
func (v *Addresses) Failing(w *model.Window) (all []model.FailingPod) {
	for _, f := range v.FailingPods(w) {
		if v.Alike(w, f) {
			p := model.FailingPod{Pod: f.Pod.Name, UID: f.Pod.UID, Target: f.Target, Since: f.Outage.Start}
			if end := v.EndBefore(f); end != nil {
				p.Ending = end.ID
			}
			all = append(all, p)
		}
	}
	return all
}

// nearestChange is how long before the failure a change of the Pod is still named.
const nearestChange = 10 * time.Second

// VagueEnd is the widest bracket of a change that still counts as before a failure within the bracket.
const VagueEnd = 1500 * time.Millisecond

// EndBefore returns the event that shows what ended a failing Pod, if it came before the Pod's address failed; else
// nil.
func (v *Addresses) EndBefore(f Failed) *model.Event {
	if f.Pod.Ending == nil {
		return nil
	}
	e, since := v.changes.Event(f.Pod.Ending.Event), f.Outage.Start
	if e == nil || !e.At.Bounded() || e.At.Earliest > since.Latest || since.Earliest > e.At.Latest+time.Minute {
		return nil
	}
	if f.Pod.Ending.By == model.ByItself && e.At.Latest > since.Latest && e.At.Latest-e.At.Earliest > VagueEnd {
		return nil
	}
	return e
}

// ChangeBefore returns what changed of a failing Pod before its address failed: what ended it, else the last change.
// It returns "" if nothing did.
func (v *Addresses) ChangeBefore(f Failed) (what string, event *model.Event) {
	since := f.Outage.Start
	if e := v.EndBefore(f); e != nil {
		if f.Pod.Ending.By == model.ByItself {
			return f.Pod.Ending.Text, e
		}
		return "it was " + f.Pod.Ending.Text, e
	}
	for _, e := range v.changes.About[f.Pod.UID] {
		if isChange(e) && e.Kind != timeline.PodGone && e.Kind != timeline.PodContainer && e.At.Bounded() &&
			e.At.Earliest <= since.Latest && since.Earliest <= e.At.Latest+nearestChange {
			what, event = plainly(e), e
		}
	}
	return what, event
}

// plainly says in words what happened to a Pod.
func plainly(e *model.Event) string {
	switch e.Kind {
	case timeline.PodSeen:
		return "it was created"
	case timeline.PodScheduled:
		return "it was scheduled to " + e.To
	case timeline.PodReady:
		return "its Ready condition turned " + e.To
	case timeline.EndpointChanged:
		return "its endpoint " + Turned(e.To)
	case timeline.KubeEvent:
		return fmt.Sprintf("its Event %s (%s)", e.To, e.Detail)
	}
	return Describe(e)
}

// Plainly says in words what changed of an object, by its name.
func Plainly(e *model.Event) string {
	name := e.Object.Name
	switch e.Kind {
	case timeline.PodSeen:
		return name + " was created"
	case timeline.PodDeleted:
		return name + " was deleted"
	case timeline.PodGone:
		if e.Detail == timeline.NoLongerSelected {
			return name + " was no longer selected by the Service"
		}
		return name + " was gone"
	case timeline.PodContainer:
		return fmt.Sprintf("a container of %s was %s", name, e.To)
	case timeline.PodScheduled:
		return name + " was scheduled to " + e.To
	case timeline.PodReady:
		return fmt.Sprintf("the Ready condition of %s turned %s", name, e.To)
	case timeline.EndpointChanged:
		return fmt.Sprintf("the endpoint of %s %s", name, Turned(e.To))
	case timeline.KubeEvent:
		return fmt.Sprintf("Event %s of %s", e.To, name)
	}
	return Describe(e)
}

// Turned says what an endpoint did that has this state now.
func Turned(to string) string {
	switch to {
	case timeline.EndpointReady:
		return "became ready"
	case timeline.EndpointAbsent:
		return "was removed"
	case timeline.EndpointNotReady:
		return "became not ready"
	}
	return "turned " + to
}

// Slow returns the Pods that answered late at their own addresses during a window of late answers.
func (v *Addresses) Slow(w *model.Window) (pods []*model.Pod) {
	if w.Kind != model.Slow {
		return nil
	}
	for _, p := range v.services.Pods(w) {
		if u := v.traffic.TroubleNear(v.DirectName(w, p), w.Span(), true); u != nil && u.Kind == model.Slow {
			pods = append(pods, p)
		}
	}
	return pods
}
