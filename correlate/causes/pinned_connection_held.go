package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// pinned-connection, of held connections: a connection stays with the Pod that it was opened to, and ends with it. It
// is closed when the Pod is asked to end, or when it exits.
//
//	Pod    deleted ──────── exit
//	conn   ok ok ok ok ok ok x      closed or reset then, if the Pod did not close it before

func testHeldPinned(c *Case) Finding {
	v, w := c.index, c.Window
	holders := v.holdersEnding(w)
	if len(holders) == 0 {
		return no("no Pod that the connections were on was ending")
	}
	f := Finding{Fix: heldPinnedFix(v, w, holders)}
	all := 0
	var parts []string
	for _, h := range holders {
		all += cutConns(h.cuts)
		stop := v.probe(w, h.pod).stopped
		before, _ := signsOfEnd(v, h.pod, h.at)
		f.For = append(f.For, pinnedSigns(before, h)...)
		if stop != nil && h.at == *stop {
			f.For = append(f.For, Sign{model.Evidence{Target: v.probe(w, h.pod).target, At: stop, Text: h.pod.Name + " stopped"}, Measured})
		} else if own := v.beganThen(w, h.pod, h.at); own != nil {
			f.For = append(f.For, Sign{model.Evidence{Target: own.target, At: &own.from, Text: fmt.Sprintf("%s failed at its own address from then on: %s", h.pod.Name, quantity.ClassCounts(own.outage.Classes))}, Measured})
		}
		f.For = append(f.For, h.sign(w, ""))
		if own := v.beganThen(w, h.pod, h.at); own == nil || !own.again { // else it was killed later
			f.against(notKilled(h.pod)...)
		}
		f.missing(h.oneByOne()...)
		h.unnamed(&f)
		parts = append(parts, fmt.Sprintf("%s %d", h.pod.Name, cutConns(h.cuts)))
	}
	first := holders[0]
	f.Text = fmt.Sprintf("%s ended the %s that %s pinned to it, %s without a warning", first.pod.Name, quantity.Count(all, "connection"), was(all), unwarnedOf(first.cuts))
	if unwarned(first.cuts) == 0 {
		f.Text = fmt.Sprintf("%s ended the %s that %s pinned to it, and announced that", first.pod.Name, quantity.Count(all, "connection"), was(all))
	}
	if len(holders) > 1 {
		f.Text = fmt.Sprintf("%s ended the %s that were pinned to them: %s", quantity.Count(len(holders), "Pod"), quantity.Count(all, "connection"), strings.Join(parts[:min(len(parts), mostNamed)], ", "))
	}
	f.explains(w, all)
	return f
}

// pinnedSigns are how the Pod came to its end. That its deletion was asked for is a sign of its own.
func pinnedSigns(before []model.Evidence, h *holder) []Sign {
	signs := context(before...)
	if len(signs) > 0 && signs[0].Event > 0 {
		signs[0].Strength = Close
	}
	return signs
}

func unwarnedOf(cuts []model.HeldCut) string {
	if n := unwarned(cuts); n < len(cuts) {
		return fmt.Sprintf("%d of them", n)
	}
	return "all of them"
}

// holdersEnding are the Pods that were ending when connections that may have been on them were cut, each cut by one
// of them.
func (v *index) holdersEnding(w *model.Window) (holders []*holder) {
	cuts := v.cutsIn(w)
	for _, p := range v.pods(w) {
		h := &holder{pod: p}
		for _, c := range cuts {
			if at, ends := v.endedBy(w, p, &c); ends {
				if len(h.cuts) == 0 {
					h.at = at
				}
				h.cuts = append(h.cuts, c)
			}
		}
		if len(h.cuts) > 0 {
			cuts = slices.DeleteFunc(slices.Clone(cuts), func(c model.HeldCut) bool { return slices.Contains(h.cuts, c) })
			holders = append(holders, h)
		}
	}
	slices.SortStableFunc(holders, func(a, b *holder) int { return cmp.Compare(a.cuts[0].Cut.Latest, b.cuts[0].Cut.Latest) })
	return holders
}

// endedBy reports whether a Pod's end can have cut a connection, and when that was. A connection that was closed in
// order may have been at any time from the Pod's deletion on: many servers close what is idle at SIGTERM. One that
// was reset, or fell silent, was so as the Pod stopped, or as its own address began to fail: SIGTERM restarts some
// servers.
func (v *index) endedBy(w *model.Window, p *model.Pod, c *model.HeldCut) (at model.Instant, ends bool) {
	if !mayBeOn(c, p) || !p.TerminatingBy(c.Cut.Latest) || !v.wasEndpoint(w, p, w.End.Latest) {
		return at, false
	}
	times := []*model.Instant{v.probe(w, p).stopped, p.Exited}
	for _, f := range v.endFailures(w, p) {
		times = append(times, &f.from)
	}
	for _, end := range times {
		if end == nil || !p.TerminatingBy(end.Latest) {
			continue
		}
		noticed := c.Cut.Latest
		if c.Class == timeline.TimeoutResponse.String() { // silence began somewhere in the bracket
			noticed = max(c.Cut.Earliest, min(end.Latest, noticed))
		}
		if end.Earliest <= noticed && noticed <= end.Latest+moment {
			return *end, true
		}
	}
	if c.Class != timeline.EOF.String() || c.From == "" || p.Deleted == nil {
		return at, false
	}
	if p.Exited != nil && c.Cut.Latest > p.Exited.Latest+moment {
		return at, false
	}
	return model.Instant{Earliest: p.Deleted.Earliest, Latest: c.Cut.Latest}, p.Deleted.Earliest <= c.Cut.Latest
}

// closedTogether is within how much time a server closes what it has open when it is asked to end.
const closedTogether = 2 * time.Second

// oneByOne has a doubt where connections were closed one by one while the Pod was ending, and not as it stopped: then
// something else that closes connections fits, too. An announcement is the Pod's own.
func (h *holder) oneByOne() []Sign {
	first, last := h.cuts[0].Cut.Latest, h.cuts[len(h.cuts)-1].Cut.Latest
	if h.at.Latest-h.at.Earliest < closedTogether && first >= h.at.Earliest && last <= h.at.Latest+moment || last-first < closedTogether && len(h.cuts) > 1 || unwarned(h.cuts) == 0 {
		return nil
	}
	return []Sign{doubt(Measured, fmt.Sprintf("%s closed while %s was ending, and not as it stopped: that it closed them itself is not seen", quantity.Count(len(h.cuts), "connection")+" "+was(len(h.cuts)), h.pod.Name))}
}

// heldPinnedFix says how to let such clients go.
func heldPinnedFix(v *index, w *model.Window, holders []*holder) string {
	how := "answer with Connection: close, or send a close frame or GOAWAY"
	if url := v.target(w).URL; strings.HasPrefix(url, "tcp:") || strings.HasPrefix(url, "tls:") {
		how = "tell clients, in the words of your protocol, to come back on another connection"
	}
	var all []model.HeldCut
	for _, h := range holders {
		all = append(all, h.cuts...)
	}
	if unwarned(all) == 0 {
		return fmt.Sprintf("none is needed for clients that heed it: %s announced to end; where all come back at once, announce it to one after the other", quantity.Count(len(all), "connection")+" "+was(len(all)))
	}
	return fmt.Sprintf("from SIGTERM on %s, to one client after the other, and exit when the last has left (%d of %s cut without a warning); or keep the old Pods until their connections have left: docs/how-to/measure-held-connections.md",
		how, unwarned(all), quantity.Count(len(all), "connection")+" "+was(len(all)))
}
