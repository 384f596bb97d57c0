package correlate

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/timeline"
)

// A view is a scene with what several rules ask of it, found once: a run can have thousands of
// windows and events, and is judged several times per second while it goes on.
type view struct {
	*scene
	changes  []*Event // what can have had an effect on traffic, by Seen; without what the first list found
	widest   time.Duration
	stalls   []*Event
	lanes    []*Event
	gaps     []*Event
	errors   []*Event
	services map[string]*service
}

// A service is what the rules ask about the Service behind a window, or about all there is if the
// window's target is a bare URL.
type service struct {
	pods      []*Pod
	endpoints []*Event    // their changes, by Seen
	empty     []emptySpan // when there was no endpoint to route to
	longest   *raceSeen   // nil until asked for
}

func newView(s *scene) *view {
	v := &view{scene: s, services: map[string]*service{}}
	for i := range s.run.Events {
		e := &s.run.Events[i]
		switch e.Kind {
		case timeline.ProberStall:
			v.stalls = append(v.stalls, e)
		case timeline.WatchLane:
			if e.Object != nil {
				v.lanes = append(v.lanes, e)
			}
		case timeline.WatchGap:
			v.gaps = append(v.gaps, e)
		case timeline.RequestError:
			if e.Object != nil {
				v.errors = append(v.errors, e)
			}
		}
		if isChange(e) && e.At.bounded() {
			v.changes = append(v.changes, e)
			v.widest = max(v.widest, e.At.Latest-e.At.Earliest)
		}
	}
	slices.SortStableFunc(v.changes, func(a, b *Event) int { return cmp.Compare(a.Seen, b.Seen) })
	return v
}

// changesNear are the changes whose brackets overlap this one.
func (v *view) changesNear(at Instant) []*Event {
	from, _ := slices.BinarySearchFunc(v.changes, at.Earliest, func(e *Event, t time.Duration) int { return cmp.Compare(e.Seen, t) })
	var near []*Event
	for _, e := range v.changes[from:] {
		if e.Seen > at.Latest+v.widest {
			break
		}
		if e.At.overlaps(at) {
			near = append(near, e)
		}
	}
	return near
}

// service is what stands behind the window's target.
func (v *view) service(w *Window) *service {
	t := v.target(w)
	if known := v.services[t.Service]; known != nil {
		return known
	}
	svc := &service{}
	v.services[t.Service] = svc
	strangers := map[string]bool{}
	for i := range v.run.Pods {
		p := &v.run.Pods[i]
		if v.behind(p, t) {
			svc.pods = append(svc.pods, p)
		} else {
			strangers[p.UID] = true
		}
	}
	for i := range v.run.Events {
		e := &v.run.Events[i]
		if e.Kind == timeline.EndpointChanged && e.Object != nil && !strangers[e.Object.UID] && (e.Service == "" || t.Service == "" || e.Service == t.Service) {
			svc.endpoints = append(svc.endpoints, e)
		}
	}
	svc.empty = emptySpans(svc.endpoints, v.end())
	return svc
}

// pods are the Pods that may stand behind the window's Service.
func (v *view) pods(w *Window) []*Pod { return v.service(w).pods }

// target is the judged target of a window.
func (v *view) target(w *Window) *Target { return v.targetNamed(w.Target) }

func (v *view) targetNamed(name string) *Target {
	for i := range v.run.Targets {
		if v.run.Targets[i].Name == name {
			return &v.run.Targets[i]
		}
	}
	return &Target{Name: name}
}

// from says where a window was seen from: the prober's node, or the machine Lapse ran on.
func (v *view) from(w *Window) string {
	if node := v.target(w).Node; node != "" {
		return node
	}
	return "this machine"
}

// span is all the time a window can have taken.
func (w *Window) span() Instant { return Instant{Earliest: w.Start.Earliest, Latest: w.End.Latest} }

// onset is when the window's trouble can have begun: its start bracket, and where that is open, the
// unobserved time before it too.
func (v *view) onset(w *Window) Instant {
	onset := w.Start
	if !w.Open.Start {
		return onset
	}
	onset.Earliest = Unbounded // no success was ever seen before
	for _, gap := range v.run.Unobserved {
		if gap.Target == w.Target && gap.Start <= w.Start.Earliest && w.Start.Earliest <= gap.End {
			onset.Earliest = max(onset.Earliest, gap.Start)
		}
	}
	return onset
}

// behind reports whether the Pod may serve the target: its direct target says for which Services it
// does. Where none does, or the target is a bare URL, no Pod can be ruled out but by its namespace.
func (v *view) behind(p *Pod, t *Target) bool {
	if t.Service == "" {
		return true
	}
	known := false
	for _, direct := range v.run.Targets {
		if direct.Kind == timeline.Direct && direct.PodUID == p.UID && direct.Service != "" {
			if direct.Service == t.Service {
				return true
			}
			known = true
		}
	}
	namespace, _, _ := strings.Cut(t.Service, "/")
	return !known && p.Namespace == namespace
}

// direct is the target that probes the Pod's own address, "" if there is none.
func (v *view) direct(p *Pod) string {
	for _, t := range v.run.Targets {
		if t.Kind == timeline.Direct && t.PodUID == p.UID {
			return t.Name
		}
	}
	return ""
}

// outageNear returns a target's outage that overlaps the bracket, nil if there is none.
func (v *view) outageNear(target string, at Instant) *Window {
	return v.troubleNear(target, at, false)
}

// troubleNear is like outageNear; slow answers count too if wanted.
func (v *view) troubleNear(target string, at Instant, slow bool) *Window {
	for i, w := range v.outages[target] {
		if (slow || w.Kind != Slow) && w.span().overlaps(at) {
			return &v.outages[target][i]
		}
	}
	return nil
}

// windowNear returns a judged window of another target kind of the same Service that overlaps the
// bracket.
func (v *view) windowNear(t *Target, kind timeline.TargetKind, at Instant) *Window {
	for i := range v.run.Windows {
		w := &v.run.Windows[i]
		other := v.target(w)
		if w.Kind != Slow && other.Kind == kind && other.Service == t.Service && other.Source == t.Source && w.span().overlaps(at) {
			return w
		}
	}
	return nil
}

// laneOff reports whether we could not watch this kind, in lower case ("endpointslice"), at the
// window's time or before it.
func (v *view) laneOff(kind string, w *Window) bool {
	off := false
	for _, e := range v.lanes {
		if sameKind(e.Object.Kind, kind) && e.Seen <= w.End.Latest {
			off = e.To == "off"
		}
	}
	return off
}

// gapNear reports whether changes of this kind may have been missed about the window.
func (v *view) gapNear(kind string, w *Window) bool {
	for _, e := range v.gaps {
		if e.At.overlaps(w.span()) && (e.Object == nil || e.Object.Kind == "" || sameKind(e.Object.Kind, kind)) {
			return true
		}
	}
	return false
}

// changeOf finds the event by which a Pod's instant is known, so that evidence can point at it.
func (v *view) changeOf(p *Pod, kind timeline.EventKind, at *Instant) uint32 {
	if at == nil {
		return 0
	}
	for _, e := range v.run.Events {
		if e.Kind == kind && e.At.Latest == at.Latest && e.Object != nil && e.Object.UID == p.UID {
			return e.ID
		}
	}
	return 0
}

// only reports whether all the failures are of these classes.
func only(failures map[string]int, classes ...timeline.Class) bool {
	for class, n := range failures {
		if n > 0 && !slices.ContainsFunc(classes, func(c timeline.Class) bool { return c.String() == class }) {
			return false
		}
	}
	return true
}

// some counts the failures of these classes.
func some(failures map[string]int, classes ...timeline.Class) int {
	n := 0
	for _, class := range classes {
		n += failures[class.String()]
	}
	return n
}

// length is how long the time between two brackets is.
func length(from, to Instant) Length {
	return Length{Min: max(0, to.Earliest-from.Latest), Max: max(0, to.Latest-from.Earliest)}
}

// common is the time two stretches share, at most.
func common(a, b Instant) time.Duration {
	return max(0, min(a.Latest, b.Latest)-max(a.Earliest, b.Earliest))
}
