package network

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// node-unreachable: a node is dead, or cut off. Its Pods are ready until that is noticed: the node
// controller waits for 40 to 50 s without a sign of the node's kubelet before it calls the node unknown and takes its
// endpoints out.
//
//	svc            ok t ok t t ok …               timeouts, at the share of the node's endpoints
//	direct node2   ok t t  t t …                  every Pod on that node
//	direct node1   ok ok ok ok …
//	node2          . . . . . . . . . NotReady      40 s later

var NodeUnreachable = rule.Rule{
	Name:  "node-unreachable",
	Doc:   "A node died or was cut off, and the Service kept routing to the Pods on it.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Test:  testNodeUnreachable,
}

func testNodeUnreachable(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	unreachable, answering := unreachableNodes(v, w)
	elsewhere := slices.DeleteFunc(slices.Sorted(maps.Keys(answering)), func(node string) bool {
		return node == v.Traffic.Target(w).Node
	})
	switch {
	case len(unreachable) == 0:
		return rule.No("on no node were all Pods unreachable at their own addresses")
	case len(unreachable) > 1:
		return rule.No("Pods on several nodes were unreachable at their own addresses: " +
			strings.Join(slices.Sorted(maps.Keys(unreachable)), ", "))
	}
	node := slices.Collect(maps.Keys(unreachable))[0]
	cut, noticed := unreachable[node], v.Changes.NodeNotReady(w, node)
	if len(answering) == 0 && noticed == nil {
		return rule.No("no Pod on another node answered at its own address meanwhile")
	}
	f := rule.Finding{Fix: nodeFix(w, node)}
	for _, s := range cut[:min(len(cut), rule.MostNamed)] {
		f.For = append(f.For, evidence.Watched.Target(s.Target, &s.Outage.Start,
			fmt.Sprintf("%s on %s failed when probed at its own address: %s", s.Pod.Name, node,
				quantity.ClassCounts(s.Outage.Classes))))
	}
	f.For = append(f.For, evidence.Context.Target(w.Target, &w.Start, "requests began to fail: "+
		quantity.ClassCounts(w.Classes)))
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, cut)...)...)
	switch {
	case noticed != nil:
		f.For = append(f.For,
			evidence.Watched.Seen(noticed, fmt.Sprintf("%s turned %s → %s", node, cmp.Or(noticed.From, "ready"),
				noticed.To)))
	case onlyOfTheirTemplate(v, w, cut):
		f.Lack(evidence.Watched.Doubt("no Pod with their template answered on another node, and nothing was seen " +
			"of the node itself: what their template shares, as a NetworkPolicy, fits as well"))
	case len(evidence.SuspectPods(cut)) == 1:
		f.Lack(evidence.Watched.Doubt("it is the only Pod on " + node +
			", and nothing was seen of the node itself: " +
			"the Pod's own network fits as well"))
	}
	if i := slices.IndexFunc(cut, v.Suspects.Hangs); i >= 0 {
		f.Oppose(
			evidence.Watched.Doubt(fmt.Sprintf("connections to %s were made, and not answered: %s could be reached",
				cut[i].Pod.Name, node)))
	}
	if len(elsewhere) == 0 && noticed == nil {
		f.Oppose(evidence.Close.Doubt("no Pod on a third node was asked: the prober's own node may have been cut off"))
	}
	if nodes := v.Traffic.AnsweredFrom(w); len(nodes) > 0 && !v.Services.Narrows(w) {
		f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("requests from %s were answered meanwhile: it may be that %s "+
			"could not be reached from %s only", quantity.Names(nodes), node, v.Traffic.From(w))))
	}
	rule.MoreThanTheirShare(v, w, len(evidence.SuspectPods(cut)), &f)
	f.ExplainsAtMost(w, v.Suspects.MadeBy(w, cut))
	f.Text = nodeText(w, node, cut, noticed)
	return f
}

// onlyOfTheirTemplate reports whether suspects have one template, and all Pods that went on answering have others.
func onlyOfTheirTemplate(v *evidence.Evidence, w *model.Window, cut []evidence.Suspect) bool {
	template, others := cut[0].Pod.Template, 0
	if template == "" || slices.ContainsFunc(cut, func(s evidence.Suspect) bool { return s.Pod.Template != template }) {
		return false
	}
	for _, p := range v.Addresses.HealthyOthers(w) {
		if v.Traffic.OutageNear(v.Addresses.DirectName(w, p), w.Span()) != nil {
			continue
		}
		if p.Template == template {
			return false
		}
		others++
	}
	return others > 0
}

func nodeText(w *model.Window, node string, cut []evidence.Suspect, noticed *model.Event) string {
	text := fmt.Sprintf("%s could not be reached: %s on it stopped answering", node,
		quantity.PodNames(evidence.SuspectPods(cut)))
	if noticed != nil {
		text += ", and Kubernetes noticed within " + quantity.Highest(noticed.At.Latest-w.Start.Earliest)
	}
	return text
}

func nodeFix(w *model.Window, node string) string {
	return fmt.Sprintf("find out what became of %s or its network; Kubernetes takes a lost node's endpoints out "+
		"after 40 to 50 s (node-monitor-grace-period), here requests failed %s: spread replicas over ≥ 3 nodes, and "+
		"give clients a short connect timeout and a retry",
		node, evidence.Lasted(w))
}
