package pods

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about Pods whose containers ended without a request to the API server.

// A crash is the unrequested end of a container.
type crash struct {
	pod   *model.Pod
	event *model.Event
	own   *evidence.Suspect // the outage of the Pod's own address; nil if that was not measured
	never bool              // the Pod's own address had never answered before
	at    model.Instant     // when it ended
	until time.Duration     // requests can have been routed to it until then
	kill  *model.Event      // of its kubelet, because a probe failed; nil if it ended by itself
	// of its kubelet, because the container must be restarted, as for a resize in place; nil if that is not so
	anew  *model.Event
	ended *model.Event // its kubelet ended the whole Pod, for its own reasons; nil if it did not
}

// crashes returns the crashes that can explain failures of the window, in order.
func crashes(v *evidence.Evidence, w *model.Window) (all []crash) {
	for _, p := range v.Services.Pods(w) {
		all = append(all, crashesOf(v, w, p)...)
	}
	slices.SortStableFunc(all, func(a, b crash) int { return cmp.Compare(a.at.Earliest, b.at.Earliest) })
	return all
}

// crashesOf returns the crashes of one Pod.
func crashesOf(v *evidence.Evidence, w *model.Window, p *model.Pod) (all []crash) {
	for _, e := range v.Changes.About[p.UID] {
		if e.Kind != timeline.PodContainer || e.From != "running" || e.To != "terminated" || !e.At.Bounded() ||
			p.TerminatingBy(e.At.Latest) {
			continue
		}
		if !v.Services.RoutedAt(w, p, e.At) {
			continue
		}
		never := neverServed(v, w, p, e.At.Latest)
		if never && e.ExitCode != nil && *e.ExitCode == 0 {
			continue // it was done, as a Job's is
		}
		cr := crash{
			pod:   p,
			event: e,
			never: never,
			at:    e.At,
			until: v.Services.LeftAfter(w, p, e.At.Earliest) + evidence.TooLate,
			kill:  v.Changes.Killing(p, e, isProbeKill),
			anew:  v.Changes.Killing(p, e, evidence.IsRestart),
			ended: v.Changes.EndedByKubelet(p, e),
		}
		for _, s := range v.Suspects.OwnOutages(w) { // the last one that fits: a clock may be slow
			if s.Pod == p && !never && looksCrashed(s.Outage) &&
				e.At.Overlaps(model.Instant{Earliest: s.Outage.Start.Earliest, Latest: s.Outage.Start.Latest +
					cluster.KubeletLag}) &&
				(cr.own == nil || s.Outage.Start.Latest > cr.own.Outage.Start.Latest) {
				cr.own, cr.at, cr.until = &s, s.Outage.Start, min(cr.until, s.Until)
			}
		}
		if cr.at.Earliest <= v.Traffic.Onset(w).Latest && w.Start.Earliest <= cr.until &&
			madeByCrashes(v, w, []crash{cr}) > 0 {
			all = append(all, cr)
		}
	}
	return all
}

// neverServed reports whether the Pod's own address was probed, and had not answered until an instant.
func neverServed(v *evidence.Evidence, w *model.Window, p *model.Pod, until time.Duration) bool {
	own := v.Addresses.Probe(w, p)
	return own.Target != "" && (own.FirstOK == nil || *own.FirstOK > until)
}

// looksCrashed reports whether an address failed as if its process were gone: connections are refused or time out, and
// requests in flight are cut.
func looksCrashed(u *model.Window) bool {
	return evidence.Count(u.Classes, timeline.Refused, timeline.Unreachable, timeline.TimeoutConnect, timeline.Reset,
		timeline.EOF) > 0
}

// isProbeKill reports whether a kubelet ends a container because a probe failed, by its words: "Container main failed
// liveness probe, will be restarted".
func isProbeKill(words string) bool { return strings.HasSuffix(words, " probe, will be restarted") }

// failedAbout reports whether one of a Pod's own addresses failed at about this time, routed to or not.
func failedAbout(v *evidence.Evidence, w *model.Window, p *model.Pod, at model.Instant) bool {
	return slices.ContainsFunc(v.Addresses.DirectOf(w, p), func(t *model.Target) bool {
		return v.Traffic.OutageNear(t.Name,
			model.Instant{Earliest: at.Earliest, Latest: at.Latest + cluster.KubeletLag}) != nil
	})
}

// madeByCrashes returns how many failures of a window the crashes can explain: connections that were refused or lost
// while the Pod was routed to, and requests in flight when it crashed.
func madeByCrashes(v *evidence.Evidence, w *model.Window, crashes []crash) int {
	own := v.Traffic.Failures(w)
	n := 0
	for i := range own {
		f := &own[i]
		if slices.ContainsFunc(crashes, func(cr crash) bool {
			switch f.Class {
			case timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot:
				return cr.at.Earliest <= evidence.Arrived(f) && f.Earliest() <= cr.until
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

func (cr *crash) signs() []evidence.Sign {
	var signs []evidence.Sign
	for _, said := range []*model.Event{cr.kill, cr.anew} {
		if said != nil {
			signs = append(signs, evidence.Watched.Seen(said, cr.pod.Name+": "+said.Detail))
		}
	}
	if cr.own != nil {
		signs = append(signs, evidence.Measured.Target(cr.own.Target, &cr.own.Outage.Start,
			cr.pod.Name+" stopped answering new clients: "+quantity.ClassCounts(cr.own.Outage.Classes)))
	}
	return append(signs, evidence.Watched.Seen(cr.event, cr.pod.Name+": "+cr.how()))
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
		how = strings.Replace(how, "ended by itself", "was ended to be restarted", 1)
	}
	return how
}
