package causes

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

// This file is what several rules say of Pods whose containers ended though nobody had asked the API server for it.

// probeKilled is the reason of crashes, and of there being no endpoint: the liveness probe ended the container.
const probeKilled = "liveness"

// A crash is the end of a container that nobody had asked for.
type crash struct {
	pod   *model.Pod
	event *model.Event
	own   *suspect      // the outage of the Pod's own address; nil if that was not measured
	never bool          // the Pod's own address had never answered before
	at    model.Instant // when it ended
	until time.Duration // requests can have been routed to it until then
	kill  *model.Event  // of its kubelet, because a probe failed; nil if it ended by itself
	anew  *model.Event  // of its kubelet, because the container has to be started anew, as for a resize in place; nil if that is not so
	ended *model.Event  // its kubelet ended the whole Pod, for its own reasons; nil if it did not
}

// crashes are the ends of containers that can have made failures of the window, as they happened.
func (v *index) crashes(w *model.Window) (all []crash) {
	for _, p := range v.pods(w) {
		all = append(all, v.crashesOf(w, p)...)
	}
	slices.SortStableFunc(all, func(a, b crash) int { return cmp.Compare(a.at.Earliest, b.at.Earliest) })
	return all
}

// crashesOf are those of one Pod.
func (v *index) crashesOf(w *model.Window, p *model.Pod) (all []crash) {
	for _, e := range v.about[p.UID] {
		if e.Kind != timeline.PodContainer || e.From != "running" || e.To != "terminated" || !e.At.Bounded() || p.TerminatingBy(e.At.Latest) {
			continue
		}
		if !v.routedAt(w, p, e.At) {
			continue
		}
		never := v.neverServed(w, p, e.At.Latest)
		if never && e.ExitCode != nil && *e.ExitCode == 0 {
			continue // it was done, as a Job's is
		}
		cr := crash{pod: p, event: e, never: never, at: e.At, until: v.leftAfter(w, p, e.At.Earliest) + tooLate, kill: v.killing(p, e, isProbeKill), anew: v.killing(p, e, isRestart), ended: v.endedByKubelet(p, e)}
		for _, s := range v.ownOutages(w) { // the last one that fits: a clock may be slow
			if s.pod == p && !never && crashed(s.outage) && e.At.Overlaps(model.Instant{Earliest: s.outage.Start.Earliest, Latest: s.outage.Start.Latest + cluster.KubeletLag}) &&
				(cr.own == nil || s.outage.Start.Latest > cr.own.outage.Start.Latest) {
				cr.own, cr.at, cr.until = &s, s.outage.Start, min(cr.until, s.until)
			}
		}
		if cr.at.Earliest <= v.onset(w).Latest && w.Start.Earliest <= cr.until && v.madeByCrashes(w, []crash{cr}) > 0 {
			all = append(all, cr)
		}
	}
	return all
}

// neverServed reports whether the Pod's own address was probed, and had not answered until an instant.
func (v *index) neverServed(w *model.Window, p *model.Pod, until time.Duration) bool {
	own := v.probe(w, p)
	return own.target != "" && (own.firstOK == nil || *own.firstOK > until)
}

// crashed reports whether an address failed as one whose process is gone: its kernel refuses or nobody answers, and
// what was under way is cut.
func crashed(u *model.Window) bool {
	return some(u.Classes, timeline.Refused, timeline.Unreachable, timeline.TimeoutConnect, timeline.Reset, timeline.EOF) > 0
}

// routedAt reports whether the Pod was an endpoint that was routed to at some time in a bracket, as far as is known.
func (v *index) routedAt(w *model.Window, p *model.Pod, at model.Instant) bool {
	if v.laneOff("endpointslice", w) || len(v.service(w).endpoints) == 0 {
		return true
	}
	ready := false
	for _, e := range v.service(w).endpoints {
		if e.Object.UID != p.UID || e.At.Earliest > at.Latest {
			continue
		}
		if ready = cluster.IsReady(e.To); ready || e.At.Latest >= at.Earliest && cluster.IsReady(e.From) {
			return true
		}
	}
	return false
}

// leftAfter is when the Pod's endpoint was seen to leave after an instant; the end of the run if it was not.
func (v *index) leftAfter(w *model.Window, p *model.Pod, at time.Duration) time.Duration {
	for _, e := range v.service(w).endpoints {
		if e.Object.UID == p.UID && cluster.IsReady(e.From) && !cluster.IsReady(e.To) && e.At.Latest >= at {
			return e.At.Latest
		}
	}
	return v.end()
}

// isProbeKill reports whether a kubelet's words say that it ends a container because a probe of it failed: "Container
// main failed liveness probe, will be restarted".
func isProbeKill(words string) bool { return strings.HasSuffix(words, " probe, will be restarted") }

// isRestart reports whether they say that it ends a container to start it anew, because its spec was changed:
// "Container main resize requires restart", "Container main definition changed, will be restarted" (kubernetes,
// pkg/kubelet/kuberuntime/kuberuntime_manager.go, computePodActions).
func isRestart(words string) bool {
	return strings.HasSuffix(words, " resize requires restart") || strings.HasSuffix(words, " definition changed, will be restarted")
}

// killing is the Event by which a kubelet said that it would end the container, with words that say why; nil if there
// is none.
func (v *index) killing(p *model.Pod, ended *model.Event, why func(words string) bool) *model.Event {
	for _, e := range v.about[p.UID] {
		if e.Kind == timeline.KubeEvent && e.To == "Killing" && why(e.Detail) && strings.HasPrefix(e.Detail, "Container "+containerOf(ended)+" ") &&
			ended.At.Earliest-time.Minute <= e.At.Latest && e.At.Earliest <= ended.At.Latest && !v.startedBetween(p, e, ended.Seen) {
			return e
		}
	}
	return nil
}

// startedBetween reports whether a container of the Pod was seen to start after an event and before an instant: then
// the event has nothing to do with what happened later.
func (v *index) startedBetween(p *model.Pod, after *model.Event, before time.Duration) bool {
	return slices.ContainsFunc(v.about[p.UID], func(e *model.Event) bool {
		return e.Kind == timeline.PodContainer && e.To == "running" && after.Seen < e.Seen && e.Seen < before
	})
}

// endedItself is the last time that a container of a Pod ended in a time without anybody having asked for it; nil if
// none did.
func (v *index) endedItself(p *model.Pod, in model.Instant) (last *model.Event) {
	for _, e := range v.about[p.UID] {
		if e.Kind == timeline.PodContainer && e.From == "running" && e.To == "terminated" && e.At.Bounded() && e.At.Overlaps(in) && !p.TerminatingBy(e.At.Latest) && v.killing(p, e, isRestart) == nil {
			last = e
		}
	}
	return last
}

// endedByKubelet is the event by which a Pod is known to have been ended as a whole, without a deletion: a condition
// that says so, or its phase. It is nil if there is none.
func (v *index) endedByKubelet(p *model.Pod, ended *model.Event) *model.Event {
	for _, e := range v.about[p.UID] {
		if (e.Seen - ended.Seen).Abs() > time.Minute {
			continue
		}
		if e.Kind == timeline.PodDisrupted && e.To == "TerminationByKubelet" || e.Kind == timeline.PodPhase && e.To == "Failed" && e.Detail != "" {
			return e
		}
	}
	return nil
}

// routedCrashes are those of the window's crashes of which is holds, where the Service had an endpoint to route to.
// If there are none, whyNot says so, or none does.
func (c *Case) routedCrashes(is func(crash) bool, none string) (all []crash, whyNot string) {
	for _, cr := range c.crashes(c.Window) {
		if is(cr) {
			all = append(all, cr)
		}
	}
	if len(all) == 0 {
		return nil, none
	}
	if empty, _ := c.emptyIn(c.Window); empty != nil {
		return nil, "no endpoint was left that a request could have been routed to"
	}
	return all, ""
}

// crashed completes a finding that names crashes: what showed them, and how many failures they can have made.
func (c *Case) crashed(crashes []crash, f *Finding) {
	v, w := c.index, c.Window
	var accused []suspect
	for _, cr := range crashes[:min(len(crashes), mostNamed)] {
		f.For = append(f.For, cr.signs()...)
		switch {
		case cr.own != nil:
		case cr.never:
			f.missing(doubt(Measured, cr.pod.Name+" had not answered at its own address before: that it did not serve at all fits as well"))
			continue
		case v.failedAbout(w, cr.pod, cr.event.At):
			f.missing(doubt(Measured, cr.pod.Name+" failed at its own address only while its endpoint was not ready: when it stopped is known from the watch, and any change about that time fits as well"))
			continue
		case v.directName(w, cr.pod) != "":
			f.against(doubt(Watched, cr.pod.Name+" was not seen to fail at its own address: the container that ended may not be the one that serves"))
			continue
		default:
			f.missing(doubt(Measured, cr.pod.Name+" has no direct target, so when it stopped is only known from the watch: any change about that time fits as well"))
			continue
		}
		accused = append(accused, *cr.own)
	}
	f.For = append(f.For, Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched})
	f.For = append(f.For, context(v.othersAnswered(w, accused)...)...)
	v.moreThanTheirShare(w, len(crashes), f)
	f.explains(w, v.madeByCrashes(w, crashes))
}

// failedAbout reports whether one of a Pod's own addresses failed about a time, whether or not it was routed to.
func (v *index) failedAbout(w *model.Window, p *model.Pod, at model.Instant) bool {
	return slices.ContainsFunc(v.directOf(w, p), func(t *model.Target) bool {
		return v.outageNear(t.Name, model.Instant{Earliest: at.Earliest, Latest: at.Latest + cluster.KubeletLag}) != nil
	})
}

// madeByCrashes counts the failures of a window that the crashes can have made: of connections that were refused or
// lost while the Pod was routed to, and what was in flight when it crashed.
func (v *index) madeByCrashes(w *model.Window, crashes []crash) int {
	own := v.failuresOf(w)
	n := 0
	for i := range own {
		f := &own[i]
		if slices.ContainsFunc(crashes, func(cr crash) bool {
			switch f.Class {
			case timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot:
				return cr.at.Earliest <= arrived(f) && f.Earliest() <= cr.until
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

func (cr *crash) signs() []Sign {
	var signs []Sign
	for _, said := range []*model.Event{cr.kill, cr.anew} {
		if said != nil {
			signs = append(signs, Sign{model.Evidence{Event: said.ID, At: new(said.At), Text: cr.pod.Name + ": " + said.Detail}, Watched})
		}
	}
	if cr.own != nil {
		signs = append(signs, Sign{model.Evidence{Target: cr.own.target, At: &cr.own.outage.Start, Text: cr.pod.Name + " itself stopped answering: " + quantity.ClassCounts(cr.own.outage.Classes)}, Measured})
	}
	return append(signs, Sign{model.Evidence{Event: cr.event.ID, At: new(cr.event.At), Text: cr.pod.Name + ": " + cr.how()}, Watched})
}

// how says how the container ended: "main ended by itself, exit code 137 (OOMKilled)".
func (cr *crash) how() string {
	how := cluster.ContainerEnd(cr.event)
	if cr.kill != nil {
		probe := "liveness"
		if strings.Contains(cr.kill.Detail, "startup") {
			probe = "startup"
		}
		how = strings.Replace(how, "ended by itself", "was ended because its "+probe+" probe failed", 1)
	}
	if cr.anew != nil {
		how = strings.Replace(how, "ended by itself", "was ended to be started anew", 1)
	}
	return how
}
