package empty

import (
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// local-no-endpoint: a Service routes only to endpoints on the client's own node (internalTrafficPolicy: Local), or
// on the node whose port is asked (externalTrafficPolicy: Local), and there is none, though there are others.
// kube-proxy drops what it cannot route so: connections time out.
//
//	endpoints, all nodes  3 3 3 3 3
//	endpoints, this node  1 0 0 0 1
//	svc                   ok t t t ok

var LocalNoEndpoint = rule.Rule{
	Name:  "local-no-endpoint",
	Doc:   "The Service routes only within a node, and no endpoint was ready on the prober's.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.RequestsFailed},
	Test:  testLocalNoEndpoint,
}

func testLocalNoEndpoint(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	policy, node := v.Services.Policy(w)
	setting, clients, nodes := "internalTrafficPolicy", "requests from "+node, "node that has clients"
	if v.Traffic.Target(w).RouteNode != "" {
		setting, clients, nodes = "externalTrafficPolicy", "requests to the node port of "+node,
			"node whose port is asked"
	}
	switch {
	case v.Services.Spec(w) == nil:
		return rule.No("the Service's traffic policy is not known")
	case policy != evidence.LocalPolicy:
		return rule.No("the Service routes to endpoints on all nodes")
	case node == "":
		return rule.No("the prober's node is not known")
	}
	fix := fmt.Sprintf("run a ready endpoint on each %s (a DaemonSet, or spread constraints), or set %s: Cluster: %s "+
		"failed %s", nodes, setting, clients, evidence.Lasted(w))
	within := fmt.Sprintf("and the Service routes only within a node (%s: Local)", setting)
	has := evidence.Watched.Event(v.Services.Spec(w).ID, nil, "the Service has "+setting+": Local")
	began := evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes))
	if v.Services.NeverLocal(w) {
		elsewhere := v.Services.Service(w).MostReady(w.Start.Latest, w.End.Latest)
		switch {
		case elsewhere == 0:
			return rule.No("no endpoint was ready on any node")
		case v.Traffic.Target(w).OK > 0:
			return rule.No("requests were answered though " + node + " had no ready endpoint in the whole run")
		}
		return rule.Finding{
			Text: fmt.Sprintf("%s had no ready endpoint of its own in the whole run, %s; up to %s elsewhere", node,
				within, quantity.Count(elsewhere, "endpoint")),
			Fix: fix,
			For: append([]evidence.Sign{has, began}, evidence.Mention(v.Suspects.OthersAnswered(w, nil)...)...),
		}
	}
	spans := v.Services.Unrouted(w)
	i := slices.IndexFunc(spans, func(empty evidence.EmptySpan) bool { return empty.Whole().Overlaps(w.Span()) })
	if i < 0 {
		return rule.No("an endpoint on " + node + " was ready, or terminating and still serving, all the time")
	}
	empty := &spans[i]
	elsewhere := v.Services.Service(w).MostReady(empty.Start.Latest, min(empty.End.Latest, w.End.Latest))
	if elsewhere == 0 {
		return rule.No("no endpoint was ready on any node")
	}
	if last := evidence.WhenLastLeft(v.Addresses, w, empty); !last.Overlaps(v.Traffic.Onset(w)) {
		return rule.No(fmt.Sprintf("no endpoint was ready on %s %s, but requests began to fail %s", node,
			quantity.Between(v.Run, empty.Whole()), quantity.Between(v.Run, w.Start)))
	}
	if why := evidence.AnsweredMeanwhile(w, empty); why != "" {
		return rule.No(why)
	}
	f := rule.Finding{
		Text: fmt.Sprintf("%s had no endpoint of its own, %s: %s left last (%s); up to %s elsewhere", node, within,
			empty.Last.Object.Name, quantity.Clock(v.Run, empty.Start.Latest), quantity.Count(elsewhere, "endpoint")),
		Fix: fix,
		For: []evidence.Sign{
			has,
			evidence.Watched.Event(empty.Last.ID, &empty.Start, empty.Last.Object.Name+
				", the last ready endpoint on "+node+", left"),
			began,
		},
	}
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, nil)...)...)
	return f
}
