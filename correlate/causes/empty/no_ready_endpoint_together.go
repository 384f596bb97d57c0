package empty

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// no-ready-endpoint, of several Pods that went together: more replicas alone do not help.

// onOneNode: there were several, on one node.
func onOneNode(e *emptiness) (rule.Finding, bool) {
	n := len(e.leavers)
	if n < 2 || n < e.readyBefore() {
		return rule.Finding{}, false
	}
	node := e.leavers[0].Node
	taken, reason := "", rolledOutReason(e)
	for _, p := range e.leavers {
		if p.Node != node || node == "" || !e.wasTaken(p) || !nodeBound(p) {
			return rule.Finding{}, false
		}
		switch {
		case e.endedByKubelet(p):
			taken = ", and were ended by its kubelet"
		case p.Ending != nil && p.Ending.By == model.ByEviction:
			taken, reason = ", and were evicted from it", nodeDrained
		}
	}
	f := e.finding(fmt.Sprintf("%s were on %s%s, and ", rule.Every(n), node, taken),
		fmt.Sprintf("spread the replicas over nodes (topologySpreadConstraints over kubernetes.io/hostname), with a "+
			"PodDisruptionBudget that lets only 1 go at a time%s: %s were on %s%s",
			budgets(e), rule.Every(n), node, strings.Replace(mustCarry(e), ": the", "; the", 1)),
		evidence.Mention(goings(e)...)...)
	f.Reason = reason
	return f, true
}

// nodeBound reports whether a Pod may have been taken away because of its node: who was on another would have stayed.
func nodeBound(p leaver) bool {
	return p.Ending == nil || p.Ending.By == model.ByScheduler || p.Ending.LeftNode()
}

// takenTogether: there were several, and all were taken away.
func takenTogether(e *emptiness) (rule.Finding, bool) {
	n := len(e.leavers)
	if n < 2 || n < e.readyBefore() {
		return rule.Finding{}, false
	}
	nodes, evicted := map[string]bool{}, 0
	for _, p := range e.leavers {
		if !e.wasTaken(p) {
			return rule.Finding{}, false
		}
		nodes[p.Node] = true
		if p.Ending != nil && p.Ending.By == model.ByEviction {
			evicted++
		}
	}
	within := quantity.Span(max(time.Millisecond, e.apart().Max))
	fix := fmt.Sprintf("take away 1 at a time, and wait until the next is ready: %s went within %s", rule.Every(n),
		within)
	if evicted > 0 {
		fix = fmt.Sprintf("a PodDisruptionBudget that lets only 1 go at a time%s: %s went within %s", budgets(e),
			rule.Every(n), within)
	}
	f := e.finding(fmt.Sprintf("%s on %s were taken away within %s, and ", rule.Every(n),
		quantity.Count(len(nodes), "node"), within),
		fix+strings.Replace(mustCarry(e), ": the", "; the", 1), evidence.Mention(goings(e)...)...)
	f.Reason = rolledOutReason(e)
	f.Lack(workloadUnknown(e)...)
	return f, true
}

// rolledOutReason returns the reason where a rollout took all of the Pods away, else "".
func rolledOutReason(e *emptiness) string {
	if slices.ContainsFunc(e.leavers, func(p leaver) bool {
		return p.Ending == nil || p.Ending.By != model.ByRollout
	}) {
		return ""
	}
	return rolledOut
}

// notReadyTogether: there were several, none was taken away, and all turned not ready.
func notReadyTogether(e *emptiness) (rule.Finding, bool) {
	n := len(e.leavers)
	if n < 2 || n < e.readyBefore() || slices.ContainsFunc(e.leavers, func(p leaver) bool {
		return p.TerminatingBy(e.span.Start.Latest)
	}) {
		return rule.Finding{}, false
	}
	within := quantity.Span(max(time.Millisecond, e.apart().Max))
	return e.finding(fmt.Sprintf("%s turned not ready within %s, and ", rule.Every(n), within),
		fmt.Sprintf("look for what they share: none was taken away, and %s turned not ready within %s", rule.Every(n),
			within), named(e.unhealthy())...), true
}
