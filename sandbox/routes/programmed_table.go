package main

import (
	"fmt"
	"strconv"

	"lapse/sandbox/drill"
)

// programmingText says what kube-proxy's own figure counts. It is read from the source of Kubernetes 1.36:
// pkg/proxy/endpointschangetracker.go, where the samples are gathered, and
// k8s.io/endpointslice/util/trigger_time_tracker.go, where the trigger times come from.
const programmingText = "kube-proxy has a figure of its own, the histogram `" + programmingMetric + "`.\n" +
	"When it has written its rules, it adds a sample for each change of an EndpointSlice that has a trigger time\n" +
	"(the annotation `" + triggerTime + "`): the time since then." + `
The trigger time is the earliest new transition of the condition Ready among the Service's Pods, or the Service's
creation, in whole seconds. If there is neither, the controller removes the annotation. So, by its source:

- A Pod that is deleted has no transition of Ready: the change that ends its routes has no trigger time, and gives no
  sample.
- A new Pod has two transitions, to not ready and to ready. Each gives a sample if it changes the EndpointSlice; only
  the second is an addition.
- A Pod that has ended turns not ready, long after its routes have gone. That gives a sample, but no route changes.

So the number of samples is not the number of additions. Below, each node's figure is read every 200 ms, and the
EndpointSlice is watched. The growth of the histogram's sum shows from which trigger time a sample counts, and so which
change it belongs to. The changes are of the Service that ` + "`lapse routes`" + ` creates, from its creation to its
deletion; a change of several endpoints at once has one trigger time.
`

// table returns what the figures of all nodes counted in one run.
func (p programmed) table() string {
	meaning := []string{"addition", "removal", ""}
	type line struct {
		programmedRow
		meaning string
		counts  bool // of changes
	}
	var lines []line
	for _, r := range p.rows {
		lines = append(lines, line{r, meaning[rank(r.kind)], true})
	}
	others := p.others
	others.kind = "of other Services"
	fitNone := programmedRow{kind: "that fit no change", samples: p.unexplained}
	lines = append(lines, line{others, "", true}, line{fitNone, "", false})
	count := func(of func(line) int) func(line) string {
		return func(l line) string {
			if !l.counts {
				return ""
			}
			return strconv.Itoa(of(l))
		}
	}
	columns := []drill.Column[line]{
		{Head: "change", Cell: func(l line) string { return l.kind }},
		{Head: "", Cell: func(l line) string { return l.meaning }},
		{Head: "changes", Cell: count(func(l line) int { return l.changes })},
		{Head: "with a trigger time", Cell: count(func(l line) int { return l.triggered })},
	}
	for _, node := range p.nodes {
		columns = append(columns, drill.Column[line]{Head: node, Cell: func(l line) string {
			return strconv.Itoa(l.samples[node])
		}})
	}
	return "\nSamples of kube-proxy's own figure, by node and by change of the EndpointSlice:\n\n" +
		drill.Table(columns, lines) +
		"\n" + p.sentence("an addition", isAddition) + " " + p.sentence("a removal", isRemoval) + "\n"
}

// sentence says how many samples the changes of some kinds gave.
func (p programmed) sentence(name string, kind func(string) bool) string {
	t := p.total(kind)
	all := 0
	for _, n := range t.samples {
		all += n
	}
	return fmt.Sprintf("%d changes with %s gave %d samples on %d nodes: %d were possible.",
		t.changes, name, all, len(p.nodes), t.changes*len(p.nodes))
}
