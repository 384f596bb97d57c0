package evidence

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file is what several rules say of a Pod that ends.

// CutClasses are how requests fail whose connection ends under them.
var CutClasses = []timeline.Class{timeline.Reset, timeline.EOF, timeline.Body}

// CutIn reports whether a failed request was cut in a time.
func CutIn(f *model.Failure, in model.Instant) bool {
	return slices.Contains(CutClasses, f.Class) && f.Latest() >= in.Earliest && f.Done-f.Error <= in.Latest
}

// Moment is for how long after a Pod stopped listening the connections it had accepted may be reset.
const Moment = 100 * time.Millisecond

// NextUse is after how many requests each of a target's connections has been used.
func NextUse(t *model.Target) int { return cmp.Or(t.Connections, usualConnections) + 1 }

// usualConnections is how many persistent connections are kept where a recording does not say.
const usualConnections = 10

// SignsOfEnd are a Pod's end as it was watched: what came before its stop, or may have, and what came after.
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

// NotKilled has a doubt if the Pod was killed: then its requests in flight were cut, whatever else went on.
func NotKilled(p *model.Pod) []Sign {
	if p.ExitCode == nil || *p.ExitCode != Killed {
		return nil
	}
	return []Sign{Doubt(Watched, fmt.Sprintf("%s was killed (exit code %d), perhaps because its grace period was over: that cuts all that is in flight", p.Name, Killed))}
}

// A PartialEnd is that the first container of a Pod ended some time before the last, by its kubelet's clock.
type PartialEnd struct {
	First, Last string
	From, To    time.Time
	Apart       time.Duration // at least
	Event       *model.Event  // of the first
	Serves      bool          // the last one has a probe over the network: it is a server
	Known       bool          // whether it has
	Forced      bool          // the last one did not end until it was killed
}

// apartAtLeast is how far apart containers of a Pod end that do not end together.
const apartAtLeast = 2 * time.Second

// EndedInParts is how the containers of a Pod ended whose first one ended when the Pod stopped; nil if they ended
// together, or the first did at another time, or there is only one. Containers that serve a port each do not count:
// neither stands before the other.
func (v *Endings) EndedInParts(s *PodStop) *PartialEnd {
	var first, last *model.Event
	for _, e := range v.changes.Ends[s.Pod.UID] {
		if first == nil || e.Stamp.Before(*first.Stamp) {
			first = e
		}
		if last == nil || e.Stamp.After(*last.Stamp) {
			last = e
		}
	}
	if first == nil || v.Run.T0.IsZero() || v.otherPortServed(s) {
		return nil
	}
	const second = time.Second // stamps are rounded down to it
	p := &PartialEnd{First: containerOf(first), Last: containerOf(last), From: *first.Stamp, To: *last.Stamp, Apart: last.Stamp.Sub(*first.Stamp) - second, Event: first, Forced: last.ExitCode != nil && *last.ExitCode == Killed}
	at := first.Stamp.Sub(v.Run.T0)
	about := model.Instant{Earliest: at - cluster.ClocksApart, Latest: at + second + cluster.ClocksApart}
	if p.First == p.Last || p.Apart < apartAtLeast || !about.Overlaps(s.At) {
		return nil
	}
	if t := v.templates[s.Pod.Template]; t != nil {
		p.Known = true
		for _, c := range t.Containers {
			p.Serves = p.Serves || c.Name == p.Last && (AsksNetwork(c.Readiness) || AsksNetwork(c.Liveness) || AsksNetwork(c.Startup))
		}
	}
	return p
}

// otherPortServed reports whether another port of the Pod went on answering at its own address when one had stopped.
func (v *Endings) otherPortServed(s *PodStop) bool {
	stopped := v.traffic.Targets[s.Target]
	if stopped == nil {
		return false
	}
	return slices.ContainsFunc(v.traffic.direct[s.Pod.UID], func(t *model.Target) bool {
		last := v.traffic.Measured(t).FirstLast.LastOK
		return PortOf(t.Addr) != PortOf(stopped.Addr) && last != nil && last.Sent > s.At.Latest+apartAtLeast
	})
}

// PortOf is the port of an address; empty if it has none.
func PortOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// AsksNetwork reports whether a probe asks over the network, and not by a command.
func AsksNetwork(p *timeline.Probe) bool { return p != nil && p.Kind != "exec" }

// containerOf is the name of the container that an event is about.
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

// GivenGrace is the grace period that a Pod was deleted with; known is false where it was not deleted, or that is not
// known.
func (v *Changes) GivenGrace(p *model.Pod) (grace time.Duration, known bool) {
	deleted := v.Event(v.IDOf(p, timeline.PodDeleted, p.Deleted))
	if deleted == nil || deleted.Grace == nil {
		return 0, false
	}
	return *deleted.Grace, true
}
