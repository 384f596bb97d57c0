package connections

import (
	"fmt"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// flows-cut: when an endpoint leaves, a node's proxy or network plugin also ends the connections that were open to
// it, though the Pod still serves them: it would have let its clients finish.
//
//	endpoint  ready ─┤ not ready ──────────────
//	Pod       serves ───────────────────── exit
//	conn      ok ok ok x                              reset, or silent, from the next heartbeat on

var FlowsCut = rule.Rule{
	Name:  "flows-cut",
	Doc:   "Established connections were cut when their Pod's endpoint changed, while the Pod still served.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointsWatched, rule.EndpointSlices},
	Held:  testFlowsCut,
}

// flushLate is how long after the change of an endpoint a proxy may end its connections: kube-proxy writes its rules
// once per second at most.
const flushLate = 2 * time.Second

func testFlowsCut(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	why := "no connection was reset or fell silent when an endpoint changed whose Pod still served"
	for _, p := range v.Services.Pods(w) {
		for _, changed := range []*model.Instant{p.EndpointNotReady, p.EndpointRemoved} {
			if changed == nil {
				continue
			}
			h := cutAtChange(v, w, p, *changed)
			if len(h.Cuts) == 0 {
				continue
			}
			alive, ok := aliveAfter(v, w, p, h.Cuts[len(h.Cuts)-1].Cut)
			if !ok {
				why = p.Name + " is not known to have served after its connections were cut"
				continue
			}
			n := evidence.CutConns(h.Cuts)
			f := rule.Finding{
				Text: fmt.Sprintf("%s to %s %s cut when its endpoint changed, while it still served",
					quantity.Count(n, "connection"), p.Name, quantity.Was(n)),
				Fix: fmt.Sprintf("use a proxy mode, or a version, that leaves established connections alone, as "+
					"kube-proxy in iptables and nftables mode do: %d would have lived on", n),
				For: []evidence.Sign{
					evidence.Close.Event(v.Changes.IDOf(p, timeline.EndpointChanged, changed), changed,
						p.Name+"'s endpoint changed"),
					h.Sign(w, ""), alive,
				},
			}
			if ended := endedAfter(v, p, h.Cuts[0].Cut); ended != nil {
				f.Oppose(evidence.Watched.Seen(ended, "a container of "+p.Name+" ended then: what it had open "+
					"was cut with it"))
			}
			if own := v.Endings.BeganThen(w, p, h.Cuts[0].Cut); own != nil {
				f.Oppose(evidence.Watched.Target(own.Target, &own.From,
					p.Name+" failed at its own address from then on, and may have ended them itself"))
			}
			if asked := holderUnasked(h, v.Traffic.Target(w).Heartbeat()); asked > 0 {
				f.Lack(evidence.Measured.Doubt(fmt.Sprintf("%s reset while no heartbeat was open: the Pod itself "+
					"may have sent that", quantity.Count(asked, "connection")+" "+quantity.Was(asked))))
			}
			rule.Unnamed(h, &f)
			f.ExplainsAtMost(w, n)
			return f
		}
	}
	return rule.No(why)
}

// cutAtChange returns the connections of a Pod that were not closed in order after its endpoint changed, and within a
// heartbeat: what a proxy has forgotten is noticed when it is used next.
func cutAtChange(v *evidence.Evidence, w *model.Window, p *model.Pod, changed model.Instant) *evidence.Holder {
	h := &evidence.Holder{Pod: p, At: changed}
	reach := flushLate + v.Traffic.Target(w).Heartbeat()
	for _, c := range v.Traffic.CutsIn(w) {
		late := reach
		switch c.Class {
		case timeline.Reset.String():
		case timeline.TimeoutResponse.String():
			late += v.Traffic.Target(w).Heartbeat()
		default:
			continue
		}
		if evidence.MayBeOn(&c, p) && changed.Earliest <= c.Cut.Latest && c.Cut.Latest <= changed.Latest+late {
			h.Cuts = append(h.Cuts, c)
		}
	}
	return h
}

// holderUnasked counts the connections that were reset while no heartbeat was open. What a proxy has forgotten is reset
// when it is used.
func holderUnasked(h *evidence.Holder, beat time.Duration) (n int) {
	for _, c := range h.Cuts {
		if c.Class == timeline.Reset.String() && c.Idle.Min < beat-beat/20 {
			n++
		}
	}
	return n
}

// aliveAfter returns the sign that a Pod served after an instant.
func aliveAfter(v *evidence.Evidence, w *model.Window, p *model.Pod, cut model.Instant) (evidence.Sign, bool) {
	if own := v.Addresses.Probe(w, p); own.LastOK != nil && *own.LastOK > cut.Latest {
		at := model.Instant{Earliest: *own.LastOK, Latest: *own.LastOK}
		return evidence.Measured.Target(own.Target, &at, p.Name+" still answered at its own address after that"), true
	}
	if p.Exited != nil && p.Exited.Earliest > cut.Latest {
		return evidence.Watched.Event(v.Changes.IDOf(p, timeline.PodContainer, p.Exited), p.Exited,
			p.Name+" exited only then"), true
	}
	return evidence.Sign{}, false
}

// endedAfter returns the end of a container of a Pod about when a connection was noticed to be cut; nil if none ended
// then.
func endedAfter(v *evidence.Evidence, p *model.Pod, cut model.Instant) *model.Event {
	for _, e := range v.Changes.About[p.UID] {
		if e.Kind == timeline.PodContainer && e.To == "terminated" && e.At.Earliest <= cut.Latest &&
			cut.Earliest <= e.At.Latest+evidence.Moment {
			return e
		}
	}
	return nil
}
