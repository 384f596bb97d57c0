package evidence

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is about Pods that end.

// CutClasses are the classes of requests whose connection ended before the answer was complete.
var CutClasses = []timeline.Class{timeline.Reset, timeline.EOF, timeline.Body}

// CutIn reports whether a failed request was cut within a bracket.
func CutIn(f *model.Failure, in model.Instant) bool {
	return slices.Contains(CutClasses, f.Class) && f.Latest() >= in.Earliest && f.Done-f.Error <= in.Latest
}

// Moment is how long after a Pod stopped listening the connections it had accepted may be reset.
const Moment = 100 * time.Millisecond

// NextUse returns the number of requests after which each of a target's connections has been used.
func NextUse(t *model.Target) int { return cmp.Or(t.Connections, usualConnections) + 1 }

// usualConnections is the number of persistent connections if a recording does not say.
const usualConnections = 10

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

// A PartialEnd is a Pod whose first container ended some time before the last, by its kubelet's clock.
type PartialEnd struct {
	First, Last string
	From, To    time.Time
	Apart       time.Duration // at least
	Event       *model.Event  // of the first
	Serves      bool          // the last one has a probe over the network: it is a server
	Known       bool          // whether it has
	Forced      bool          // the last one did not end until it was killed
}

// apartAtLeast is how far apart the ends of a Pod's containers must be to count as separate.
const apartAtLeast = 2 * time.Second

// EndedInParts returns how a Pod's containers ended one after the other, the first when the Pod stopped. It returns nil
// if they ended together, if the first ended at another time, or if there is only one. Containers that serve a port
// each do not count: no request passes through both.
func (v *Endings) EndedInParts(s *PodStop) *PartialEnd {
	var first, last *model.Event
	for _, e := range v.changes.Ends[s.Pod.UID] {
		if first == nil || e.Stamp.Before(first.Stamp) {
			first = e
		}
		if last == nil || e.Stamp.After(last.Stamp) {
			last = e
		}
	}
	if first == nil || v.Run.T0.IsZero() || v.otherPortServed(s) {
		return nil
	}
	const second = time.Second // stamps are rounded down to it
	p := &PartialEnd{
		First:  containerOf(first),
		Last:   containerOf(last),
		From:   first.Stamp,
		To:     last.Stamp,
		Apart:  last.Stamp.Sub(first.Stamp) - second,
		Event:  first,
		Forced: last.ExitCode != nil && *last.ExitCode == Killed,
	}
	at := first.Stamp.Sub(v.Run.T0)
	about := model.Instant{Earliest: at - cluster.ClocksApart, Latest: at + second + cluster.ClocksApart}
	if p.First == p.Last || p.Apart < apartAtLeast || !about.Overlaps(s.At) {
		return nil
	}
	if t := v.templates[s.Pod.Template]; t != nil {
		p.Known = true
		for _, c := range t.Containers {
			p.Serves = p.Serves || c.Name == p.Last && (AsksNetwork(c.Readiness) || AsksNetwork(c.Liveness) ||
				AsksNetwork(c.Startup))
		}
	}
	return p
}

// otherPortServed reports whether another port of the Pod still answered after one had stopped.
func (v *Endings) otherPortServed(s *PodStop) bool {
	stopped := v.traffic.Targets[s.Target]
	if stopped == nil {
		return false
	}
	return slices.ContainsFunc(v.traffic.direct[s.Pod.UID], func(t *model.Target) bool {
		last := v.traffic.Measured(t).FirstLast.LastOK
		return t.Addr.Port() != stopped.Addr.Port() && last != nil && last.Sent > s.At.Latest+apartAtLeast
	})
}

// AsksNetwork reports whether a probe asks over the network: it is no command.
func AsksNetwork(p *timeline.Probe) bool { return p != nil && p.Kind != "exec" }

// containerOf returns the name of the container that an event is about.
func containerOf(e *model.Event) string {
	name, _, _ := strings.Cut(e.Detail, " ")
	return name
}

// GiveGrace says how a Pod that was deleted with grace period 0 gets one.
func (v Templates) GiveGrace(p *model.Pod) string {
	if t := v[p.Template]; t != nil && t.Grace == 0 {
		return "raise terminationGracePeriodSeconds (it is 0, as where a Pod is deleted by force)"
	}
	return "delete without --force --grace-period=0"
}

// GivenGrace returns the grace period that a Pod was deleted with; known is false if it is not known or the Pod was not
// deleted.
func (v *Changes) GivenGrace(p *model.Pod) (grace time.Duration, known bool) {
	deleted := v.Event(v.IDOf(p, timeline.PodDeleted, p.Deleted))
	if deleted == nil || deleted.Grace == nil {
		return 0, false
	}
	return *deleted.Grace, true
}
