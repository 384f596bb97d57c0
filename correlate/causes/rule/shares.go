package rule

import (
	"fmt"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file compares how many requests failed with the share that Pods have of the endpoints.

// MoreThanTheirShare adds a doubt if more requests failed than n Pods' share of the endpoints.
func MoreThanTheirShare(v *evidence.Evidence, w *model.Window, n int, f *Finding) {
	if v.Traffic.Target(w).Kind != timeline.New || v.Watches.LaneOff("endpointslice", w) {
		return
	}
	least := v.Services.Service(w).LeastReady(w.Start.Earliest-cluster.WatchLag, w.End.Latest)
	if least > 0 && evidence.Exceeds(w.Failed, w.Sent, min(1, float64(n)/float64(least))) {
		f.Oppose(ByHowMuch(v, w, min(1, float64(n)/float64(least))).Doubt(fmt.Sprintf(
			"%d of %d requests failed: more than the share of %s of %d",
			w.Failed, w.Sent, quantity.Count(n, "endpoint"), least)))
	}
}

// ByHowMuch returns how strongly it speaks against a cause that more requests failed than its share of the endpoints.
// If it is twice as many, most had another cause, unless the Service prefers some endpoints.
func ByHowMuch(v *evidence.Evidence, w *model.Window, share float64) evidence.Strength {
	if !v.Services.Narrows(w) && evidence.Exceeds(w.Failed/2, w.Sent, share) {
		return evidence.Watched
	}
	return evidence.Close
}
