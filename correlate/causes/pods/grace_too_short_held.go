package pods

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// grace-too-short, of held connections: a Pod waits for its clients to leave, as it should, and is killed before they
// have.

func testHeldGrace(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	kills := kills(v, w)
	if len(kills) == 0 {
		return rule.No("no Pod was killed at the end of its grace period")
	}
	f := rule.Finding{}
	var names []string
	cut := 0
	for i := range kills {
		k := &kills[i]
		h := &evidence.Holder{Pod: k.pod, At: k.at}
		for _, c := range v.Traffic.CutsIn(w) {
			if evidence.MayBeOn(&c, k.pod) && k.at.Earliest <= c.Cut.Latest &&
				c.Cut.Latest <= k.at.Latest+evidence.Moment {
				h.Cuts = append(h.Cuts, c)
			}
		}
		if len(h.Cuts) == 0 {
			continue
		}
		names = append(names, k.pod.Name)
		cut += evidence.CutConns(h.Cuts)
		f.For = append(append(f.For, k.signs(v, w)...), h.Sign(w, ""))
		rule.Unnamed(h, &f)
	}
	if cut == 0 {
		return rule.No("no connection was cut when Pods were killed at the end of their grace periods")
	}
	first := kills[slices.IndexFunc(kills, func(k kill) bool { return k.pod.Name == names[0] })]
	f.Text = fmt.Sprintf("%s %s killed at the end of the grace period of %s with %s open", quantity.Names(names),
		quantity.Was(len(names)), quantity.Span(first.grace), quantity.Count(cut, "connection"))
	f.Fix = fmt.Sprintf("let the server announce that it closes its connections (Connection: close, a close frame, "+
		"GOAWAY), and close them within the grace period of %s; or raise terminationGracePeriodSeconds to how long "+
		"clients stay", quantity.Span(first.grace))
	if preStopSleep(v, first.pod) >= first.grace {
		f.Fix += fmt.Sprintf(" (its preStop hook alone takes %s)", quantity.Span(preStopSleep(v, first.pod)))
	}
	f.Fix = strings.TrimSpace(f.Fix)
	f.ExplainsAtMost(w, cut)
	return f
}
