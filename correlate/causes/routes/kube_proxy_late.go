package routes

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// kube-proxy-late: an endpoint left its EndpointSlice, and one node went on routing to it: its kube-proxy, or the
// agent of its network, was slow, stuck or stopped.
//
//	endpoint   ready  terminating  absent
//	svc        ok ok  x ok x ok x ok x ok x ok x ok x ok    long after

var KubeProxyLate = rule.Rule{
	Name: evidence.LateProxy,
	Doc: "A node kept routing to an endpoint long after it had left its EndpointSlice: its kube-proxy did not apply " +
		"the change.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.EndpointsWatched},
	Test:  testKubeProxyLate,
}

func testKubeProxyLate(c *rule.Case) rule.Finding {
	f, s, _, ok := tooLateBy(c, evidence.LateProxy)
	if !ok {
		return f
	}
	v, w := c.Evidence, c.Window
	lag, since, left := s.ProxyLag(), "that", "its endpoint had left the EndpointSlice"
	if s.Alone != (model.Instant{}) {
		since, left = "another was ready", left+" and another was ready"
	}
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.End, fmt.Sprintf("requests from %s still failed ≥ %s "+
		"after %s", v.Traffic.From(w), quantity.Lowest(lag.Min), since)))
	f.Measures = append(f.Measures, model.Measure{Name: "proxy-lag", Object: s.Pod.Name,
		Node: v.Services.RouterNode(w), Length: lag})
	if v.Watches.GapNear("endpointslice", w) {
		f.Oppose(evidence.Close.Doubt("the watch of EndpointSlices had a gap: the change may not have reached the " +
			"node either, if the API server stood still"))
	}
	f.Text = fmt.Sprintf("%s still led to %s for %s after %s: that node's kube-proxy, or the agent of its network, "+
		"did not follow",
		v.Services.Routes(w), s.Pod.Name, quantity.Length(lag, w.Open.End), left)
	f.Fix = fmt.Sprintf("look at kube-proxy on %s (or the agent of its network): its health, its CPU, its log; "+
		"routes usually follow within 1 s or 2, and here took ≥ %s. A longer shutdown of the application would "+
		"only hide that",
		v.Services.Router(w), quantity.Lowest(lag.Min))
	return f
}
