package causes

import (
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules say of the windows of held targets, in which connections were cut and not requests.

// cutsIn are the cuts of a held target's window, by when they were noticed.
func (v *index) cutsIn(w *model.Window) (cuts []model.HeldCut) {
	for _, c := range v.Cuts[v.target(w).ID] {
		if c.Window == w.ID {
			cuts = append(cuts, c)
		}
	}
	return cuts
}

// mayBeOn reports whether a connection may have been on a Pod: by the replies' own word, if they have one.
func mayBeOn(c *model.HeldCut, p *model.Pod) bool { return c.From == "" || c.From == p.Name }

// unselected says which Pods connections were on that the Service had ceased to select when they were cut: those are
// watched no more. It is empty of other windows, and where there is none.
func (v *index) unselected(w *model.Window) string {
	if w.Kind != model.CutKind {
		return ""
	}
	var names []string
	for _, c := range v.cutsIn(w) {
		for _, p := range v.pods(w) {
			if c.From == p.Name && !slices.Contains(names, p.Name) && slices.ContainsFunc(v.about[p.UID], func(e *model.Event) bool {
				return e.Kind == timeline.PodGone && e.Detail == timeline.NoLongerSelected && e.At.Earliest <= c.Cut.Latest
			}) {
				names = append(names, p.Name)
			}
		}
	}
	if len(names) == 0 {
		return ""
	}
	slices.Sort(names)
	return "; the connections were on " + namedOf(names) + ", which the Service no longer selected: what becomes of such Pods is not watched"
}

// cutConns is how many connections some cuts are of.
func cutConns(cuts []model.HeldCut) int {
	conns := map[int]bool{}
	for _, c := range cuts {
		conns[c.Conn] = true
	}
	return len(conns)
}

// unwarned is how many of some cuts were not announced.
func unwarned(cuts []model.HeldCut) (n int) {
	for _, c := range cuts {
		if !c.Warned {
			n++
		}
	}
	return n
}

// A holder is a Pod whose connections were cut.
type holder struct {
	pod  *model.Pod
	cuts []model.HeldCut
	at   model.Instant // when what cut them happened
}

// named reports whether replies had said of each cut connection that it was on the Pod.
func (h *holder) named() bool {
	return !slices.ContainsFunc(h.cuts, func(c model.HeldCut) bool { return c.From == "" })
}

// sign is that the Pod's connections were cut, as the target saw it.
func (h *holder) sign(w *model.Window, on string) Sign {
	noticed := model.Instant{Earliest: h.cuts[0].Cut.Latest, Latest: h.cuts[len(h.cuts)-1].Cut.Latest}
	text := fmt.Sprintf("%s cut: %s", quantity.Count(cutConns(h.cuts), "connection")+" "+was(len(h.cuts)), quantity.ClassCounts(classesOf(h.cuts)))
	strength := Close
	if h.named() {
		text, strength = text+", all on "+h.pod.Name+" by the replies' own word", Watched
	}
	return Sign{model.Evidence{Target: w.Target, At: &noticed, Text: text + on}, strength}
}

func classesOf(cuts []model.HeldCut) map[string]int {
	classes := map[string]int{}
	for _, c := range cuts {
		classes[c.Class]++
	}
	return classes
}

// unnamed is what is missing where the replies do not say who sent them.
func (h *holder) unnamed(f *Finding) {
	if !h.named() {
		f.missing(doubt(Measured, "which Pod the connections were on is not known: the replies do not name it (X-Pod, or --backend-header)"))
	}
}

// beatOf is the time between two heartbeats on a connection of a held target.
func (v *index) beatOf(w *model.Window) time.Duration {
	t := v.target(w)
	return timeline.Target{Connections: t.Connections, Rate: t.Rate}.Heartbeat()
}
