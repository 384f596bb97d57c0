package routes

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// controller-lag: a Pod was deleted, and the EndpointSlice was not changed for long. The nodes followed it as fast as
// ever.
//
//	Pod        ready   terminating, gone
//	endpoint   ready   ready ready ready ready   absent
//	svc        ok ok   x ok x ok x ok x ok x ok  ok ok ok

var ControllerLag = rule.Rule{
	Name: evidence.LateController,
	Doc: "The EndpointSlice was changed late after a Pod's deletion: the controller manager was slow, stopped or " +
		"changing its leader.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.EndpointsWatched},
	Test:  testControllerLag,
}

func testControllerLag(c *rule.Case) rule.Finding {
	f, s, r, ok := tooLateBy(c, evidence.LateController)
	if !ok {
		return f
	}
	v, w := c.Evidence, c.Window
	after := max(0, r.Last-s.Pod.EndpointNotReady.Earliest)
	text := fmt.Sprintf("requests failed until ≤ %s after that", quantity.Span(after))
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.End, text))
	if v.Watches.GapNear("endpointslice", w) {
		f.Oppose(evidence.Close.Doubt("the watch of EndpointSlices had a gap: the endpoint may have left earlier " +
			"than was seen, and the API server may have stood still"))
	}
	if _, known := v.Services.Publishes(w); !known {
		f.Lack(evidence.Measured.Doubt("whether the Service publishes addresses that are not ready is not known: " +
			"it would keep the endpoint of an ending Pod"))
	}
	f.Text = fmt.Sprintf("the endpoint of %s stayed ready for %s after its deletion: the EndpointSlice was changed "+
		"late, and %s followed it within %s",
		s.Pod.Name, quantity.Length(s.ControllerLag(), false), v.Services.Router(w), quantity.Span(after))
	f.Fix = fmt.Sprintf("look at kube-controller-manager (its leader, its CPU, its API server): it usually changes "+
		"an EndpointSlice within a second, and took ≥ %s; no delay before shutting down is long enough for that",
		quantity.Lowest(s.ControllerLag().Min))
	return f
}
