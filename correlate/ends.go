package correlate

import "lapse/timeline"

// An edge is the first and the last request of each outcome a target ever saw; nil where it saw
// none. "First" and "last" are by Sent.
type edge struct {
	firstOK, lastOK           *timeline.Request
	firstFailure, lastFailure *timeline.Request
	stopped                   *Instant // when the target stopped answering for good; nil if that was not seen
}

// stop is when a target stopped answering for good, by its windows: no earlier than its last answered
// request was sent, no later than the first failure after it was known. It is nil if the target
// never answered, or if no failure came after its last answer.
//
//	ok ok ok x x x x   →   stopped ∈ [Sent of the last ok, Known of the first x]
func (edge edge) stop(outages []Window) *Instant {
	if edge.lastOK == nil || edge.lastFailure == nil || edge.lastFailure.Sent < edge.lastOK.Sent {
		return nil
	}
	stop := Instant{Earliest: edge.lastOK.Sent, Latest: edge.lastFailure.Done}
	for _, w := range outages {
		if w.Kind != Slow && w.Start.Latest >= edge.lastOK.Sent {
			stop.Latest = min(stop.Latest, w.Start.Latest)
		}
	}
	return &stop
}
