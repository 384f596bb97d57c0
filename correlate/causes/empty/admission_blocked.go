package empty

import (
	"fmt"

	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// admission-blocked: the Pods went, and no others may be created: an admission webhook that fails or refuses, or a
// quota.
//
//	endpoints   2 2 0 0 0 0 0 0
//	ReplicaSet      FailedCreate, FailedCreate, …

var AdmissionBlocked = emptyReason{
	Name: "admission-blocked",
	Doc: "No Pod could be created in place of those that went: an admission webhook failed or refused, or a quota " +
		"was used up.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched, rule.PodsWatched},
	finds: creationFailed,
	says:  sayAdmissionBlocked,
}

// creationFailed reports whether the controller of the Pods that left could create no others.
func creationFailed(e *emptiness) bool {
	last, next := e.lastLeaver(), e.nextPod()
	if last == nil || last.Deleted == nil || !last.TerminatingBy(e.span.Start.Latest) {
		return false
	}
	if next != nil && next.Created != nil &&
		2*(next.Created.Latest-e.span.Start.Earliest) < e.span.End.Earliest-e.span.Start.Latest {
		return false // most of the time it was there, and was starting
	}
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind != timeline.KubeEvent || ev.To != "FailedCreate" ||
			ev.Object.Namespace != last.Namespace || !ev.At.Overlaps(e.span.Whole()) {
			continue
		}
		key := ev.Object.Kind + "/" + ev.Object.Name
		if key != last.Owner && next != nil && next.Owner == last.Owner {
			continue // of another version: this one's next Pod was made
		}
		if key == last.Owner ||
			e.view.Changes.States.Top(&model.Pod{Namespace: last.Namespace, Owner: key}) == e.view.Changes.States.Top(
				last) {
			e.event, e.object = ev, key
			return true
		}
	}
	return false
}

func sayAdmissionBlocked(e *emptiness) rule.Finding {
	what, n := cluster.WorkloadWords(e.object), 0
	for i := range e.view.Run.Events {
		if ev := &e.view.Run.Events[i]; ev.Kind == timeline.KubeEvent && ev.To == "FailedCreate" &&
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
