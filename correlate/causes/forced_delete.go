package causes

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// forced-delete: a Pod was deleted by force (grace period 0): the API forgets it at once, and its endpoint leaves, while its containers run on until their
// kubelet gets to them. Connections that it had accepted go on being answered, and are cut later, by a Pod that is not there any more.
//
//	Pod       ready  deleted and gone in one
//	new       ok ok  ok ok ok ok ok ok
//	reused    ok ok  ok ok ok x x ok ok     cut when the containers were killed

// forcedEnd is how long after a forced deletion containers may run on: a kubelet kills them after 2 s, or when it can.
const forcedEnd = 35 * time.Second

var forcedDelete = Rule{
	Name: "forced-delete",
	Doc:  "A Pod was deleted by force, and connections that it had accepted were cut after it had gone from the API.",
	Looks: `Requests on connections that were open are cut, often 2 s after a Pod was deleted with grace period 0 (--grace-period=0 --force) and had gone from the
API in the same moment. When its containers ended cannot be seen.`,
	Fix:   "Delete without --force: a Pod that has a grace period can let its clients go.",
	Needs: []Need{podsWatched, requestsCut},
	Test:  testForcedDelete,
}

func testForcedDelete(c *Case) Finding {
	v, w := c.index, c.Window
	var found *model.Pod
	var deleted *model.Event
	cut, others := 0, 0
	for _, p := range v.pods(w) {
		e := v.event(v.changeOf(p, timeline.PodDeleted, p.Deleted))
		if p.Deleted == nil || e == nil || e.Grace == nil {
			continue
		}
		if *e.Grace > 0 {
			if p.Exited != nil && p.Exited.Overlaps(w.Span()) {
				others++
			}
			continue
		}
		if n := cutSince(v.failuresOf(w), model.Instant{Earliest: e.At.Earliest, Latest: e.At.Latest + forcedEnd}); n > cut {
			found, deleted, cut = p, e, n
		}
	}
	if found == nil {
		return no("no Pod was deleted by force before requests were cut")
	}
	f := Finding{
		Text: fmt.Sprintf("%s was deleted by force, and %s %s cut after it had gone from the API", found.Name, quantity.Count(cut, "request"), was(cut)),
		Fix:  fmt.Sprintf("delete without --force --grace-period=0: %s had no time to let its clients go, and cut %s", found.Name, quantity.Count(cut, "request")),
		For: []Sign{
			{model.Evidence{Event: deleted.ID, At: new(deleted.At), Text: found.Name + " was deleted with grace period 0"}, Watched},
			{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests that were under way were cut: " + quantity.ClassCounts(w.Classes)}, Watched},
		},
	}
	if found.Exited == nil {
		f.missing(doubt(Measured, "when its containers ended is not known: it had gone from the API"))
	}
	if others > 0 {
		f.against(doubt(Close, fmt.Sprintf("%s ended at that time as well, not by force", quantity.Count(others, "Pod"))))
	}
	f.explains(w, cut)
	return f
}

// cutSince counts the requests that were cut in a time.
func cutSince(failures []model.Failure, in model.Instant) int {
	n := 0
	for i := range failures {
		if cutIn(&failures[i], in) {
			n++
		}
	}
	return n
}
