package pods

import (
	"fmt"
	"slices"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// not-yet-reachable: a Pod's endpoint is ready, and this node cannot reach the Pod yet: the route to its node, its
// NetworkPolicy or its entry in the network's tables is not there. Its kubelet, on the same node, reaches it and
// calls it ready.
//
//	endpoint  . . . . R R R R R R R R R R
//	direct            t t t t t ok ok ok ok      timeouts, where a server that is not up yet would refuse

var NotYetReachable = rule.Rule{
	Name:  "not-yet-reachable",
	Doc:   "A Pod was ready before the prober's node could reach it over the network.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.RequestsFailed},
	Test:  testNotYetReachable,
}

func testNotYetReachable(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	young, slowest := youngWhere(v, w, func(s evidence.Suspect) bool {
		return evidence.Wholly(evidence.Unreached)(s.Outage) || evidence.Wholly(cutMidway)(s.Outage) &&
			answeredBefore(v, w, s)
	})
	if len(young) == 0 {
		if parts, _ := youngThat(v, w, evidence.Unreached); len(parts) > 0 {
			return rule.No(evidence.InParts(parts,
				"some packets reach it and some get lost, so it is not merely late")[0].Text)
		}
		return rule.No(noneLate(v, w, "no Pod was ready before it could be reached at its own address "))
	}
	if i := slices.IndexFunc(young, func(s evidence.Suspect) bool { return answeredFirst(v, w, s) }); i >= 0 {
		return rule.No(
			fmt.Sprintf("%s had answered at its own address when its endpoint turned ready: it could be reached",
				young[i].Pod.Name))
	}
	took := early(slowest)
	f := rule.Finding{
		Text: fmt.Sprintf("%s could not reach %s until %s after its endpoint was ready", v.Traffic.From(w),
			quantity.PodNames(evidence.SuspectPods(young)), quantity.Length(took, slowest.Outage.Open.End)),
		Fix: fmt.Sprintf("find out what programs the network for new Pods late (CNI plugin, NetworkPolicy, routes to "+
			"a new node): it took up to %s; a readiness gate can hold the endpoint back until then",
			quantity.Highest(took.Max)),
	}
	rule.AccuseYoung(v, w, young, &f)
	f.Lack(neverWell(v, w, young,
		"it may be more than late: a NetworkPolicy may keep others out for good")...)
	if others := v.Suspects.FailedAlso(w, young); len(others) > 0 {
		f.Oppose(evidence.Watched.Doubt(quantity.PodNames(others) +
			" could not be reached either, though ready for " +
			"long: what they share fits better"))
	} else if len(v.Suspects.OthersAnswered(w, young)) == 0 {
		f.Lack(evidence.Measured.Doubt("no other Pod was reached meanwhile: the prober's own network fits as well"))
	}
	return f
}

// cutMidway reports whether packets to an address got lost while a few requests were on their way, whose connections
// had been made.
func cutMidway(u *model.Window) bool {
	midway := evidence.Count(u.Classes, timeline.TimeoutResponse)
	return evidence.Only(u.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot,
		timeline.TimeoutResponse) &&
		evidence.Count(u.Classes, timeline.TimeoutConnect, timeline.Unreachable) >= 10*midway
}
