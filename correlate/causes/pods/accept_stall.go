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

// accept-stall: a Pod that has just become ready listens, and does not accept connections yet, or too slowly. Its
// kernel accepts for it until the queue is full; then it drops the packets that open connections, and clients send
// them again after 1, 3 and 7 s.
//
//	endpoint  . . . . R R R R R R R R
//	direct            r r t t t t t ok ok      first no answers (as many as the queue holds), then no connections

var AcceptStall = rule.Rule{
	Name:  "accept-stall",
	Doc:   "A Pod that had just become ready accepted connections too slowly: its queue of new connections was full.",
	Needs: []rule.Need{rule.PodsWatched, rule.EndpointSlices, rule.RequestsFailed},
	Test:  testAcceptStall,
}

func testAcceptStall(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	young, slowest := youngWhere(v, w, func(s evidence.Suspect) bool {
		return overflows(s.Outage) && !answeredBefore(v, w, s)
	})
	if len(young) == 0 {
		if others, _ := youngThat(v, w, overflows); len(others) > 0 {
			return rule.No(
				fmt.Sprintf("%s had answered at its own address before: its queue of connections was not full "+
					"from the start", others[0].Pod.Name))
		}
		return rule.No("no Pod that had just become ready made some connections at its own address and no more")
	}
	young = append(young, fullBefore(v, w, young)...)
	whyNot, doubts := olderAlike(v, w, young)
	if whyNot != "" {
		return rule.No(whyNot)
	}
	queued, dropped := evidence.Count(slowest.Outage.Classes, timeline.TimeoutResponse),
		evidence.Count(slowest.Outage.Classes, timeline.TimeoutConnect)
	took := quantity.Length(early(slowest), slowest.Outage.Open.End)
	f := rule.Finding{
		Text: fmt.Sprintf("%s had just become ready and did not accept connections: at the address of %s %d were "+
			"made and not answered, and %d were not made, until %s after its endpoint was ready",
			quantity.PodNames(evidence.SuspectPods(young)), slowest.Pod.Name, queued, dropped, took),
		Fix: fmt.Sprintf("let a readiness or startup probe of %s open a connection and await the answer, and give "+
			"the Pod CPU to start with and a longer queue for connections (backlog, net.core.somaxconn): it took %s",
			slowest.Pod.Name, took),
	}
	rule.AccuseYoung(v, w, young, &f)
	f.Oppose(doubts...)
	return f
}

// fullBefore returns young Pods of the same template whose addresses accepted no connection at all: requests to the
// Service had filled their queues before.
func fullBefore(v *evidence.Evidence, w *model.Window, young []evidence.Suspect) []evidence.Suspect {
	alike, _ := youngThat(v, w, func(u *model.Window) bool {
		return evidence.Only(u.Classes, timeline.TimeoutConnect, timeline.NoSlot)
	})
	return slices.DeleteFunc(alike, func(s evidence.Suspect) bool {
		return s.Pod.Template == "" || !slices.ContainsFunc(young, func(o evidence.Suspect) bool {
			return o.Pod.Template == s.Pod.Template
		})
	})
}

// overflows reports whether an address took some connections, which were not answered, and then no more.
func overflows(u *model.Window) bool {
	queued := evidence.Count(u.Classes, timeline.TimeoutResponse)
	return queued > 0 && evidence.Count(u.Classes, timeline.TimeoutConnect) > queued &&
		evidence.Only(u.Classes, timeline.TimeoutResponse, timeline.TimeoutConnect, timeline.NoSlot)
}
