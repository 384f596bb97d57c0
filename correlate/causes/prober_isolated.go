package causes

import (
	"fmt"
	"maps"
	"slices"

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

var proberIsolated = Rule{
	Name: "prober-isolated",
	Doc:  "The prober's node was cut off from the other nodes: the Service may have worked for all other clients.",
	Looks: `Everything that leaves the prober's node fails at once: the addresses of all Pods on other nodes, look-ups of names,
often the watches. A Pod on the prober's own node keeps answering. If the watches continue, the confidence is at most
*medium*. With probers on several nodes (--from): one prober gets no answer on any connection and no DNS answer, while
the others do. The confidence is *medium*: something that separates only this node from the Service fits as well.`,
	Fix:   "Look at that node's network. What failed there says nothing about clients on other nodes: measure from a second one.",
	Needs: []Need{podsWatched, requestsFailed},
	Test:  testProberIsolated,
}

func testProberIsolated(c *Case) Finding {
	v, w := c.index, c.Window
	if nodes := v.answeredFrom(w); len(nodes) > 0 {
		return v.isolatedAlone(w, nodes)
	}
	own := v.target(w).Node
	unreachable, answering := v.unreachableNodes(w)
	switch {
	case own == "" || !answering[own]:
		return no("no Pod on the prober's own node went on answering while others did not")
	case len(answering) > 1:
		return no("a Pod on another node went on answering at its own address")
	case len(unreachable) == 0:
		return no("no Pod on another node failed at its own address")
	}
	nodes, gap := slices.Sorted(maps.Keys(unreachable)), v.gapBeside(w)
	if len(nodes) == 1 && gap == nil {
		return no("only one other node has Pods, and the watches went on: that " + nodes[0] + " was cut off fits as well")
	}
	f := Finding{
		Text: fmt.Sprintf("%s was cut off from the other nodes: no Pod on %s could be reached, and a Pod on %s itself went on answering", own, namedOf(nodes), own),
		Fix: fmt.Sprintf("look at the network of %s; nothing is known of the Service as others saw it %s: measure from ≥ 2 nodes",
			own, lasted(w)),
	}
	var cut []suspect
	for _, node := range nodes {
		cut = append(cut, unreachable[node]...)
	}
	for _, s := range cut[:min(len(cut), mostNamed)] {
		f.For = append(f.For, Sign{model.Evidence{Target: s.target, At: &s.outage.Start, Text: fmt.Sprintf("%s on %s failed at its own address: %s", s.pod.Name, s.pod.Node, quantity.ClassCounts(s.outage.Classes))}, Watched})
	}
	f.For = append(f.For, context(v.othersAnswered(w, cut)...)...)
	switch {
	case gap == nil:
		f.against(doubt(Close, "the watches went on: that only Pods of different nodes could not reach each other fits as well"))
	case len(nodes) == 1:
		f.against(doubt(Close, "only one other node has Pods: that "+nodes[0]+" was cut off fits as well"))
		fallthrough
	default:
		f.For = append(f.For, Sign{model.Evidence{Event: gap.ID, At: &gap.At, Text: "the watches brought nothing meanwhile either"}, Watched})
	}
	f.explains(w, v.madeBy(w, cut)+some(w.Classes, timeline.DNS))
	return f
}

// isolatedAlone says that one node was cut off, where other nodes were answered.
func (v *index) isolatedAlone(w *model.Window, others []string) Finding {
	own := v.target(w)
	kinds := map[timeline.TargetKind]timeline.TargetKind{timeline.New: timeline.Reused, timeline.Reused: timeline.New}
	beside := v.windowNear(own, kinds[own.Kind], w.Span())
	silent := func(w *model.Window) bool {
		return w.Share >= nearlyAll && only(w.Classes, timeline.DNS, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.Unreachable)
	}
	if beside == nil || !silent(w) || !silent(beside) || some(w.Classes, timeline.DNS)+some(beside.Classes, timeline.DNS) == 0 {
		return no(fmt.Sprintf("%s was not cut off from everything: some requests were answered or refused there, or names were looked up", v.from(w)))
	}
	f := Finding{
		Text: fmt.Sprintf("%s was cut off: nothing was answered there %s, on new and persistent connections, and no name was looked up, while %s were answered", v.from(w), lasted(w), namedOf(others)),
		Fix:  fmt.Sprintf("look at the network of %s %s: what failed there says nothing about clients on other nodes", v.from(w), quantity.Between(w.Span())),
		For: []Sign{
			{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched},
			{model.Evidence{Target: beside.Target, At: &beside.Start, Text: "and on the other connections: " + quantity.ClassCounts(beside.Classes)}, Measured},
		},
	}
	f.missing(doubt(Measured, "nothing else was sent from "+v.from(w)+": that only the Service and its name were kept from it fits as well"))
	return f
}
