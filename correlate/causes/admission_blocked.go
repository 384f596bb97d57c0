package causes

import (
	"fmt"

	"lapse/correlate/cluster"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// admission-blocked: the Pods went, and no others may be created: an admission webhook that fails or refuses, or a
// quota.
//
//	endpoints   2 2 0 0 0 0 0 0
//	ReplicaSet      FailedCreate, FailedCreate, …

var admissionBlocked = Rule{
	Name: "admission-blocked",
	Doc: "No Pod could be created in place of those that went: an admission webhook failed or refused, or a quota " +
		"was used up.",
	Needs: []Need{endpointSlices, endpointsWatched, podsWatched},
	Test:  testAdmissionBlocked,
}

func testAdmissionBlocked(c *Case) Finding {
	e, whyNot := c.emptiedBy("admission-blocked")
	if e == nil {
		return no(whyNot)
	}
	what, n := cluster.WorkloadWords(e.object), 0
	for i := range e.view.Run.Events {
		if ev := &e.view.Run.Events[i]; ev.Kind == timeline.KubeEvent && ev.To == "FailedCreate" && ev.Object != nil &&
			ev.Object.UID == e.event.Object.UID {
			n++
		}
	}
	f := e.finding(fmt.Sprintf("%s could create no Pod in place of those that went (%s), and ", what, e.event.Detail),
		fmt.Sprintf("let Pods be created again; %s failed %s: %s", what, quantity.Count(n, "time"), e.event.Detail),
		e.sign(what+" could create no Pod: "+e.event.Detail))
	f.For = append(f.For, e.all())
	return f
}
