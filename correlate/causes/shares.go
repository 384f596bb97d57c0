package causes

import (
	"fmt"
	"math"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file compares how many requests failed with the share that Pods have of the endpoints.

// moreThanTheirShare has a doubt if more failed than the share that n Pods had of the endpoints.
func (v *index) moreThanTheirShare(w *model.Window, n int, f *Finding) {
	if v.target(w).Kind != timeline.New || v.laneOff("endpointslice", w) {
		return
	}
	least := v.service(w).leastReady(w.Start.Earliest-cluster.WatchLag, w.End.Latest)
	if least > 0 && exceeds(w.Failed, w.Sent, min(1, float64(n)/float64(least))) {
		f.against(doubt(v.byHowMuch(w, min(1, float64(n)/float64(least))), fmt.Sprintf("%d of %d requests failed: more than the share of %s of %d", w.Failed, w.Sent, quantity.Count(n, "endpoint"), least)))
	}
}

// byHowMuch is what it says against a cause that more failed than the share of the endpoints that it is about: if it
// is twice as much, most had another cause, unless the Service prefers some endpoints.
func (v *index) byHowMuch(w *model.Window, share float64) Strength {
	spec := v.serviceSpec(w)
	prefers := spec != nil && (spec.Snapshot.Service.Affinity != "" || spec.Snapshot.Service.Internal == localPolicy || spec.Snapshot.Service.Distribution != "")
	if !prefers && exceeds(w.Failed/2, w.Sent, share) {
		return Watched
	}
	return Close
}

// exceeds reports whether more failed than chance allows at this probability: more than three
// standard deviations above the mean. Fewer is no contradiction, for a window also holds the good
// requests between two of its runs of failures.
func exceeds(failed, sent int, p float64) bool {
	mean := float64(sent) * p
	return float64(failed) > mean+3*math.Sqrt(mean*(1-p))+1
}
