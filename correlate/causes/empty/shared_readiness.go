package empty

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/quantity"
)

// shared-readiness: the readiness probes of all Pods ask something that they share, as a database, and all fail at
// once. The Pods could still answer, and are not routed to.
//
//	ready      3 3 3 0 0 0 0 0 3 3
//	svc        ok ok x x x x x ok ok
//	direct     ok ok ok ok ok ok ok ok      or 5xx: the Pods answer

var SharedReadiness = emptyReason{
	Name: "shared-readiness",
	Doc: "All Pods turned not ready at once, though they still answered: their readiness probes depend on the same " +
		"thing.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.PodsWatched},
	finds: readinessLost,
	says:  saySharedReadiness,
}

// readinessLost reports whether several Pods turned not ready together, none of them ending, and went on answering at
// their own addresses.
func readinessLost(e *emptiness) bool {
	if len(e.leavers) < 2 || e.apart().Min > readinessSpread(e) {
		return false
	}
	for _, p := range e.leavers {
		if p.NotReady == nil || !e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}

// readinessSpread returns how far apart Pods turn not ready whose probes share what they ask: two rounds of the probe,
// 20 s if it is not known.
func readinessSpread(e *emptiness) time.Duration {
	if p := e.view.Templates.ReadinessOf(e.leavers[0].Pod); p != nil {
		return time.Duration(p.Threshold+1) * p.Period
	}
	return 20 * time.Second
}

func saySharedReadiness(e *emptiness) rule.Finding {
	n := len(e.leavers)
	limit := ""
	if p := e.view.Templates.ReadinessOf(e.leavers[0].Pod); p != nil {
		limit = fmt.Sprintf(" than %s, one each %s,", quantity.Count(p.Threshold, "failure"), quantity.Span(p.Period))
	}
	var signs []evidence.Sign
	for _, p := range e.leavers[:min(n, rule.MostNamed)] {
		probe := e.view.Addresses.Probe(e.window, p.Pod)
		signs = append(signs, evidence.Measured.Target(probe.Target, new(p.left),
			p.Name+" left the ready endpoints, and went on answering at its own address"))
	}
	why := fmt.Sprintf("the readiness probes of %s failed though these went on answering, and ", rule.Every(n))
	fix := fmt.Sprintf("let readiness ask only about the Pod itself, or allow more%s before it counts: %d Pods "+
		"turned not ready together", limit, n)
	unhealthy := e.unhealthy()
	if len(unhealthy) < n {
		why = rule.Every(n) + " turned not ready though they went on answering, and "
		fix = "find out what set them not ready, their probes, a readiness gate or their kubelet; " +
			"if it was the probes, " + fix
	}
	f := e.finding(why, fix, append(signs, named(unhealthy)...)...)
	if len(unhealthy) < n {
		f.Lack(noProbeFailed(e, len(unhealthy)))
	}
	f.Oppose(e.answeredBadly()...)
	f.Oppose(timedOut(unhealthy)...)
	return f
}

// timedOut returns the doubt that a probe timed out, as its Event says.
func timedOut(unhealthy []evidence.Sign) []evidence.Sign {
	for _, s := range unhealthy {
		if strings.Contains(s.Text, "deadline exceeded") || strings.Contains(s.Text, "Timeout exceeded") ||
			strings.Contains(s.Text, "timed out") {
			return []evidence.Sign{evidence.Close.Doubt("a probe got no answer in time: Pods or nodes with too " +
				"little CPU fit as well")}
		}
	}
	return nil
}

// noProbeFailed returns the doubt that Events report failed readiness probes of so many Pods only. A kubelet that is
// restarted may set all Pods of its node not ready.
func noProbeFailed(e *emptiness, failed int) evidence.Sign {
	text := "no Event tells that a readiness probe failed"
	if failed > 0 {
		text = fmt.Sprintf("Events tell that readiness probes failed of %d of %d Pods only", failed, len(e.leavers))
	}
	node := e.leavers[0].Node
	if node == "" || slices.ContainsFunc(e.leavers, func(p leaver) bool { return p.Node != node }) {
		return evidence.Measured.Doubt(text + ": a readiness gate fits as well")
	}
	return evidence.Watched.Doubt(fmt.Sprintf("%s, and all were on %s: a restart of its kubelet fits as well", text,
		node))
}
