package pods

import (
	"fmt"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// forced-delete: a Pod was deleted by force (grace period 0): the API forgets it at once, and its endpoint leaves,
// while its containers run on until their kubelet gets to them. Connections that it had accepted go on being
// answered, and are cut later, by a Pod that is not there any more.
//
//	Pod       ready  deleted and gone in one
//	new       ok ok  ok ok ok ok ok ok
//	reused    ok ok  ok ok ok x x ok ok     cut when the containers were killed

// forcedEnd is how long after a forced deletion containers may run on: a kubelet kills them after 2 s, or when it can.
const forcedEnd = 35 * time.Second

var ForcedDelete = rule.Rule{
	Name:  "forced-delete",
	Doc:   "A Pod was deleted by force, and connections that it had accepted were cut after it had gone from the API.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsCut},
	Test:  testForcedDelete,
}

func testForcedDelete(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	var found *model.Pod
	var deleted *model.Event
	cut, others, stopped, late := 0, 0, false, time.Duration(0)
	for _, p := range v.Services.Pods(w) {
		e := v.Changes.Event(v.Changes.IDOf(p, timeline.PodDeleted, p.Deleted))
		if p.Deleted == nil || e == nil || e.Grace == nil || !v.Services.WasEndpoint(w, p, w.End.Latest) {
			continue
		}
		if *e.Grace > 0 {
			if p.Exited != nil && p.Exited.Overlaps(w.Span()) {
				others++
			}
			continue
		}
		ended, measured := model.Instant{Earliest: e.At.Earliest, Latest: e.At.Latest + forcedEnd}, false
		if own := v.Addresses.Probe(w, p); own.Stopped != nil {
			ended, measured = *own.Stopped, true
		}
		if n, last := cutBy(v, w, ended); n > cut {
			found, deleted, cut, stopped, late = p, e, n, measured, last-e.At.Latest
		}
	}
	if found == nil {
		return rule.No("no Pod was deleted by force when its end could have cut requests")
	}
	f := rule.Finding{
		Text: fmt.Sprintf("%s was deleted by force, and %s %s cut after it had gone from the API", found.Name,
			quantity.Count(cut, "request"), quantity.Was(cut)),
		Fix: fmt.Sprintf("%s: %s had no time to let its clients go, and cut %s", v.Templates.GiveGrace(found),
			found.Name, quantity.Count(cut, "request")),
		For: []evidence.Sign{
			evidence.Watched.Seen(deleted, found.Name+" was deleted with grace period 0"),
			evidence.Watched.Target(w.Target, &w.Start, "requests that were under way were cut: "+
				quantity.ClassCounts(w.Classes)),
		},
	}
	switch {
	case stopped:
		own := v.Addresses.Probe(w, found)
		f.For = append(f.For, evidence.Measured.Target(own.Target, own.Stopped,
			found.Name+" stopped answering new clients then"))
	case late > killedSoon:
		f.Lack(evidence.Watched.Doubt(fmt.Sprintf("when its containers ended is not known, and they are killed 2 "+
			"s after such a deletion: these requests were cut up to %s after it", quantity.Span(late))))
	case found.Exited == nil:
		f.Lack(evidence.Measured.Doubt("when its containers ended is not known: it had gone from the API"))
	}
	if others > 0 {
		f.Oppose(evidence.Close.Doubt(fmt.Sprintf("%s ended at that time as well, not by force",
			quantity.Count(others, "Pod"))))
	}
	f.ExplainsAtMost(w, cut)
	return f
}

// killedSoon is how long after a forced deletion a healthy kubelet has killed the Pod's containers and clients have
// noticed.
const killedSoon = 6 * time.Second

// cutBy counts the requests that the end of one Pod in a time can have cut, and says when the last of these was over:
// all were under way at one instant, or the next on their connection.
func cutBy(v *evidence.Evidence, w *model.Window, in model.Instant) (n int, last time.Duration) {
	t := v.Traffic.Target(w)
	reach := evidence.Moment
	if t.Kind == timeline.Reused {
		reach += v.Traffic.Uses(t, evidence.NextUse(t), w.Start.Earliest)
	}
	var first time.Duration
	for _, f := range v.Traffic.Failures(w) {
		if !evidence.CutIn(&f, model.Instant{Earliest: in.Earliest, Latest: in.Latest + reach}) {
			continue
		}
		if n == 0 {
			first = f.Latest()
		}
		if f.Earliest() > first+reach {
			continue // the end of another one
		}
		n, last = n+1, max(last, f.Latest())
	}
	return n, last
}
