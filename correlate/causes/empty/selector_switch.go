package empty

import (
	"fmt"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// selector-switch: somebody changed the Service's selector. The Pods that it had go on running, and are not routed to
// any more.
//
//	service    app=web            app=green
//	endpoints  3 3 3 3 3 3 3 3 3  0 0 0 0 0 0
//	direct     ok ok ok ok ok ok  ok ok ok ok      the Pods are as well as before

var SelectorSwitch = emptyReason{
	Name: "selector-switch",
	Doc: "The Service's selector was changed to labels of no ready Pod, or the Pods that it had were taken away " +
		"while nodes still routed to them.",
	Needs:     []rule.Need{rule.EndpointSlices, rule.EndpointsWatched},
	finds:     selectorChanged,
	says:      saySelectorSwitch,
	otherwise: switchedTooEarly,
}

// selectorChanged reports whether the Service's selector was changed, and the last endpoint left though its Pod was
// not ending.
func selectorChanged(e *emptiness) bool {
	service := e.view.Traffic.Target(e.window).Service
	for _, ev := range e.view.Services.Edits {
		if !strings.HasPrefix(ev.Detail, evidence.SelectorEdited) {
			continue
		}
		if service != "" && ev.Object.Namespace+"/"+ev.Object.Name != service ||
			!ev.At.Overlaps(e.aboutStart(followed)) {
			continue
		}
		if last := e.lastLeaver(); last != nil && e.span.Last.To == timeline.EndpointAbsent &&
			!last.TerminatingBy(e.span.Start.Earliest) {
			e.event, e.object = ev, ev.Object.Kind+"/"+ev.Object.Name
			return true
		}
	}
	return false
}

func saySelectorSwitch(e *emptiness) rule.Finding {
	change := fmt.Sprintf("%s → %s", e.event.From, e.event.To)
	f := e.finding(fmt.Sprintf("the Service's selector was changed (%s), and ", change),
		fmt.Sprintf("change a selector only when as many Pods with the new labels are ready as it selects now, here %d",
			e.readyBefore()),
		e.sign("the Service's selector was changed: "+change))
	for _, p := range e.leavers[:min(len(e.leavers), rule.MostNamed)] {
		if e.wentOnAnswering(p) {
			f.For = append(f.For, evidence.Measured.Target(e.view.Addresses.DirectName(e.window, p.Pod), nil,
				p.Name+" went on answering at its own address"))
		}
	}
	f.For = append(f.For, e.all())
	return f
}

// switchedTooEarly: others took the place of the Pods that the selector had named, and these were taken away while
// nodes still routed to them.
func switchedTooEarly(c *rule.Case, whyNot string) rule.Finding {
	v, w := c.Evidence, c.Window
	change, left := switched(v, w)
	if change == nil || len(left) == 0 {
		return rule.No(whyNot)
	}
	scaled := scaledDown(v, left, model.Instant{Earliest: change.At.Earliest, Latest: w.End.Latest})
	if scaled == nil {
		return rule.No("the Pods that the selector had named were not taken away")
	}
	made, last := 0, change.At.Latest
	for _, f := range v.Traffic.Failures(w) {
		lost := f.Class == timeline.Refused || f.Class == timeline.TimeoutConnect || f.Class == timeline.Unreachable ||
			f.Class == timeline.NoSlot
		cut := f.Class == timeline.Reset || f.Class == timeline.EOF
		if (lost || cut) && evidence.Arrived(&f) >= scaled.At.Earliest &&
			f.Earliest() <= change.At.Latest+evidence.SwitchReach {
			made++
			if lost {
				last = max(last, f.Earliest())
			}
		}
	}
	if made == 0 || w.Start.Latest < change.At.Earliest {
		return rule.No("no request failed as if the Pods selected before were gone")
	}
	what := cluster.WorkloadWords(scaled.Object.Kind + "/" + scaled.Object.Name)
	f := rule.Finding{
		Text: fmt.Sprintf("the Service's selector was changed (%s → %s, %s), and %s was scaled down while %s still "+
			"led to its Pods", change.From, change.To, quantity.Clock(v.Run, change.At.Latest), what,
			v.Services.Routes(w)),
		Fix: fmt.Sprintf("scale %s down later, ≥ %s after the selector was changed: requests were still sent to its "+
			"Pods up to %s after that",
			what, quantity.Span(quantity.RoundUp(last-change.At.Earliest+time.Second)),
			quantity.Span(last-change.At.Earliest)),
		For: []evidence.Sign{
			evidence.Watched.Seen(change, fmt.Sprintf("the Service's selector was changed: %s → %s", change.From,
				change.To)),
			evidence.Watched.Seen(scaled, what+" "+scaled.To+" ("+scaled.Detail+")"),
			evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes)),
		},
	}
	f.Lack(evidence.Measured.Doubt(fmt.Sprintf("when the %s stopped is not measured: Pods that no selector names "+
		"are not probed", quantity.Count(len(left), "Pod"))))
	if n := len(evidence.SuspectPods(v.Suspects.All(w))); n > 0 {
		f.Oppose(
			evidence.Close.Doubt(fmt.Sprintf("%s that the selector names now failed at their own addresses as well",
				quantity.Count(n, "Pod"))))
	}
	f.ExplainsAtMost(w, made)
	return f
}

// switched returns the change of the window's Service's selector that was seen last before its onset, and the Pods
// whose endpoints left with it though they were not ending.
func switched(v *evidence.Evidence, w *model.Window) (change *model.Event, left []*model.Pod) {
	if change = v.Services.Changed(w, evidence.SelectorEdited); change == nil {
		return nil, nil
	}
	pods := map[string]*model.Pod{}
	for _, p := range v.Services.Pods(w) {
		pods[p.UID] = p
	}
	for _, e := range v.Services.Service(w).Endpoints {
		p := pods[e.Object.UID]
		if p != nil && cluster.IsReady(e.From) && !cluster.IsReady(e.To) &&
			(e.Seen-change.Seen).Abs() <= cluster.WatchLag && !p.TerminatingBy(e.At.Earliest) {
			left = append(left, p)
		}
	}
	return change, left
}

// scaledDown returns the change by which the workload of one of these Pods was to have fewer, or was deleted, in a
// time; nil if none was.
func scaledDown(v *evidence.Evidence, pods []*model.Pod, in model.Instant) *model.Event {
	for _, p := range pods {
		before := -1
		for _, e := range v.Changes.States.Of(p.Namespace, v.Changes.States.Top(p)) {
			n := e.Snapshot.Workload.Replicas
			if e.At.Overlaps(in) && (e.To == timeline.SnapshotDeleted || e.To == timeline.SnapshotChanged &&
				n < before) {
				return e
			}
			before = n
		}
	}
	return nil
}
