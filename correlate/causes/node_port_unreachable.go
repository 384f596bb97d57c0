package causes

import (
	"cmp"
	"fmt"
	"slices"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// node-port-unreachable: the node whose port is asked is dead or cut off. It need not have a Pod of the Service:
// requests go through it.
//
//	svc nodeport node2   ok t t t t t t …         all of them
//	svc nodeport node1   ok ok ok ok ok …         or the share of the Pods on node2
//	svc clusterip        ok ok ok ok ok …

var nodePortUnreachable = Rule{
	Name: "node-port-unreachable",
	Doc:  "The node whose port was asked died or was cut off. The Service answered on its other routes.",
	Looks: `All requests to the port of one node time out or are unreachable, and those to other nodes' ports or to the cluster IP
are answered meanwhile, but for the share of Pods on that node. The node need not run a Pod of the Service. If neither
Kubernetes nor the addresses of Pods on the node show that it failed, the confidence is *medium*: a firewall fits as
well.`,
	Fix:   "Take such a node out of what clients are given: a load balancer with health checks (kube-proxy's :10256/healthz), or several nodes and clients that try another.",
	Needs: []Need{requestsFailed},
	Only:  func(c *Case) bool { return c.index.target(c.Window).RouteNode != "" },
	Test:  testNodePortUnreachable,
}

func testNodePortUnreachable(c *Case) Finding {
	v, w := c.index, c.Window
	node := v.target(w).RouteNode
	beside, failing := v.otherWays(w)
	switch {
	case w.Share < nearlyAll || !only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable, timeline.NoSlot):
		return no("some requests to the port of " + node + " were answered, refused or cut: the node could be reached")
	case len(beside) == 0 && failing:
		return no("the other ways to the Service failed as well")
	}
	if policy, _ := v.policy(w); policy == localPolicy && slices.ContainsFunc(v.unrouted(w), func(e emptySpan) bool { return e.whole().Overlaps(w.Span()) }) {
		return no("no endpoint was ready on " + node + ", and the Service routes requests to its port only within it")
	}
	f := Finding{
		Text: fmt.Sprintf("%s, whose port was asked, could not be reached: every request there failed %s", node, lasted(w)),
		Fix: fmt.Sprintf("take such a node out of what clients are given: a load balancer whose health checks (kube-proxy's :10256/healthz) find it in less than the %s that requests failed here, or clients that try another node",
			quantity.Lowest(max(w.Length.Min, 0))),
		For: []Sign{{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests to the port of " + node + " began to fail: " + quantity.ClassCounts(w.Classes)}, Watched}},
	}
	for _, t := range beside[:min(len(beside), mostNamed)] {
		f.For = append(f.For, Sign{model.Evidence{Target: t.Name, Text: "requests by another way were answered meanwhile"}, Watched})
	}
	if len(beside) == 0 {
		f.missing(doubt(Measured, "no other way to the Service was asked meanwhile: it may have failed by all of them"))
	}
	v.nodeItself(w, node, &f)
	return f
}

// nodeItself adds what was seen of a node besides its port.
func (v *index) nodeItself(w *model.Window, node string, f *Finding) {
	noticed := v.nodeNotReady(w, node)
	if noticed != nil {
		f.For = append(f.For, Sign{model.Evidence{Event: noticed.ID, At: &noticed.At, Text: fmt.Sprintf("%s turned %s → %s", node, cmp.Or(noticed.From, "ready"), noticed.To)}, Watched})
	}
	cut := v.suspectsThat(w, func(s suspect) bool { return s.pod.Node == node && !answersBadly(s.outage) && s.whole() })
	for _, s := range cut[:min(len(cut), mostNamed)] {
		f.For = append(f.For, Sign{model.Evidence{Target: s.target, At: &s.outage.Start, Text: fmt.Sprintf("%s on %s failed at its own address as well", s.pod.Name, node)}, Measured})
	}
	for _, p := range v.healthyOthers(w) {
		if p.Node == node && v.outageNear(v.directName(w, p), w.Span()) == nil {
			f.against(doubt(Watched, fmt.Sprintf("%s on %s went on answering at its own address: the node could be reached, and only its port failed (kube-proxy there, or a firewall)", p.Name, node)))
			return
		}
	}
	if noticed == nil && len(cut) == 0 {
		f.missing(doubt(Measured, "nothing was seen of "+node+" itself: a firewall before its port fits as well"))
	}
}

// otherWays are the targets that send new connections from the same place to the same Service by other ways, and that
// were answered at least half of the time during the window. failing reports whether there are some that were not.
func (v *index) otherWays(w *model.Window) (answered []*model.Target, failing bool) {
	own := v.target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind != timeline.New || t.Service != own.Service || t.PortName != own.PortName || t.Source != own.Source || t.Route == own.Route && t.RouteNode == own.RouteNode {
			continue
		}
		if n, sent := v.Answered(t.ID, w.Start.Latest, w.End.Earliest); n >= 3 && 2*n >= sent {
			answered = append(answered, t)
		} else {
			failing = true
		}
	}
	return answered, failing
}
