package network

import (
	"cmp"
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
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

var NodePortUnreachable = rule.Rule{
	Name:  "node-port-unreachable",
	Doc:   "The node whose port was asked died or was cut off. The Service answered on its other routes.",
	Needs: []rule.Need{rule.RequestsFailed},
	Only:  func(c *rule.Case) bool { return c.Evidence.Traffic.Target(c.Window).RouteNode != "" },
	Test:  testNodePortUnreachable,
}

func testNodePortUnreachable(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	node := v.Traffic.Target(w).RouteNode
	beside, failing := otherWays(v, w)
	switch {
	case w.Share < evidence.NearlyAll || !evidence.Only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse,
		timeline.Unreachable, timeline.NoSlot):
		return rule.No("some requests to the port of " + node +
			" were answered, refused or cut: the node could be reached")
	case len(beside) == 0 && failing:
		return rule.No("the other ways to the Service failed as well")
	}
	empty := func(e evidence.EmptySpan) bool { return e.Whole().Overlaps(w.Span()) }
	if policy, _ := v.Services.Policy(w); v.Services.NeverLocal(w) ||
		policy == evidence.LocalPolicy && slices.ContainsFunc(v.Services.Unrouted(w), empty) {
		return rule.No("no endpoint was ready on " + node +
			", and the Service routes requests to its port only within it")
	}
	f := rule.Finding{
		Text: fmt.Sprintf("%s, whose port was asked, could not be reached: every request there failed %s", node,
			evidence.Lasted(w)),
		Fix: fmt.Sprintf("take such a node out of what clients are given: a load balancer whose health checks "+
			"(kube-proxy's :10256/healthz) find it in less than the %s that requests failed here, or clients that "+
			"try another node",
			quantity.Lowest(max(w.Length.Min, 0))),
		For: []evidence.Sign{evidence.Watched.Target(w.Target, &w.Start, "requests to the port of "+node+
			" began to fail: "+quantity.ClassCounts(w.Classes))},
	}
	for _, t := range beside[:min(len(beside), rule.MostNamed)] {
		f.For = append(f.For, evidence.Watched.Target(t.Name, nil, "requests by another way were answered meanwhile"))
	}
	if len(beside) == 0 {
		f.Lack(evidence.Measured.Doubt("no other way to the Service was asked meanwhile: it may have failed by " +
			"all of them"))
	}
	nodeItself(v, w, node, &f)
	return f
}

// nodeItself adds what was seen of a node other than its port.
func nodeItself(v *evidence.Evidence, w *model.Window, node string, f *rule.Finding) {
	noticed := v.Changes.NodeNotReady(w, node)
	if noticed != nil {
		f.For = append(f.For,
			evidence.Watched.Seen(noticed, fmt.Sprintf("%s turned %s → %s", node, cmp.Or(noticed.From, "ready"),
				noticed.To)))
	}
	cut := v.Suspects.That(w, func(s evidence.Suspect) bool {
		return s.Pod.Node == node && !evidence.AnswersBadly(s.Outage) && s.Whole()
	})
	for _, s := range cut[:min(len(cut), rule.MostNamed)] {
		f.For = append(f.For, evidence.Measured.Target(s.Target, &s.Outage.Start,
			fmt.Sprintf("%s on %s failed at its own address as well", s.Pod.Name, node)))
	}
	for _, p := range v.Addresses.HealthyOthers(w) {
		if p.Node == node && v.Traffic.OutageNear(v.Addresses.DirectName(w, p), w.Span()) == nil {
			f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("%s on %s went on answering at its own address: the node "+
				"could be reached, and only its port failed (kube-proxy there, or a firewall)", p.Name, node)))
			return
		}
	}
	if noticed == nil && len(cut) == 0 {
		f.Lack(evidence.Measured.Doubt("nothing was seen of " +
			node + " itself: a firewall before its port fits as well"))
	}
}

// otherWays returns the targets that send new connections from the same place to the same Service by other ways, and
// that were answered at least half of the time during the window. failing reports whether there are some that were not.
func otherWays(v *evidence.Evidence, w *model.Window) (answered []*model.Target, failing bool) {
	own := v.Traffic.Target(w)
	for i := range v.Run.Targets {
		t := &v.Run.Targets[i]
		if t.Kind != timeline.New || t.Service != own.Service || t.PortName != own.PortName ||
			t.Source != own.Source || t.Route == own.Route && t.RouteNode == own.RouteNode {
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
