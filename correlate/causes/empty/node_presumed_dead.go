package empty

import (
	"fmt"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// node-presumed-dead: a node's kubelet reported no more, and the node controller took its Pods out of the endpoints,
// though they went on answering.
//
//	node      ready        unknown
//	direct    ok ok ok ok  ok ok ok ok
//	endpoints 2 2 2 2 2 2  0 0 0 0

var NodePresumedDead = emptyReason{
	Name:  "node-presumed-dead",
	Doc:   "The nodes of all Pods were taken for dead because their kubelets did not report, and no endpoint was left.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.PodsWatched},
	finds: nodesPresumedDead,
	says:  sayNodePresumedDead,
}

func sayNodePresumedDead(e *emptiness) rule.Finding {
	node := strings.TrimPrefix(e.object, "Node/")
	at := e.clock(e.event.At.Latest)
	nodes := map[string]bool{}
	var signs []evidence.Sign
	for _, p := range e.leavers[:min(len(e.leavers), rule.MostNamed)] {
		nodes[p.Node] = true
		if e.wentOnAnswering(p) {
			signs = append(signs, evidence.Measured.Target(e.view.Addresses.DirectName(e.window, p.Pod), new(p.left),
				p.Name+" left the ready endpoints, and went on answering at its own address"))
		}
	}
	what := node
	if len(nodes) > 1 {
		what = fmt.Sprintf("%d nodes", len(nodes))
	}
	did, look := "stopped reporting", "at its connection to the API server"
	if e.event.To == "false" { // that is a report
		did, look = "reported that it was not ready", "at what it says is not ready (its container runtime, its "+
			"network; kubectl describe node)"
	}
	f := e.finding(fmt.Sprintf("%s %s (%s, ready → %s), with %s on it, and ", what, did, at, e.event.To,
		quantity.Count(len(e.leavers), "ready Pod")),
		fmt.Sprintf(
			"look at the kubelet of %s and %s, and spread the replicas over more nodes: %s on %s left the endpoints",
			what, look, quantity.Count(len(e.leavers), "Pod"), quantity.Count(len(nodes), "node")),
		append([]evidence.Sign{e.sign(node + " turned from ready to " + e.event.To)}, signs...)...)
	f.For = append(f.For, e.all())
	return f
}
