package connections

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// pinned-connection, of held connections: a connection stays with the Pod that it was opened to, and ends with it. It
// is closed when the Pod is asked to end, or when it exits.
//
//	Pod    deleted ──────── exit
//	conn   ok ok ok ok ok ok x      closed or reset then, if the Pod did not close it before

func testHeldPinned(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	holders := holdersEnding(v, w)
	if len(holders) == 0 {
		return rule.No("no Pod that the connections were on was ending")
	}
	f := rule.Finding{Fix: heldPinnedFix(v, w, holders)}
	all := 0
	var parts []string
	for _, h := range holders {
		all += evidence.CutConns(h.Cuts)
		stop := v.Addresses.Probe(w, h.Pod).Stopped
		before, _ := evidence.SignsOfEnd(v.Changes, h.Pod, h.At)
		f.For = append(f.For, pinnedSigns(before, h)...)
		if stop != nil && h.At == *stop {
			f.For = append(f.For, evidence.Measured.Target(v.Addresses.Probe(w, h.Pod).Target, stop,
				h.Pod.Name+" stopped"))
		} else if own := v.Endings.BeganThen(w, h.Pod, h.At); own != nil {
			f.For = append(f.For, evidence.Measured.Target(own.Target, &own.From,
				fmt.Sprintf("%s failed when probed at its own address, from then on: %s", h.Pod.Name,
					quantity.ClassCounts(own.Outage.Classes))))
		}
		f.For = append(f.For, h.Sign(w, ""))
		if own := v.Endings.BeganThen(w, h.Pod, h.At); own == nil || !own.Again { // else it was killed later
			f.Oppose(evidence.NotKilled(h.Pod)...)
		}
		f.Lack(oneByOne(h)...)
		rule.Unnamed(h, &f)
		parts = append(parts, fmt.Sprintf("%s %d", h.Pod.Name, evidence.CutConns(h.Cuts)))
	}
	first := holders[0]
	f.Text = fmt.Sprintf("%s ended the %s that %s pinned to it, %s without a warning", first.Pod.Name,
		quantity.Count(all, "connection"), quantity.Was(all), unwarnedOf(first.Cuts))
	if evidence.Unwarned(first.Cuts) == 0 {
		f.Text = fmt.Sprintf("%s ended the %s that %s pinned to it, and announced that", first.Pod.Name,
			quantity.Count(all, "connection"), quantity.Was(all))
	}
	if len(holders) > 1 {
		f.Text = fmt.Sprintf("%s ended the %s that were pinned to them: %s", quantity.Count(len(holders), "Pod"),
			quantity.Count(all, "connection"), strings.Join(parts[:min(len(parts), rule.MostNamed)], ", "))
	}
	f.ExplainsAtMost(w, all)
	return f
}

// pinnedSigns returns how the Pod came to its end. That its deletion was asked for is a sign of its own.
func pinnedSigns(before []model.Evidence, h *evidence.Holder) []evidence.Sign {
	signs := evidence.Mention(before...)
	if len(signs) > 0 && signs[0].Event > 0 {
		signs[0].Strength = evidence.Close
	}
	return signs
}

func unwarnedOf(cuts []model.HeldCut) string {
	if n := evidence.Unwarned(cuts); n < len(cuts) {
		return fmt.Sprintf("%d of them", n)
	}
	return "all of them"
}

// holdersEnding returns the Pods that were ending when connections that may have been on them were cut, each cut by one
// of them.
func holdersEnding(v *evidence.Evidence, w *model.Window) (holders []*evidence.Holder) {
	cuts := v.Traffic.CutsIn(w)
	for _, p := range v.Services.Pods(w) {
		h := &evidence.Holder{Pod: p}
		for _, c := range cuts {
			if at, ends := endedBy(v, w, p, &c); ends {
				if len(h.Cuts) == 0 {
					h.At = at
				}
				h.Cuts = append(h.Cuts, c)
			}
		}
		if len(h.Cuts) > 0 {
			cuts = slices.DeleteFunc(slices.Clone(cuts), func(c model.HeldCut) bool {
				return slices.Contains(h.Cuts, c)
			})
			holders = append(holders, h)
		}
	}
	slices.SortStableFunc(holders, func(a, b *evidence.Holder) int {
		return cmp.Compare(a.Cuts[0].Cut.Latest, b.Cuts[0].Cut.Latest)
	})
	return holders
}

// endedBy reports whether a Pod's end can have cut a connection, and when that was. A connection that was closed in
// order may have been at any time from the Pod's deletion on: many servers close what is idle at SIGTERM. One that
// was reset, or fell silent, was so as the Pod stopped, or as its own address began to fail: SIGTERM restarts some
// servers.
func endedBy(v *evidence.Evidence, w *model.Window, p *model.Pod, c *model.HeldCut) (at model.Instant, ends bool) {
	if !evidence.MayBeOn(c, p) || !p.TerminatingBy(c.Cut.Latest) || !v.Services.WasEndpoint(w, p, w.End.Latest) {
		return at, false
	}
	times := []*model.Instant{v.Addresses.Probe(w, p).Stopped, p.Exited}
	for _, f := range v.Endings.EndFailures(w, p) {
		times = append(times, &f.From)
	}
	for _, end := range times {
		if end == nil || !p.TerminatingBy(end.Latest) {
			continue
		}
		noticed := c.Cut.Latest
		if c.Class == timeline.TimeoutResponse.String() { // silence began somewhere in the bracket
			noticed = max(c.Cut.Earliest, min(end.Latest, noticed))
		}
		if end.Earliest <= noticed && noticed <= end.Latest+evidence.Moment {
			return *end, true
		}
	}
	if c.Class != timeline.EOF.String() || c.From == "" || p.Deleted == nil {
		return at, false
	}
	if p.Exited != nil && c.Cut.Latest > p.Exited.Latest+evidence.Moment {
		return at, false
	}
	return model.Instant{Earliest: p.Deleted.Earliest, Latest: c.Cut.Latest}, p.Deleted.Earliest <= c.Cut.Latest
}

// closedTogether is within how much time a server closes what it has open when it is asked to end.
const closedTogether = 2 * time.Second

// oneByOne returns a doubt if connections were closed one by one while the Pod was ending, and not as it stopped: then
// something else that closes connections fits, too. An announcement is the Pod's own.
func oneByOne(h *evidence.Holder) []evidence.Sign {
	first, last := h.Cuts[0].Cut.Latest, h.Cuts[len(h.Cuts)-1].Cut.Latest
	if h.At.Latest-h.At.Earliest < closedTogether && first >= h.At.Earliest && last <= h.At.Latest+evidence.Moment ||
		last-first < closedTogether && len(h.Cuts) > 1 || evidence.Unwarned(h.Cuts) == 0 {
		return nil
	}
	return []evidence.Sign{evidence.Measured.Doubt(fmt.Sprintf("%s closed while %s was ending, and not as it "+
		"stopped: whether it closed them itself was not seen", quantity.Count(len(h.Cuts), "connection")+" "+
		quantity.Was(len(h.Cuts)), h.Pod.Name))}
}

// heldPinnedFix says how to let such clients go.
func heldPinnedFix(v *evidence.Evidence, w *model.Window, holders []*evidence.Holder) string {
	how := "answer with Connection: close, or send a close frame or GOAWAY"
	if url := v.Traffic.Target(w).URL; strings.HasPrefix(url, "tcp:") || strings.HasPrefix(url, "tls:") {
		how = "tell clients, in the words of your protocol, to come back on another connection"
	}
	var all []model.HeldCut
	for _, h := range holders {
		all = append(all, h.Cuts...)
	}
	if evidence.Unwarned(all) == 0 {
		return fmt.Sprintf("none is needed for clients that heed it: %s announced to end; where all come back at "+
			"once, announce it to one after the other", quantity.Count(len(all), "connection")+" "+
			quantity.Was(len(all)))
	}
	return fmt.Sprintf("from SIGTERM on %s, to one client after the other, and exit when the last has left (%d of %s "+
		"cut without a warning); or keep the old Pods until their connections have left: "+
		"see `lapse explain pinned-connection`",
		how, evidence.Unwarned(all), quantity.Count(len(all), "connection")+" "+quantity.Was(len(all)))
}
