package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules say of a Service that had no endpoint to route to.

// An emptiness is a window in which a Service had no endpoint to route to, and what emptied it.
type emptiness struct {
	view    *index
	window  *model.Window
	span    *emptySpan
	leavers []leaver     // the Pods whose endpoints had been ready before, the first to leave first
	rule    string       // the one that knows what emptied it
	event   *model.Event // which shows that; nil if a rule does without
	object  string       // what was changed: a workload, KIND/NAME
}

// A leaver is a Pod whose endpoint was ready, and was not any more when the Service was empty.
type leaver struct {
	*model.Pod
	left model.Instant // the last time before that
}

// wasDeleted reports whether the Pod's deletion can have made its endpoint leave. One that was asked for later is what somebody did about it.
func (p *leaver) wasDeleted() bool { return p.Deleted != nil && p.Deleted.Earliest <= p.left.Latest }

// emptying is how long before a Service was empty Pods left that are counted.
const emptying = 30 * time.Second

// emptied finds whether the window's Service had no endpoint to route to, and what emptied it. Else it says why not.
func (c *Case) emptied() (e *emptiness, whyNot string) {
	if !c.lookedForEmpty {
		c.empty, c.notEmpty = c.findEmpty()
		c.lookedForEmpty = true
	}
	return c.empty, c.notEmpty
}

func (c *Case) findEmpty() (e *emptiness, whyNot string) {
	v, w := c.index, c.Window
	if w.Kind == model.Slow {
		return nil, "requests were answered, only late"
	}
	span := emptyNear(v, w)
	if span == nil {
		return nil, "an endpoint was ready, or terminating and still serving, all the time"
	}
	if last := whenLastLeft(v, w, span); !last.Overlaps(v.onset(w)) {
		return nil, fmt.Sprintf("no endpoint was ready %s, but requests began to fail %s", quantity.Between(span.whole()), quantity.Between(w.Start))
	}
	if why := answeredMeanwhile(w, span); why != "" {
		return nil, why
	}
	e = &emptiness{view: v, window: w, span: span}
	e.findLeavers()
	e.findRule()
	return e, ""
}

// emptiedBy is the emptiness that a rule knows the reason of.
func (c *Case) emptiedBy(rule string) (e *emptiness, whyNot string) {
	e, whyNot = c.emptied()
	if e != nil && e.rule != rule {
		return nil, "no endpoint was ready for another reason"
	}
	return e, whyNot
}

// findLeavers finds the Pods whose endpoints were ready shortly before.
func (e *emptiness) findLeavers() {
	left, from := map[string]model.Instant{}, e.span.start.Latest-emptying
	for _, before := range e.view.emptySpans(e.window) {
		if before.start.Latest < e.span.start.Latest {
			from = max(from, before.start.Latest+1) // those that had left by then were made good
		}
	}
	for _, ev := range e.view.service(e.window).endpoints {
		if cluster.IsReady(ev.From) && !cluster.IsReady(ev.To) && from <= ev.At.Latest && ev.At.Latest <= e.span.start.Latest {
			left[ev.Object.UID] = ev.At
		}
	}
	for _, p := range e.view.pods(e.window) {
		if at, of := left[p.UID]; of {
			e.leavers = append(e.leavers, leaver{p, at})
		}
	}
	slices.SortStableFunc(e.leavers, func(a, b leaver) int { return cmp.Compare(a.left.Latest, b.left.Latest) })
}

// apart is how far apart the first and the last of them left.
func (e *emptiness) apart() model.Length {
	return length(e.leavers[0].left, e.leavers[len(e.leavers)-1].left)
}

// findRule finds the reason, the most telling fact first.
func (e *emptiness) findRule() {
	for _, reason := range []struct {
		rule string
		find func(*emptiness) bool
	}{
		{"selector-switch", (*emptiness).selectorChanged},
		{"no-ready-endpoint", (*emptiness).scaledToZero},
		{"admission-blocked", (*emptiness).creationFailed},
		{"replacement-waits", (*emptiness).replacementWaited},
		{"node-unreachable", (*emptiness).nodesDied},
		{"node-presumed-dead", (*emptiness).nodesPresumedDead},
		{"shared-readiness", (*emptiness).readinessLost},
	} {
		e.event, e.object = nil, ""
		if reason.find(e) {
			e.rule = reason.rule
			return
		}
	}
	e.rule, e.event, e.object = "no-ready-endpoint", nil, ""
}

// aboutStart is when a change can have emptied the Service: its bracket, and a controller's time to follow before it.
func (e *emptiness) aboutStart(controller time.Duration) model.Instant {
	return model.Instant{Earliest: e.span.start.Earliest - controller, Latest: e.span.start.Latest}
}

// followed is for how long controllers may take to follow a change.
const followed = 5 * time.Second

// selectorChanged reports whether the Service's selector was changed, and the last endpoint left though its Pod was not ending.
func (e *emptiness) selectorChanged() bool {
	service := e.view.target(e.window).Service
	for _, ev := range e.view.edits {
		if !strings.HasPrefix(ev.Detail, "selector: ") {
			continue
		}
		if service != "" && ev.Object.Namespace+"/"+ev.Object.Name != service || !ev.At.Overlaps(e.aboutStart(followed)) {
			continue
		}
		if last := e.lastLeaver(); last != nil && e.span.last.To == timeline.EndpointAbsent && !last.TerminatingBy(e.span.start.Earliest) {
			e.event, e.object = ev, ev.Object.Kind+"/"+ev.Object.Name
			return true
		}
	}
	return false
}

// lastOfAll is the Pod whose endpoint left last, among those that left.
func (e *emptiness) lastOfAll() (leaver, bool) {
	for _, p := range e.leavers {
		if p.UID == e.span.last.Object.UID {
			return p, true
		}
	}
	return leaver{}, false
}

// lastLeaver is the Pod whose endpoint left last, nil if it was not seen.
func (e *emptiness) lastLeaver() *model.Pod {
	for _, p := range e.view.pods(e.window) {
		if p.UID == e.span.last.Object.UID {
			return p
		}
	}
	return nil
}

// scaledToZero reports whether the workload of all Pods that left was scaled to 0, or deleted, before the last did.
func (e *emptiness) scaledToZero() bool {
	for _, p := range e.leavers {
		if !p.wasDeleted() || e.view.states.Top(p.Pod) != e.view.states.Top(e.leavers[0].Pod) {
			return false
		}
	}
	last := e.lastLeaver()
	if last == nil {
		return false
	}
	e.object = e.view.states.Top(last)
	for _, ev := range e.view.states.Of(last.Namespace, e.object) {
		if ev.At.Earliest > e.span.start.Latest {
			break
		}
		if e.event = nil; ev.To == timeline.SnapshotDeleted || ev.To != timeline.SnapshotFound && ev.Snapshot.Workload.Replicas == 0 {
			e.event = ev
		}
	}
	return e.event != nil
}

// creationFailed reports whether the controller of the Pods that left could create no others.
func (e *emptiness) creationFailed() bool {
	last, next := e.lastLeaver(), e.nextPod()
	if last == nil || last.Deleted == nil || !last.TerminatingBy(e.span.start.Latest) {
		return false
	}
	if next != nil && next.Created != nil && 2*(next.Created.Latest-e.span.start.Earliest) < e.span.end.Earliest-e.span.start.Latest {
		return false // most of the time it was there, and was starting
	}
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind != timeline.KubeEvent || ev.To != "FailedCreate" || ev.Object == nil || ev.Object.Namespace != last.Namespace || !ev.At.Overlaps(e.span.whole()) {
			continue
		}
		key := ev.Object.Kind + "/" + ev.Object.Name
		if key != last.Owner && next != nil && next.Owner == last.Owner {
			continue // of another version: this one's next Pod was made
		}
		if key == last.Owner || e.view.states.Top(&model.Pod{Namespace: last.Namespace, Owner: key}) == e.view.states.Top(last) {
			e.event, e.object = ev, key
			return true
		}
	}
	return false
}

// replacementWaited reports whether the next Pod was made only after the last one had gone, because of what makes them: a Deployment that
// rolls out with the strategy Recreate, or a StatefulSet of one.
func (e *emptiness) replacementWaited() bool {
	last, next := e.lastLeaver(), e.madeNext()
	if last == nil || last.Deleted == nil || !last.TerminatingBy(e.span.start.Latest) {
		return false
	}
	e.object = e.view.states.Top(last)
	w := e.view.states.At(last.Namespace, e.object, e.span.start.Latest)
	if w == nil || next != nil && e.view.states.Top(next) != e.object {
		return false
	}
	events := e.view.states.Of(last.Namespace, e.object)
	e.event = events[0]
	switch {
	case strings.HasPrefix(e.object, "StatefulSet/"):
		return w.Replicas == 1
	case w.Strategy != "Recreate":
		return false
	}
	for _, ev := range events {
		if ev.To == timeline.SnapshotChanged && ev.At.Earliest <= last.Deleted.Latest {
			e.event = ev
		}
	}
	return next != nil && next.Template != last.Template && next.Owner != last.Owner
}

// nextPod is the one whose endpoint ended the emptiness, nil if none did.
func (e *emptiness) nextPod() *model.Pod {
	if e.span.next == nil {
		return nil
	}
	for _, p := range e.view.pods(e.window) {
		if p.UID == e.span.next.Object.UID {
			return p
		}
	}
	return nil
}

// madeNext is the Pod whose endpoint ended the emptiness; where none did, the first that the workload of the last Pod made after that one's deletion; nil
// if none was seen.
func (e *emptiness) madeNext() *model.Pod {
	last, next := e.lastLeaver(), e.nextPod()
	if e.span.next != nil || last == nil || last.Deleted == nil {
		return next
	}
	for _, p := range e.view.pods(e.window) {
		if p.UID != last.UID && p.Created != nil && p.Created.Latest >= last.Deleted.Earliest && e.view.states.Top(p) == e.view.states.Top(last) && (next == nil || p.Created.Latest < next.Created.Latest) {
			next = p
		}
	}
	return next
}

// readinessLost reports whether several Pods turned not ready together, none of them ending, and went on answering at their own addresses.
func (e *emptiness) readinessLost() bool {
	if len(e.leavers) < 2 || e.apart().Min > readinessSpread(e) {
		return false
	}
	for _, p := range e.leavers {
		if p.NotReady == nil || !e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}

// nodesPresumedDead reports whether the nodes of all Pods that left had just been found to report no more, none of the Pods being deleted.
func (e *emptiness) nodesPresumedDead() bool {
	for _, p := range e.leavers {
		ev := e.view.nodeLost(p.Node, model.Instant{Earliest: p.left.Earliest - followed, Latest: p.left.Latest})
		if ev == nil || p.TerminatingBy(e.span.start.Earliest) {
			return false
		}
		e.event, e.object = ev, "Node/"+p.Node
	}
	return len(e.leavers) > 0
}

// nodesDied reports whether the nodes of all Pods that left were found to report no more, and these Pods did not answer at their own addresses
// either: then the Service was lost with the nodes, long before its endpoints left.
func (e *emptiness) nodesDied() bool {
	if !e.nodesPresumedDead() {
		return false
	}
	for _, p := range e.leavers {
		if e.view.directName(e.window, p.Pod) == "" || e.wentOnAnswering(p) {
			return false
		}
	}
	return true
}

// wentOnAnswering reports whether the Pod's own address answered at least half of what it was sent after its endpoint had left and while
// there was none, good or bad.
func (e *emptiness) wentOnAnswering(p leaver) bool {
	probe := e.view.probe(e.window, p.Pod)
	if probe.target == "" || p.TerminatingBy(e.span.start.Latest) || e.view.endedItself(p.Pod, model.Instant{Earliest: p.left.Earliest - followed, Latest: e.span.end.Latest}) != nil {
		return false
	}
	answered, sent := e.view.Answered(probe.target, p.left.Latest, e.span.end.Earliest)
	return answered >= 3 && 2*answered >= sent
}

// answeredBadly is the doubt that the Pods whose probes failed did not serve either: then the probes were right.
func (e *emptiness) answeredBadly() []Sign {
	for _, p := range e.leavers {
		name := e.view.directName(e.window, p.Pod)
		bad := e.view.outageNear(name, model.Instant{Earliest: p.left.Latest, Latest: e.span.end.Earliest})
		if bad == nil || 2*some(bad.Classes, timeline.HTTP5xx, timeline.HTTP4xx, timeline.Body, timeline.TLS) <= bad.Failed {
			return nil
		}
	}
	return []Sign{doubt(Watched, "at their own addresses they answered badly: the probes may have been right")}
}

// readinessSpread is how far apart Pods turn not ready whose probes share what they ask: two rounds of the probe, 20 s if it is not known.
func readinessSpread(e *emptiness) time.Duration {
	if p := e.view.readinessOf(e.leavers[0].Pod); p != nil {
		return time.Duration(p.Threshold+1) * p.Period
	}
	return 20 * time.Second
}

// finding is what all these rules say: that the Service had no endpoint, and what showed it. Text begins with why.
func (e *emptiness) finding(why, fix string, deciding ...Sign) Finding {
	v, w := e.view, e.window
	f := Finding{For: append(deciding, emptySigns(v, w, e.span)...), Text: why + e.text(), Fix: fix}
	if refused, timedOut, ok := firstRefused(v, w); ok {
		f.For = append(f.For, Sign{model.Evidence{
			Target: w.Target,
			Text:   fmt.Sprintf("%d refused first, then %d timed out: kube-proxy rejects connections without an endpoint, and Linux limits the rate of rejections", refused, timedOut),
		}, Watched})
	}
	if name := unansweredThroughout(v, w, e.span); name != "" {
		f.For = append(f.For, Sign{model.Evidence{Target: name, Text: "no Pod answered at its own address meanwhile"}, Measured})
	}
	if v.gapNear("endpointslice", w) {
		f.against(doubt(Close, "the watch of EndpointSlices had a gap: an endpoint may have been ready unseen"))
	}
	return f
}

// sign is the event that shows what emptied the Service.
func (e *emptiness) sign(text string) Sign {
	return Sign{model.Evidence{Event: e.event.ID, At: new(e.event.At), Text: text}, Watched}
}

// all is that requests failed as where there is no endpoint: none was answered.
func (e *emptiness) all() Sign {
	return Sign{model.Evidence{Target: e.window.Target, At: &e.window.Start, Text: "from then on no request was answered"}, Watched}
}

// leaver is the one of the Pods that left which has this UID, nil if none has.
func (e *emptiness) leaver(uid string) *model.Pod {
	for _, p := range e.leavers {
		if p.UID == uid {
			return p.Pod
		}
	}
	return nil
}

// unhealthy are the first Events of the Pods that left which say that a readiness probe failed.
func (e *emptiness) unhealthy() []Sign {
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind == timeline.KubeEvent && ev.To == "Unhealthy" && strings.HasPrefix(ev.Detail, "Readiness probe") && ev.Object != nil && e.leaver(ev.Object.UID) != nil && ev.At.Earliest <= e.span.end.Latest && ev.At.Latest >= e.span.start.Earliest-emptying {
			return []Sign{{model.Evidence{Event: ev.ID, At: new(ev.At), Text: ev.Object.Name + ": " + ev.Detail}, Watched}}
		}
	}
	return nil
}

// names are those of the Pods that left.
func (e *emptiness) names() []string {
	var names []string
	for _, p := range e.leavers {
		names = append(names, p.Name)
	}
	return names
}

// text is that the Service had no endpoint, and for how long nothing answered: the traffic tells that better than the watch does.
func (e *emptiness) text() string {
	v, w, span := e.view, e.window, e.span
	service := cmp.Or(v.target(w).Service, "the Service")
	text := fmt.Sprintf("no endpoint of %s was ready, or terminating and still serving: %s left last (%s)", service, span.last.Object.Name, quantity.Clock(span.start.Latest))
	if span.next == nil {
		text += ", and none became ready before the run ended"
	} else {
		text += fmt.Sprintf(", %s became ready at %s", span.next.Object.Name, quantity.Clock(span.end.Latest))
	}
	return text + nothingAnswered(w) + routedLate(v, w, span)
}

// lasted is for how long nobody served, for a fix.
func (e *emptiness) lasted() string { return quantity.Span(quantity.RoundUp(e.window.Length.Max)) }

// whenLastLeft is when a window must open to be blamed on the empty span: from the moment the last
// Pod began to end (it may stop before its endpoint says so) to the end of the span.
func whenLastLeft(v *index, w *model.Window, empty *emptySpan) model.Instant {
	from := empty.whole()
	if gone := v.serviceGone(w); gone != nil {
		from.Earliest = min(from.Earliest, gone.At.Earliest)
	}
	for _, p := range v.pods(w) {
		if p.UID != empty.last.Object.UID {
			continue
		}
		for _, sign := range []*model.Instant{p.Deleted, v.probe(w, p).stopped, p.EndpointNotReady} {
			if sign != nil {
				from.Earliest = min(from.Earliest, sign.Earliest)
			}
		}
	}
	return from
}

// answeredMeanwhile says why the window is not the empty span's: requests were answered in it.
func answeredMeanwhile(w *model.Window, empty *emptySpan) string {
	if w.Kind == model.Outage {
		return ""
	}
	certain := common(model.Instant{Earliest: empty.start.Latest, Latest: empty.end.Earliest}, w.Span())
	if w.Blackout == nil || w.Blackout.Max < certain/2 {
		return "requests were answered while no endpoint was ready"
	}
	return ""
}

func nothingAnswered(w *model.Window) string {
	length := w.Blackout
	if w.Kind == model.Outage {
		length = &w.Length
	}
	switch {
	case length == nil:
		return ""
	case w.Open != model.Open{}:
		return "; nothing answered for ≥ " + quantity.Lowest(length.Min)
	}
	return "; nothing answered for " + quantity.Length(*length, false)
}

// routedLate says that requests failed for long after an endpoint was ready again.
func routedLate(v *index, w *model.Window, empty *emptySpan) string {
	late := w.End.Earliest - empty.end.Latest
	if empty.next == nil || w.Kind != model.Outage || late < moment || v.serviceGone(w) != nil { // a Service that is made anew may have another address
		return ""
	}
	return fmt.Sprintf(", and %s did not route to %s until ≥ %s after it was", v.router(w), empty.next.Object.Name, quantity.Lowest(late))
}

// emptySigns are what happened, in order. That the last endpoint left decides.
func emptySigns(v *index, w *model.Window, empty *emptySpan) []Sign {
	signs := []Sign{{model.Evidence{
		Event: empty.last.ID, At: &empty.start,
		Text: fmt.Sprintf("%s, the last endpoint, turned %s", empty.last.Object.Name, empty.last.To),
	}, Watched}}
	for _, p := range v.pods(w) {
		if probe := v.probe(w, p); p.UID == empty.last.Object.UID && probe.stopped != nil {
			signs = append(signs, context(model.Evidence{Target: probe.target, At: probe.stopped, Text: p.Name + " itself stopped answering"})...)
		}
	}
	signs = append(signs, context(model.Evidence{
		Target: w.Target, At: &w.Start,
		Text: fmt.Sprintf("%d of %d requests failed: %s", w.Failed, w.Sent, quantity.ClassCounts(w.Classes)),
	})...)
	if empty.next != nil {
		signs = append(signs, context(model.Evidence{
			Event: empty.next.ID, At: &empty.end,
			Text: empty.next.Object.Name + " became ready",
		})...)
	}
	return signs
}

// firstRefused recognises refusals followed by connect timeouts, looking at the failures one by one.
func firstRefused(v *index, w *model.Window) (refused, timedOut int, ok bool) {
	var lastRefused, lastTimeout time.Duration
	firstTimeout := model.Never
	for _, f := range v.Run.Failures {
		if f.Target != w.Target || f.Earliest() < w.Start.Earliest || f.Earliest() > w.End.Earliest {
			continue
		}
		switch f.Class {
		case timeline.Refused, timeline.Unreachable:
			refused++
			lastRefused = f.Sent
		case timeline.TimeoutConnect:
			timedOut++
			firstTimeout = min(firstTimeout, f.Sent)
			lastTimeout = f.Sent
		}
	}
	return refused, timedOut, refused > 0 && timedOut > refused && lastTimeout > lastRefused && firstTimeout > w.Start.Earliest
}

// unansweredThroughout names a direct target that had answered before and, as every other, did not
// while there was certainly no endpoint; "" if one did, or none was probed.
func unansweredThroughout(v *index, w *model.Window, empty *emptySpan) string {
	certain := model.Instant{Earliest: empty.start.Latest, Latest: empty.end.Earliest}
	name := ""
	for _, p := range v.pods(w) {
		switch probe := v.probe(w, p); {
		case probe.firstOK == nil || *probe.firstOK >= certain.Latest:
		case *probe.lastOK < certain.Earliest:
			name = probe.target
		default:
			return ""
		}
	}
	return name
}
