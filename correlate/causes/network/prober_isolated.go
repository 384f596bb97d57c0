package network

import (
	"fmt"
	"maps"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// prober-isolated: the prober's node is cut off from the others. The Service is well for everybody else.
//
//	direct, own node     ok ok ok ok ok
//	direct, other nodes  ok t  t  t  ok     all of them at once
//	watches              ok .  .  .  ok     nothing, where the API server is on another node
//
// Probers on other nodes tell more: what they are answered meanwhile, the Service is well for.
//
//	new, from here         ok x  x  x  ok
//	reused, from here      ok x  x  x  ok    connections that are open as well
//	new, from other nodes  ok ok ok ok ok

var ProberIsolated = rule.Rule{
	Name:  "prober-isolated",
	Doc:   "The prober's node was cut off from the other nodes: the Service may have worked for all other clients.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Test:  testProberIsolated,
}

func testProberIsolated(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	if nodes := v.Traffic.AnsweredFrom(w); len(nodes) > 0 {
		return isolatedAlone(v, w, nodes)
	}
	own := v.Traffic.Target(w).Node
	unreachable, answering := unreachableNodes(v, w)
	switch {
	case own == "" || !answering[own]:
		return rule.No("no Pod on the prober's own node went on answering while others did not")
	case len(answering) > 1:
		return rule.No("a Pod on another node went on answering at its own address")
	case len(unreachable) == 0:
		return rule.No("no Pod on another node failed at its own address")
	}
	nodes, gap := slices.Sorted(maps.Keys(unreachable)), v.Watches.SilenceBeside(w)
	if len(nodes) == 1 && gap == nil {
		return rule.No("only one other node has Pods, and the watches went on: " + nodes[0] + " may have been cut off")
	}
	f := rule.Finding{
		Text: fmt.Sprintf("%s was cut off from the other nodes: no Pod on %s could be reached, and a Pod on %s "+
			"itself went on answering", own, quantity.Names(nodes), own),
		Fix: fmt.Sprintf("look at the network of %s; nothing is known of the Service as others saw it %s: measure "+
			"from ≥ 2 nodes",
			own, evidence.Lasted(w)),
	}
	var cut []evidence.Suspect
	for _, node := range nodes {
		cut = append(cut, unreachable[node]...)
	}
	for _, s := range cut[:min(len(cut), rule.MostNamed)] {
		f.For = append(f.For, evidence.Watched.Target(s.Target, &s.Outage.Start,
			fmt.Sprintf("%s on %s failed when probed at its own address: %s", s.Pod.Name, s.Pod.Node,
				quantity.ClassCounts(s.Outage.Classes))))
	}
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, cut)...)...)
	switch {
	case gap == nil:
		f.Oppose(evidence.Close.Doubt("the watches went on: it may be that only Pods of different nodes could not " +
			"reach each other"))
	case len(nodes) == 1:
		f.Oppose(evidence.Close.Doubt("only one other node has Pods: " + nodes[0] + " may have been cut off"))
		fallthrough
	default:
		f.For = append(f.For, evidence.Watched.Seen(gap, "the watches brought nothing meanwhile either"))
	}
	f.ExplainsAtMost(w, v.Suspects.MadeBy(w, cut)+evidence.Count(w.Classes, timeline.DNS))
	return f
}

// isolatedAlone says that one node was cut off, where other nodes were answered.
func isolatedAlone(v *evidence.Evidence, w *model.Window, others []string) rule.Finding {
	own := v.Traffic.Target(w)
	kinds := map[timeline.TargetKind]timeline.TargetKind{timeline.New: timeline.Reused, timeline.Reused: timeline.New}
	beside := v.Traffic.WindowNear(own, kinds[own.Kind], w.Span())
	silent := func(w *model.Window) bool {
		return w.Share >= evidence.NearlyAll && evidence.Only(w.Classes, timeline.DNS, timeline.TimeoutConnect,
			timeline.TimeoutResponse, timeline.Unreachable)
	}
	if beside == nil || !silent(w) || !silent(beside) || evidence.Count(w.Classes, timeline.DNS)+
		evidence.Count(beside.Classes, timeline.DNS) == 0 {
		return rule.No(fmt.Sprintf("%s was not cut off from everything: some requests were answered or refused "+
			"there, or "+
			"names were looked up", v.Traffic.From(w)))
	}
	f := rule.Finding{
		Text: fmt.Sprintf("%s was cut off: nothing was answered there %s, on new and reused connections, and no "+
			"name was looked up, while %s were answered", v.Traffic.From(w), evidence.Lasted(w),
			quantity.Names(others)),
		Fix: fmt.Sprintf("look at the network of %s %s: what failed there says nothing about clients on other nodes",
			v.Traffic.From(w), quantity.Between(v.Run, w.Span())),
		For: []evidence.Sign{
			evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes)),
			evidence.Measured.Target(beside.Target, &beside.Start, "and on the other connections: "+
				quantity.ClassCounts(beside.Classes)),
		},
	}
	f.Lack(evidence.Measured.Doubt("nothing else was sent from " + v.Traffic.From(w) +
		": only the Service and its " +
		"name may have been unreachable"))
	return f
}
