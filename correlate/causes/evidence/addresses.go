package evidence

import (
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Addresses is what Pods' own addresses answered.
type Addresses struct {
	*Input
	traffic  *Traffic
	changes  *Changes
	services *Services
	probes   map[probed]Probe
	healthy  map[*model.Window][]*model.Pod
}

// DirectOf returns the targets that probe the Pod's own address at the window's port, and in its address family.
func (v *Addresses) DirectOf(w *model.Window, p *model.Pod) []*model.Target {
	var found []*model.Target
	f := v.traffic.frontend(v.traffic.Target(w))
	for _, t := range v.traffic.direct[p.UID] {
		if f.reaches(v.traffic.frontend(t)) {
			found = append(found, t)
		}
	}
	return found
}

// A probed is a Pod, by its UID, behind a Service.
type probed struct {
	service *Service
	pod     string
}

// A Probe is what a Pod's own address answered, at the port of a window.
type Probe struct {
	Target          string         // its name; "" if the address was not probed
	Stopped         *model.Instant // when it stopped answering for good; nil if that was not seen
	FirstOK, LastOK *time.Duration
}

// Probe returns what the Pod's own address answered. If it has several targets, because the Pod was gone and came back,
// the one answered last counts.
func (v *Addresses) Probe(w *model.Window, p *model.Pod) Probe {
	key := probed{v.services.Service(w), p.UID}
	best, known := v.probes[key]
	if known {
		return best
	}
	for _, t := range v.DirectOf(w, p) {
		now := Probe{Target: t.Name}
		if edge := v.traffic.Measured(t).FirstLast; edge.FirstOK != nil {
			now.FirstOK, now.LastOK, now.Stopped = new(edge.FirstOK.Done), new(edge.LastOK.Sent), edge.Stopped
		}
		if best.Target == "" || now.LastOK != nil && (best.LastOK == nil || *best.LastOK < *now.LastOK) {
			best = now
		}
	}
	v.probes[key] = best
	return best
}

// DirectName returns the target that probes the Pod's own address at the window's port, "" if there is none.
func (v *Addresses) DirectName(w *model.Window, p *model.Pod) string { return v.Probe(w, p).Target }

// HealthyOthers returns the Pods that were ready before and not ending, and that were probed directly.
func (v *Addresses) HealthyOthers(w *model.Window) []*model.Pod {
	others, known := v.healthy[w]
	if known {
		return others
	}
	for _, p := range v.services.Pods(w) {
		if p.TerminatingBy(w.End.Latest) || !p.ReadyBy(w.Start.Latest) {
			continue
		}
		if first := v.Probe(w, p).FirstOK; first != nil && *first < w.Start.Latest {
			others = append(others, p)
		}
	}
	v.healthy[w] = others
	return others
}

// canBeItsEnd reports whether the Pod's end can explain an outage of its own address: the Pod may have been ending when
// the outage began, and did not go on answering later. A deletion is known only to the second, so a Pod that was cut
// off may seem to have been ending. A Pod that was deleted before and could be reached ends even if it answers again:
// SIGTERM restarts some servers.
func (v *Addresses) canBeItsEnd(p *model.Pod, t *model.Target, u *model.Window) bool {
	if !p.TerminatingBy(u.Start.Latest) {
		return false
	}
	last := v.traffic.Measured(t).FirstLast.LastOK
	return last == nil || last.Sent < u.Start.Latest+apart || p.Deleted != nil &&
		p.Deleted.Latest <= u.Start.Latest+Moment && !Unreached(u)
}

// proberMade reports whether a stall of the prober, or trouble of the control target, can explain a target's outage.
func (v *Addresses) proberMade(t *model.Target, u *model.Window) bool {
	if Count(u.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot) == 0 {
		return false
	}
	made := func(unwell time.Duration) bool { return u.Length.Min <= unwell+v.Run.Run.Timeout }
	for _, e := range v.changes.Stalls {
		stall := e.At.Latest - e.At.Earliest
		if (e.Source == "" || e.Source == t.Source) && e.At.Overlaps(u.Span()) && stall >= v.Run.Run.Timeout/2 &&
			made(stall) {
			return true
		}
	}
	for i := range v.Run.Targets {
		control := &v.Run.Targets[i]
		if control.Kind != timeline.Control || control.Source != t.Source {
			continue
		}
		trouble := v.traffic.OutageNear(control.Name, u.Span())
		if trouble != nil && made(v.traffic.Unwell(control.Name, trouble)) {
			return true
		}
	}
	return false
}

// Unasked returns the doubt that a Pod which was ready failed instead, as its own address was not asked.
func (v *Addresses) Unasked(w *model.Window) []Sign {
	for _, p := range v.services.Pods(w) {
		if !p.TerminatingBy(w.End.Latest) && p.ReadyBy(w.Start.Latest) && v.DirectName(w, p) == "" {
			return []Sign{Measured.Doubt(p.Name +
				", which was ready, has no direct target: it may have failed instead")}
		}
	}
	return nil
}

// Unreached reports whether nothing shows that a packet to the address arrived.
func Unreached(u *model.Window) bool {
	return Only(u.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot) &&
		Count(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) > 0
}
