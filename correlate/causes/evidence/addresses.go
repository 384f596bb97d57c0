package evidence

import (
	"time"

	"lapse/correlate/model"
)

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

// A Probe is what a Pod's own address answered, at the port of a window.
type Probe struct {
	Target          string         // its name; "" if the address was not probed
	Stopped         *model.Instant // when it stopped answering for good; nil if that was not seen
	FirstOK, LastOK *time.Duration
}

// Probe returns what the Pod's own address answered. If it has several targets, because the Pod was gone and came back,
// the one answered last counts.
func (v *Addresses) Probe(w *model.Window, p *model.Pod) Probe {
	svc := v.services.Service(w)
	best, known := svc.probes[p.UID]
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
	svc.probes[p.UID] = best
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
