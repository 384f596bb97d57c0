package causes

import (
	"fmt"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// accept-stall: a Pod that has just become ready listens, and does not accept connections yet, or too slowly. Its kernel accepts for it until the
// queue is full; then it drops the packets that open connections, and clients send them again after 1, 3 and 7 s.
//
//	endpoint  . . . . R R R R R R R R
//	direct            r r t t t t t ok ok      first no answers (as many as the queue holds), then no connections

var acceptStall = Rule{
	Name: "accept-stall",
	Doc:  "A Pod that had just become ready accepted connections too slowly: its queue of new connections was full.",
	Looks: `A Pod is added to the endpoints. At its own address the first connections are made and not answered, and then connections time out. Those that
succeed after a while took 1, 3 or 7 s, the times at which Linux sends a SYN again.`,
	Fix:   "Let the Pod be ready only when it accepts connections, give it CPU to start with, and a longer queue (the backlog of listen, net.core.somaxconn).",
	Needs: []Need{podsWatched, endpointSlices, requestsFailed},
	Test:  testAcceptStall,
}

func testAcceptStall(c *Case) Finding {
	v, w := c.index, c.Window
	young, slowest := v.youngThat(w, overflows)
	if len(young) == 0 {
		return no("no Pod that had just become ready made some connections at its own address and no more")
	}
	whyNot, doubts := v.olderAlike(w, young)
	if whyNot != "" {
		return no(whyNot)
	}
	queued, dropped := some(slowest.outage.Classes, timeline.TimeoutResponse), some(slowest.outage.Classes, timeline.TimeoutConnect)
	took := quantity.Length(early(slowest), slowest.outage.Open.End)
	f := Finding{
		Text: fmt.Sprintf("%s had just become ready and did not accept connections: at the address of %s %d were made and not answered, and %d were not made, until %s after its endpoint was ready",
			namedPods(suspectPods(young)), slowest.pod.Name, queued, dropped, took),
		Fix: fmt.Sprintf("let a readiness or startup probe of %s open a connection and await the answer, and give the Pod CPU to start with and a longer queue for connections (backlog, net.core.somaxconn): it took %s",
			slowest.pod.Name, took),
	}
	v.accuseYoung(w, young, &f)
	f.against(doubts...)
	return f
}

// overflows reports whether an address took some connections, which were not answered, and then no more.
func overflows(u *model.Window) bool {
	queued := some(u.Classes, timeline.TimeoutResponse)
	return queued > 0 && some(u.Classes, timeline.TimeoutConnect) > queued && only(u.Classes, timeline.TimeoutResponse, timeline.TimeoutConnect, timeline.NoSlot)
}
