package evidence

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about Pods whose containers ended without a request to the API server.

// ProbeKilled is the reason of crashes, and of there being no endpoint: the liveness probe ended the container.
const ProbeKilled = "liveness"

// A Crash is the unrequested end of a container.
type Crash struct {
	Pod   *model.Pod
	Event *model.Event
	Own   *Suspect      // the outage of the Pod's own address; nil if that was not measured
	Never bool          // the Pod's own address had never answered before
	at    model.Instant // when it ended
	until time.Duration // requests can have been routed to it until then
	Kill  *model.Event  // of its kubelet, because a probe failed; nil if it ended by itself
	// of its kubelet, because the container must be restarted, as for a resize in place; nil if that is not so
	Anew  *model.Event
	Ended *model.Event // its kubelet ended the whole Pod, for its own reasons; nil if it did not
}

// In returns the crashes that can explain failures of the window, in order.
func (v *Crashes) In(w *model.Window) (all []Crash) {
	for _, p := range v.services.Pods(w) {
		all = append(all, v.crashesOf(w, p)...)
	}
	slices.SortStableFunc(all, func(a, b Crash) int { return cmp.Compare(a.at.Earliest, b.at.Earliest) })
	return all
}

// crashesOf returns the crashes of one Pod.
func (v *Crashes) crashesOf(w *model.Window, p *model.Pod) (all []Crash) {
	for _, e := range v.changes.About[p.UID] {
		if e.Kind != timeline.PodContainer || e.From != "running" || e.To != "terminated" || !e.At.Bounded() ||
			p.TerminatingBy(e.At.Latest) {
			continue
		}
		if !v.services.routedAt(w, p, e.At) {
			continue
		}
		never := v.neverServed(w, p, e.At.Latest)
		if never && e.ExitCode != nil && *e.ExitCode == 0 {
			continue // it was done, as a Job's is
		}
		cr := Crash{Pod: p, Event: e, Never: never, at: e.At, until: v.services.leftAfter(w, p, e.At.Earliest) +
			TooLate, Kill: v.changes.killing(p, e, isProbeKill), Anew: v.changes.killing(p, e, isRestart),
			Ended: v.changes.endedByKubelet(p, e)}
		for _, s := range v.suspects.ownOutages(w) { // the last one that fits: a clock may be slow
			if s.Pod == p && !never && crashed(s.Outage) &&
				e.At.Overlaps(model.Instant{Earliest: s.Outage.Start.Earliest, Latest: s.Outage.Start.Latest +
					cluster.KubeletLag}) &&
				(cr.Own == nil || s.Outage.Start.Latest > cr.Own.Outage.Start.Latest) {
				cr.Own, cr.at, cr.until = &s, s.Outage.Start, min(cr.until, s.Until)
			}
		}
		if cr.at.Earliest <= v.traffic.Onset(w).Latest && w.Start.Earliest <= cr.until &&
			v.MadeByCrashes(w, []Crash{cr}) > 0 {
			all = append(all, cr)
		}
	}
	return all
}

// neverServed reports whether the Pod's own address was probed, and had not answered until an instant.
func (v *Crashes) neverServed(w *model.Window, p *model.Pod, until time.Duration) bool {
	own := v.addresses.Probe(w, p)
	return own.Target != "" && (own.FirstOK == nil || *own.FirstOK > until)
}

// crashed reports whether an address failed as if its process were gone: connections are refused or time out, and
// requests in flight are cut.
func crashed(u *model.Window) bool {
	return Count(u.Classes, timeline.Refused, timeline.Unreachable, timeline.TimeoutConnect, timeline.Reset,
		timeline.EOF) > 0
}

// routedAt reports whether the Pod may have been a ready endpoint at some time in a bracket.
func (v *Services) routedAt(w *model.Window, p *model.Pod, at model.Instant) bool {
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

// leftAfter returns when the Pod's endpoint was seen to leave after an instant; the end of the run if it was not.
func (v *Services) leftAfter(w *model.Window, p *model.Pod, at time.Duration) time.Duration {
	for _, e := range v.Service(w).Endpoints {
		if e.Object.UID == p.UID && cluster.IsReady(e.From) && !cluster.IsReady(e.To) && e.At.Latest >= at {
			return e.At.Latest
		}
	}
	return v.traffic.End()
}

// isProbeKill reports whether a kubelet ends a container because a probe failed, by its words: "Container main failed
// liveness probe, will be restarted".
func isProbeKill(words string) bool { return strings.HasSuffix(words, " probe, will be restarted") }

// isRestart reports whether a kubelet restarts a container because its spec was changed, by its words: "Container main
// resize requires restart", "Container main definition changed, will be restarted" (kubernetes,
// pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions).
func isRestart(words string) bool {
	return strings.HasSuffix(words, " resize requires restart") ||
		strings.HasSuffix(words, " definition changed, will be restarted")
}

// killing returns the Event by which a kubelet said that it would end the container, with words that say why; nil if
// there is none.
func (v *Changes) killing(p *model.Pod, ended *model.Event, why func(words string) bool) *model.Event {
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
			e.At.Overlaps(in) && !p.TerminatingBy(e.At.Latest) && v.killing(p, e, isRestart) == nil {
			last = e
		}
	}
	return last
}

// endedByKubelet returns the event that shows that a kubelet ended the whole Pod without a deletion: a condition or the
// Pod's phase. It is nil if there is none.
func (v *Changes) endedByKubelet(p *model.Pod, ended *model.Event) *model.Event {
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

// FailedAbout reports whether one of a Pod's own addresses failed at about this time, routed to or not.
func (v *Crashes) FailedAbout(w *model.Window, p *model.Pod, at model.Instant) bool {
	return slices.ContainsFunc(v.addresses.DirectOf(w, p), func(t *model.Target) bool {
		return v.traffic.OutageNear(t.Name,
			model.Instant{Earliest: at.Earliest, Latest: at.Latest + cluster.KubeletLag}) != nil
	})
}

// MadeByCrashes returns how many failures of a window the crashes can explain: connections that were refused or lost
// while the Pod was routed to, and requests in flight when it crashed.
func (v *Crashes) MadeByCrashes(w *model.Window, crashes []Crash) int {
	own := v.traffic.Failures(w)
	n := 0
	for i := range own {
		f := &own[i]
		if slices.ContainsFunc(crashes, func(cr Crash) bool {
			switch f.Class {
			case timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot:
				return cr.at.Earliest <= Arrived(f) && f.Earliest() <= cr.until
			case timeline.Reset, timeline.EOF, timeline.Body, timeline.TimeoutResponse:
				return f.Earliest() <= cr.until && cr.at.Earliest <= f.Latest()
			}
			return false
		}) {
			n++
		}
	}
	if n > 0 {
		n += max(0, w.Failed-len(own)) // beyond the cap of the list
	}
	return n
}

func (cr *Crash) Signs() []Sign {
	var signs []Sign
	for _, said := range []*model.Event{cr.Kill, cr.Anew} {
		if said != nil {
			signs = append(signs, Watched.Seen(said, cr.Pod.Name+": "+said.Detail))
		}
	}
	if cr.Own != nil {
		signs = append(signs, Measured.Target(cr.Own.Target, &cr.Own.Outage.Start,
			cr.Pod.Name+" itself stopped answering: "+quantity.ClassCounts(cr.Own.Outage.Classes)))
	}
	return append(signs, Watched.Seen(cr.Event, cr.Pod.Name+": "+cr.How()))
}

// How says how the container ended: "main ended by itself, exit code 137 (OOMKilled)".
func (cr *Crash) How() string {
	how := cluster.ContainerEnd(cr.Event)
	if cr.Kill != nil {
		probe := "liveness"
		if strings.Contains(cr.Kill.Detail, "startup") {
			probe = "startup"
		}
		how = strings.Replace(how, "ended by itself", "was ended because its "+probe+" probe failed", 1)
	}
	if cr.Anew != nil {
		how = strings.Replace(how, "ended by itself", "was ended to be restarted", 1)
	}
	return how
}
