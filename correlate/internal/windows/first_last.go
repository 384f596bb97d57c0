package windows

import (
	"lapse/correlate/model"
	"lapse/timeline"
)

// A FirstLast is the first and the last request of each outcome that a target saw, by Sent; nil where it saw none.
type FirstLast struct {
	FirstOK, LastOK           *timeline.Request
	FirstFailure, LastFailure *timeline.Request
	Stopped                   *model.Instant // when the target stopped answering for good; nil if that was not seen
}

// Stop returns when a target stopped answering for good, by its windows: no earlier than its last answered
// request was sent, no later than the first failure after it was known. It is nil if the target
// never answered, or if no failure came after its last answer.
//
//	ok ok ok x x x x   →   stopped ∈ [Sent of the last ok, Known of the first x]
func (edge FirstLast) Stop(outages []model.Window) *model.Instant {
	if edge.LastOK == nil || edge.LastFailure == nil || edge.LastFailure.Sent < edge.LastOK.Sent {
		return nil
	}
	stop := model.Instant{Earliest: edge.LastOK.Sent, Latest: edge.LastFailure.Done}
	for _, w := range outages {
		if w.Kind != model.Slow && w.Start.Latest >= edge.LastOK.Sent {
			stop.Latest = min(stop.Latest, w.Start.Latest)
		}
	}
	return &stop
}
