package causes

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// controller-lag: a Pod was deleted, and the EndpointSlice was not changed for long. The nodes followed it as fast as
// ever.
//
//	Pod        ready   terminating, gone
//	endpoint   ready   ready ready ready ready   absent
//	svc        ok ok   x ok x ok x ok x ok x ok  ok ok ok

var controllerLag = Rule{
	Name: lateController,
	Doc:  "The EndpointSlice was changed late after a Pod's deletion: the controller manager was slow, stopped or changing its leader.",
	Looks: `As route-outlives-pod, for longer than 3 s. The Pod's endpoint stayed ready for most of that time after the Pod's
deletion, and failures end about when it leaves: the node is not to blame. All nodes fail alike, and end together.`,
	Fix:   "Look at kube-controller-manager: its leader election, its CPU, its connection to the API server. No Pod can serve for as long as that may take.",
	Needs: []Need{podsWatched, endpointSlices, endpointsWatched},
	Test:  testControllerLag,
}

func testControllerLag(c *Case) Finding {
	f, s, r, ok := c.tooLateBy(lateController)
	if !ok {
		return f
	}
	v, w := c.index, c.Window
	after := max(0, r.last-s.pod.EndpointNotReady.Earliest)
	text := fmt.Sprintf("requests failed until ≤ %s after that", quantity.Span(after))
	f.For = append(f.For, Sign{model.Evidence{Target: w.Target, At: &w.End, Text: text}, Watched})
	if v.gapNear("endpointslice", w) {
		f.against(doubt(Close, "the watch of EndpointSlices had a gap: the endpoint may have left earlier than was seen, and the API server may have stood still"))
	}
	if _, known := v.publishes(w); !known {
		f.missing(doubt(Measured, "whether the Service publishes addresses that are not ready is not known: it would keep the endpoint of an ending Pod"))
	}
	f.Text = fmt.Sprintf("the endpoint of %s stayed ready for %s after its deletion: the EndpointSlice was changed late, and %s followed it within %s",
		s.pod.Name, quantity.Length(s.controllerLag(), false), v.router(w), quantity.Span(after))
	f.Fix = fmt.Sprintf("look at kube-controller-manager (its leader, its CPU, its API server): it usually changes an EndpointSlice within a second, and took ≥ %s; no delay before shutting down is long enough for that",
		quantity.Lowest(s.controllerLag().Min))
	return f
}
