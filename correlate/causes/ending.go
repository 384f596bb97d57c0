package causes

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

// cutClasses are how requests fail whose connection ends under them.
var cutClasses = []timeline.Class{timeline.Reset, timeline.EOF, timeline.Body}

// cutIn reports whether a failed request was cut in a time.
func cutIn(f *model.Failure, in model.Instant) bool {
	return slices.Contains(cutClasses, f.Class) && f.Latest() >= in.Earliest && f.Done-f.Error <= in.Latest
}

// moment is for how long after a Pod stopped listening the connections it had accepted may be reset.
const moment = 100 * time.Millisecond

// nextUse is after how many requests each of a target's connections has been used.
func nextUse(t *model.Target) int { return cmp.Or(t.Connections, usualConnections) + 1 }

// usualConnections is how many persistent connections are kept where a recording does not say.
const usualConnections = 10

// signsOfEnd are a Pod's end as it was watched: what came before its stop, or may have, and what came after.
func signsOfEnd(v *index, p *model.Pod, stop model.Instant) (before, after []model.Evidence) {
	add := func(to *[]model.Evidence, at *model.Instant, kind timeline.EventKind, text string) {
		if at != nil {
			*to = append(*to, model.Evidence{Event: v.changeOf(p, kind, at), At: at, Text: p.Name + " " + text})
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

// killed is the exit code of a process that SIGKILL ended.
const killed = 137

// notKilled has a doubt if the Pod was killed: then its requests in flight were cut, whatever else went on.
func notKilled(p *model.Pod) []Sign {
	if p.ExitCode == nil || *p.ExitCode != killed {
		return nil
	}
	return []Sign{doubt(Watched, fmt.Sprintf("%s was killed (exit code %d), perhaps because its grace period was over: that cuts all that is in flight", p.Name, killed))}
}

// A partialEnd is that the first container of a Pod ended some time before the last, by its kubelet's clock.
type partialEnd struct {
	first, last string
	from, to    time.Time
	apart       time.Duration // at least
	event       *model.Event  // of the first
	serves      bool          // the last one has a probe over the network: it is a server
	known       bool          // whether it has
	forced      bool          // the last one did not end until it was killed
}

// apartAtLeast is how far apart containers of a Pod end that do not end together.
const apartAtLeast = 2 * time.Second

// endedInParts is how the containers of a Pod ended whose first one ended when the Pod stopped; nil if they ended
// together, or the first did at another time, or there is only one. Containers that serve a port each do not count:
// neither stands before the other.
func (v *index) endedInParts(s *podStop) *partialEnd {
	var first, last *model.Event
	for _, e := range v.ends[s.pod.UID] {
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
	p := &partialEnd{first: containerOf(first), last: containerOf(last), from: *first.Stamp, to: *last.Stamp, apart: last.Stamp.Sub(*first.Stamp) - second, event: first, forced: last.ExitCode != nil && *last.ExitCode == killed}
	at := first.Stamp.Sub(v.Run.T0)
	about := model.Instant{Earliest: at - cluster.ClocksApart, Latest: at + second + cluster.ClocksApart}
	if p.first == p.last || p.apart < apartAtLeast || !about.Overlaps(s.at) {
		return nil
	}
	if t := v.templates[s.pod.Template]; t != nil {
		p.known = true
		for _, c := range t.Containers {
			p.serves = p.serves || c.Name == p.last && (asksNetwork(c.Readiness) || asksNetwork(c.Liveness) || asksNetwork(c.Startup))
		}
	}
	return p
}

// otherPortServed reports whether another port of the Pod went on answering at its own address when one had stopped.
func (v *index) otherPortServed(s *podStop) bool {
	stopped := v.targets[s.target]
	if stopped == nil {
		return false
	}
	return slices.ContainsFunc(v.direct[s.pod.UID], func(t *model.Target) bool {
		last := v.probed(t).FirstLast.LastOK
		return portOf(t.Addr) != portOf(stopped.Addr) && last != nil && last.Sent > s.at.Latest+apartAtLeast
	})
}

// portOf is the port of an address; empty if it has none.
func portOf(addr string) string {
	_, port, _ := net.SplitHostPort(addr)
	return port
}

// asksNetwork reports whether a probe asks over the network, and not by a command.
func asksNetwork(p *timeline.Probe) bool { return p != nil && p.Kind != "exec" }

// containerOf is the name of the container that an event is about.
func containerOf(e *model.Event) string {
	name, _, _ := strings.Cut(e.Detail, " ")
	return name
}

// giveGrace says how a Pod that was deleted with grace period 0 gets one.
func (v *index) giveGrace(p *model.Pod) string {
	if t := v.templates[p.Template]; t != nil && t.Grace == 0 {
		return "raise terminationGracePeriodSeconds (it is 0, as where a Pod is deleted by force)"
	}
	return "delete without --force --grace-period=0"
}

// givenGrace is the grace period that a Pod was deleted with; known is false where it was not deleted, or that is not
// known.
func (v *index) givenGrace(p *model.Pod) (grace time.Duration, known bool) {
	deleted := v.event(v.changeOf(p, timeline.PodDeleted, p.Deleted))
	if deleted == nil || deleted.Grace == nil {
		return 0, false
	}
	return *deleted.Grace, true
}
