package evidence

import (
	"fmt"
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about the windows of held targets: connections were cut in them, not requests.

// CutsIn returns the cuts of a held target's window, by when they were noticed.
func (v *Traffic) CutsIn(w *model.Window) (cuts []model.HeldCut) {
	for _, c := range v.Cuts[v.Target(w).ID] {
		if c.Window == w.ID {
			cuts = append(cuts, c)
		}
	}
	return cuts
}

// MayBeOn reports whether a connection may have been on a Pod: according to the replies, if they have one.
func MayBeOn(c *model.HeldCut, p *model.Pod) bool { return c.From == "" || c.From == p.Name }

// Unselected names the Pods of cut connections that the Service no longer selected: they are not watched any more. It
// returns "" if there is none, and for windows of other targets.
func (v *Addresses) Unselected(w *model.Window) string {
	if w.Kind != model.CutKind {
		return ""
	}
	var names []string
	for _, c := range v.traffic.CutsIn(w) {
		for _, p := range v.services.Pods(w) {
			if c.From == p.Name && !slices.Contains(names, p.Name) && slices.ContainsFunc(v.changes.About[p.UID],
				func(e *model.Event) bool {
					return e.Kind == timeline.PodGone && e.Detail == timeline.NoLongerSelected &&
						e.At.Earliest <= c.Cut.Latest
				}) {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; the connections were on " + quantity.Names(names) +
		", which the Service no longer selected: what becomes of " +
		"such Pods is not watched"
}

// CutConns returns how many connections were cut.
func CutConns(cuts []model.HeldCut) int {
	conns := map[int]bool{}
	for _, c := range cuts {
		conns[c.Conn] = true
	}
	return len(conns)
}

// Unwarned returns how many cuts were not announced.
func Unwarned(cuts []model.HeldCut) (n int) {
	for _, c := range cuts {
		if !c.Warned {
			n++
		}
	}
	return n
}

// A Holder is a Pod whose connections were cut.
type Holder struct {
	Pod  *model.Pod
	Cuts []model.HeldCut
	At   model.Instant // when what cut them happened
}

// Named reports whether replies named the Pod on every cut connection.
func (h *Holder) Named() bool {
	return !slices.ContainsFunc(h.Cuts, func(c model.HeldCut) bool { return c.From == "" })
}

// Sign returns the sign that the Pod's connections were cut, as the target saw it.
func (h *Holder) Sign(w *model.Window, on string) Sign {
	noticed := model.Instant{Earliest: h.Cuts[0].Cut.Latest, Latest: h.Cuts[len(h.Cuts)-1].Cut.Latest}
	text := fmt.Sprintf("%s cut: %s", quantity.Count(CutConns(h.Cuts), "connection")+" "+quantity.Was(len(h.Cuts)),
		quantity.ClassCounts(classesOf(h.Cuts)))
	strength := Close
	if h.Named() {
		text, strength = text+", all on "+h.Pod.Name+" according to the replies", Watched
	}
	return strength.Target(w.Target, &noticed, text+on)
}

func classesOf(cuts []model.HeldCut) map[string]int {
	classes := map[string]int{}
	for _, c := range cuts {
		classes[c.Class]++
	}
	return classes
}
