package causes

import (
	"fmt"
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// local-no-endpoint: a Service routes only to endpoints on the client's own node (internalTrafficPolicy: Local), or
// on the node whose port is asked (externalTrafficPolicy: Local), and there is none, though there are others.
// kube-proxy drops what it cannot route so: connections time out.
//
//	endpoints, all nodes  3 3 3 3 3
//	endpoints, this node  1 0 0 0 1
//	svc                   ok t t t ok

var localNoEndpoint = Rule{
	Name: "local-no-endpoint",
	Doc:  "The Service routes only within a node, and no endpoint was ready on the prober's.",
	Looks: `All requests fail, and after the first moments they time out. Endpoints are ready, but on other nodes: the Service has
internalTrafficPolicy: Local, or externalTrafficPolicy: Local and the node's port is asked. Clients on nodes with an
endpoint notice nothing.`,
	Fix:   "Run an endpoint on each node that has clients (a DaemonSet, or spread constraints), or set internalTrafficPolicy to Cluster.",
	Needs: []Need{endpointSlices, endpointsWatched, requestsFailed},
	Test:  testLocalNoEndpoint,
}

func testLocalNoEndpoint(c *Case) Finding {
	v, w := c.index, c.Window
	policy, node := v.policy(w)
	setting, clients, nodes := "internalTrafficPolicy", "requests from "+node, "node that has clients"
	if v.target(w).RouteNode != "" {
		setting, clients, nodes = "externalTrafficPolicy", "requests to the node port of "+node, "node whose port is asked"
	}
	switch {
	case v.serviceSpec(w) == nil:
		return no("the Service's traffic policy is not known")
	case policy != localPolicy:
		return no("the Service routes to endpoints on all nodes")
	case node == "":
		return no("the prober's node is not known")
	}
	spans := v.unrouted(w)
	i := slices.IndexFunc(spans, func(empty emptySpan) bool { return empty.whole().Overlaps(w.Span()) })
	if i < 0 {
		return no("an endpoint on " + node + " was ready, or terminating and still serving, all the time")
	}
	empty := &spans[i]
	elsewhere := v.service(w).mostReady(empty.start.Latest, min(empty.end.Latest, w.End.Latest))
	if elsewhere == 0 {
		return no("no endpoint was ready on any node")
	}
	if last := whenLastLeft(v, w, empty); !last.Overlaps(v.onset(w)) {
		return no(fmt.Sprintf("no endpoint was ready on %s %s, but requests began to fail %s", node, quantity.Between(empty.whole()), quantity.Between(w.Start)))
	}
	if why := answeredMeanwhile(w, empty); why != "" {
		return no(why)
	}
	f := Finding{
		Text: fmt.Sprintf("%s had no endpoint of its own, and the Service routes only within a node (%s: Local): %s left last (%s); up to %s elsewhere",
			node, setting, empty.last.Object.Name, quantity.Clock(empty.start.Latest), quantity.Count(elsewhere, "endpoint")),
		Fix: fmt.Sprintf("run an endpoint on each %s (a DaemonSet, or spread constraints), or set %s: Cluster: %s failed %s", nodes, setting, clients, lasted(w)),
		For: []Sign{
			{model.Evidence{Event: v.serviceSpec(w).ID, Text: "the Service has " + setting + ": Local"}, Watched},
			{model.Evidence{Event: empty.last.ID, At: &empty.start, Text: empty.last.Object.Name + ", the last ready endpoint on " + node + ", left"}, Watched},
			{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched},
		},
	}
	f.For = append(f.For, context(v.othersAnswered(w, nil)...)...)
	return f
}
