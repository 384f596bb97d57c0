package causes

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// shared-readiness: the readiness probes of all Pods ask something that they share, as a database, and all fail at once. The Pods could
// still answer, and are not routed to.
//
//	ready      3 3 3 0 0 0 0 0 3 3
//	svc        ok ok x x x x x ok ok
//	direct     ok ok ok ok ok ok ok ok      or 5xx: the Pods answer

var sharedReadiness = Rule{
	Name: "shared-readiness",
	Doc:  "All Pods turned not ready at once, though they still answered: their readiness probes share what they ask.",
	Looks: `All requests fail, as where there is no endpoint. All Pods turned not ready within a round of the probe or two, none of them was ending, and they went
on answering at their own addresses. Where all of them answered with errors there, it is *low*: the probes may have been right.`,
	Fix:   "Let a readiness probe ask only about the Pod itself, or let it fail more often in a row before it counts.",
	Needs: []Need{endpointSlices, endpointsWatched, podsWatched},
	Test:  testSharedReadiness,
}

func testSharedReadiness(c *Case) Finding {
	e, whyNot := c.emptiedBy("shared-readiness")
	if e == nil {
		return no(whyNot)
	}
	n := len(e.leavers)
	limit := ""
	if p := e.view.readinessOf(e.leavers[0].Pod); p != nil {
		limit = fmt.Sprintf(" than %s, one each %s,", quantity.Count(p.Threshold, "failure"), quantity.Span(p.Period))
	}
	var signs []Sign
	for _, p := range e.leavers[:min(n, mostNamed)] {
		probe := e.view.probe(e.window, p.Pod)
		signs = append(signs, Sign{model.Evidence{Target: probe.target, At: new(p.left), Text: p.Name + " left the ready endpoints, and went on answering at its own address"}, Measured})
	}
	signs = append(signs, e.unhealthy()...)
	f := e.finding(fmt.Sprintf("the readiness probes of %s failed though these went on answering, and ", every(n)),
		fmt.Sprintf("let readiness ask only about the Pod itself, or allow more%s before it counts: %d Pods turned not ready together", limit, n), signs...)
	f.against(e.answeredBadly()...)
	return f
}
