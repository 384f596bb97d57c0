// Package network explains windows by what lies between clients and Pods: the prober itself, nodes, DNS.
package network

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// prober-fault: not the Service failed but the prober. Its own echo server, inside the same
// process, failed as well; or it stood still so long that answers came too late to count; or every
// target it probes failed at once, those of Pods that nothing had happened to included.
//
//	svc      ok ok x x x ok ok
//	control  ok ok x x x ok ok      the same instant, with no network between

var ProberFault = rule.Rule{
	Name: "prober-fault",
	Doc:  "The prober itself stalled or failed: nothing is known about the Service.",
	Test: testProberFault,
}

// testProberFault looks for four signs that do not depend on each other. The first that is found gives the text and
// the fix.
func testProberFault(c *rule.Case) rule.Finding {
	found := rule.No("the control target and the prober had no trouble")
	for _, sign := range []func(*evidence.Evidence, *model.Window) rule.Finding{controlFailed, stoodStill, allFailed,
		localFaults} {
		f := sign(c.Evidence, c.Window)
		switch {
		case found.Applies():
			found.For = append(found.For, f.For...)
		case f.Applies(), f.WhyNot() != "":
			found = f
		}
	}
	return found
}

const proberFix = "nothing to change in the Service: count this time as unobserved, "

// controlFailed looks at the echo server inside the prober. It explains no more than a prober that stands still does,
// and for no longer than it failed.
func controlFailed(v *evidence.Evidence, w *model.Window) rule.Finding {
	for _, t := range v.Run.Targets {
		if t.Kind != timeline.Control || t.Source != v.Traffic.Target(w).Source {
			continue
		}
		trouble := v.Traffic.TroubleNear(t.Name, v.Traffic.Onset(w), w.Kind == model.Slow)
		if trouble == nil {
			continue
		}
		unwell := v.Traffic.Unwell(t.Name, trouble)
		what := "requests to the control target went wrong for " + quantity.Span(unwell)
		if made := madeByProber(w); w.Kind != model.Slow && 2*made < w.Failed {
			return rule.No(fmt.Sprintf("%s, but %d of %d requests were answered, if badly, or refused", what,
				w.Failed-made,
				w.Failed))
		}
		if why := outlasts(v, w, unwell); why != "" {
			return rule.No(what + ", but " + why)
		}
		return rule.Finding{
			Text: fmt.Sprintf("the prober on %s got no good answer from its own echo server at the same time: %s",
				v.Traffic.From(w), troubleText(trouble)),
			Fix: proberFix + fmt.Sprintf("and give the prober CPU and file descriptors of its own: it had trouble "+
				"for up to %s", quantity.Span(trouble.Length.Max)),
			For: []evidence.Sign{evidence.Measured.Target(t.Name, &trouble.Start,
				"the trouble of the control target began")},
		}
	}
	return rule.Finding{}
}

// madeByProber counts the failures that a prober which does not run can make of good answers. A refusal and a bad
// answer are answers.
func madeByProber(w *model.Window) int {
	return evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot,
		timeline.Reset, timeline.EOF, timeline.Unreachable, timeline.Other)
}

// outlasts says that the window went on for longer than requests can wait that were sent while the prober was unwell.
func outlasts(v *evidence.Evidence, w *model.Window, unwell time.Duration) string {
	if w.Length.Min <= unwell+v.Run.Run.Timeout {
		return ""
	}
	return "requests failed for ≥ " + quantity.Lowest(w.Length.Min)
}

func troubleText(w *model.Window) string {
	if w.Kind == model.Slow {
		return "answers late for " + quantity.Length(w.Length, false)
	}
	return quantity.ClassCounts(w.Classes) + " in " + quantity.Length(w.Length, false)
}

// stoodStill looks for a time in which the prober did not run. It explains only timeouts and late
// answers, and only a standstill long enough to make them: a refusal is an answer.
func stoodStill(v *evidence.Evidence, w *model.Window) rule.Finding {
	for _, e := range v.Changes.Stalls {
		if e.Source != "" && e.Source != v.Traffic.Target(w).Source || !e.At.Overlaps(v.Traffic.Onset(w)) {
			continue
		}
		stall := e.At.Latest - e.At.Earliest
		if why := cannotStall(v, w, stall); why != "" {
			return rule.No(fmt.Sprintf("the prober stood still for %s, but %s", quantity.Span(stall), why))
		}
		return rule.Finding{
			Text: fmt.Sprintf("the prober on %s did not run for %s: it read answers too late", v.Traffic.From(w),
				quantity.Span(stall)),
			Fix: proberFix + fmt.Sprintf("and give the prober CPU: no CPU limit, and a request that keeps others "+
				"from starving it for %s", quantity.Span(stall)),
			For: []evidence.Sign{evidence.Watched.Seen(e, "the prober did not run")},
		}
	}
	return rule.Finding{}
}

// cannotStall says why a standstill of this length cannot have made the window.
func cannotStall(v *evidence.Evidence, w *model.Window, stall time.Duration) string {
	if w.Kind == model.Slow {
		if stall < v.Traffic.Target(w).SlowFrom/2 {
			return "that is too short to make answers this slow"
		}
		return ""
	}
	if !evidence.Only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot) {
		return "that makes no " + quantity.ClassCounts(w.Classes)
	}
	if stall < v.Run.Run.Timeout/2 {
		return "that is too short to make requests time out"
	}
	return outlasts(v, w, stall)
}

// allFailed looks at everything else this source probes: if nothing got through to any target, the direct ones of
// Pods that nothing had happened to included, then what they share is the prober and its network. But Pods of one
// namespace share more: a NetworkPolicy, a node's network, a version. So there must be something else that
// failed too. A bad answer, or a connection that was made, got through.
func allFailed(v *evidence.Evidence, w *model.Window) rule.Finding {
	lostInAll := lostOnTheWay(w)
	if v.Traffic.Target(w).Kind == timeline.Reused { // its connections were open before
		lostInAll = max(lostInAll, evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse,
			timeline.Unreachable, timeline.NoSlot))
	}
	if w.Kind == model.Slow || 2*lostInAll < w.Failed {
		return rule.Finding{}
	}
	healthy := v.Addresses.HealthyOthers(w)
	if len(healthy) == 0 {
		return rule.Finding{}
	}
	seen, lost := healthyFailed(v, w, healthy)
	other, all := targetsFailed(v, w)
	if seen == nil || !all {
		return rule.Finding{}
	}
	if from := failedFrom(v, w); from != "" {
		return rule.No("everything this prober sends failed at once, but so did the requests to the Service from " +
			from)
	}
	if lost == len(healthy) {
		return rule.No("every Pod that failed was on a node that was found to be lost")
	}
	signs := evidence.Mention(seen...)
	signs[0].Strength = evidence.Close
	if len(healthy) > 1 {
		signs[0].Strength = evidence.Watched
	}
	f := rule.Finding{
		Text: fmt.Sprintf(
			"everything the prober on %s sends failed at once, what goes straight to the address of %s included",
			v.Traffic.From(w), quantity.Count(len(healthy), "healthy Pod")),
		Fix: proberFix + fmt.Sprintf("and probe from ≥ 2 nodes to tell the prober's network from the Pods': %s cannot",
			quantity.Count(len(healthy), "direct target")),
		For: signs,
	}
	gap := v.Watches.SilenceBeside(w)
	switch {
	case gap != nil:
		f.For = append(f.For, evidence.Watched.Seen(gap, "the watches brought nothing meanwhile either"))
	case other != "":
		f.For = append(f.For, evidence.Watched.Target(other, nil, "requests to a Service of another namespace failed "+
			"as well"))
	default:
		f.Oppose(evidence.Watched.Doubt("no Service of another namespace was asked: what these Pods share, as a " +
			"NetworkPolicy or their nodes' network, fits as well"))
	}
	if node := onlyNode(v, w); node != "" {
		f.Oppose(evidence.Watched.Doubt("all Pods that were asked are on " + node + ": its network fits as well"))
	} else if gap == nil && other != "" && !nearFailed(v, w) {
		f.Oppose(evidence.Close.Doubt("the watches went on, and no Pod on the prober's own node failed: it may be " +
			"that only Pods of different nodes could not reach each other"))
	}
	return f
}

// onlyNode returns the node of all Pods that the window's source asked at their own addresses, "" if there are several
// nodes or it is the source's own.
func onlyNode(v *evidence.Evidence, w *model.Window) (node string) {
	own := v.Traffic.Target(w)
	for _, t := range v.Run.Targets {
		if t.Kind != timeline.Direct || t.Source != own.Source || t.PodNode == "" {
			continue
		}
		if t.PodNode == own.Node || node != "" && t.PodNode != node {
			return ""
		}
		node = t.PodNode
	}
	return node
}

// nearFailed reports whether the address of a Pod on the prober's own node failed meanwhile.
func nearFailed(v *evidence.Evidence, w *model.Window) bool {
	own := v.Traffic.Target(w)
	return slices.ContainsFunc(v.Run.Targets, func(t model.Target) bool {
		return t.Kind == timeline.Direct && t.Source == own.Source && t.PodNode != "" && t.PodNode == own.Node &&
			failedWholly(v, &t, w)
	})
}

// healthyFailed returns the evidence that nothing got through from the window's source to any of these Pods at their
// own addresses, nil if something did or it asked none; and how many of them were on a node that was found to be lost:
// then the fault is there.
func healthyFailed(v *evidence.Evidence, w *model.Window, healthy []*model.Pod) (seen []model.Evidence, lost int) {
	for _, p := range healthy {
		if v.Changes.NodeLost(p.Node, w.Span()) != nil {
			lost++
		}
		direct := v.Traffic.TargetNamed(v.Addresses.DirectName(w, p))
		trouble := v.Traffic.OutageNear(direct.Name, v.Traffic.Onset(w))
		if direct.Source != v.Traffic.Target(w).Source || trouble == nil || trouble.Share < evidence.NearlyAll ||
			!p.ReadyWithin(trouble.Start.Latest, trouble.End.Earliest) || p.Ending != nil ||
			2*lostOnTheWay(trouble) < trouble.Failed {
			return nil, 0
		}
		seen = append(seen, model.Evidence{
			Target: direct.Name, At: &trouble.Start,
			Text: p.Name + ", ready and untouched, began to fail at its own address",
		})
	}
	return seen, lost
}

// failedFrom returns where another prober is that got nothing from the Service meanwhile either, "" if there is none.
func failedFrom(v *evidence.Evidence, w *model.Window) string {
	own := v.Traffic.Target(w)
	for _, t := range v.Run.Targets {
		if t.Kind.Judged() && t.Source != own.Source && t.Service == own.Service && failedWholly(v, &t, w) {
			return cmp.Or(t.Node, t.Source)
		}
	}
	return ""
}

// failedWholly reports whether nearly all requests to a target failed in an outage during the window.
func failedWholly(v *evidence.Evidence, t *model.Target, w *model.Window) bool {
	u := v.Traffic.OutageNear(t.Name, w.Span())
	return u != nil && u.Share >= evidence.NearlyAll
}

// targetsFailed reports whether all judged targets of the window's source failed wholly meanwhile, and names one of a
// Service of another namespace, if there is one. A bare URL may lead to the same Pods.
func targetsFailed(v *evidence.Evidence, w *model.Window) (other string, all bool) {
	own := v.Traffic.Target(w)
	namespace := evidence.NamespaceOf(own.Service)
	for _, t := range v.Run.Targets {
		if !t.Kind.Judged() || t.Source != own.Source {
			continue
		}
		if !failedWholly(v, &t, w) {
			return "", false
		}
		if t.Service == "" {
			continue
		}
		namespace = cmp.Or(namespace, evidence.NamespaceOf(t.Service))
		if evidence.NamespaceOf(t.Service) != namespace {
			other = t.Name
		}
	}
	return other, true
}

// lostOnTheWay counts the failures that do not prove that anything arrived.
func lostOnTheWay(w *model.Window) int {
	return evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.DNS, timeline.NoSlot) +
		lostReplies(w)
}

// lostReplies counts the timeouts of a window in which connections could not be made either: those were open before.
func lostReplies(w *model.Window) int {
	if evidence.Count(w.Classes, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot) == 0 {
		return 0
	}
	return evidence.Count(w.Classes, timeline.TimeoutResponse)
}

// localFaults looks for requests that our own system refused to send, or that a standstill of the prober made
// worthless. They explain only timeouts, and no more of them than there are such requests.
func localFaults(v *evidence.Evidence, w *model.Window) rule.Finding {
	t := v.Traffic.Target(w)
	about := v.Traffic.Onset(w)
	about.Latest = w.End.Latest
	var at *model.Instant
	n := 0
	for _, gap := range v.Run.Unobserved {
		in := model.Instant{Earliest: gap.Start, Latest: gap.End}
		if gap.Reason != model.ReasonLocal || gap.Target != w.Target || !in.Overlaps(about) {
			continue
		}
		refused := 1
		if interval := v.Traffic.Interval(t, gap.Start); interval > 0 {
			refused = max(refused, int((gap.End-gap.Start+interval/2)/interval))
		}
		n += refused
		if at == nil && in.Overlaps(v.Traffic.Onset(w)) {
			at = &in
		}
	}
	n = min(n, t.Classes[timeline.Local.String()])
	switch {
	case at == nil:
		return rule.Finding{}
	case !evidence.Only(w.Classes, timeline.TimeoutConnect, timeline.TimeoutResponse, timeline.NoSlot):
		return rule.No(fmt.Sprintf("%s failed on our side, but that makes no %s", quantity.Count(n, "request"),
			quantity.ClassCounts(w.Classes)))
	case n < w.Failed:
		return rule.No(fmt.Sprintf("only %s failed on our side, but %d otherwise", quantity.Count(n, "request"),
			w.Failed))
	}
	tells := "tell"
	if n == 1 {
		tells = "tells"
	}
	return rule.Finding{
		Text: fmt.Sprintf("%s had no ports or file descriptors left, or the prober stood still: %s failed on our side",
			v.Traffic.From(w), quantity.Count(n, "request")),
		Fix: proberFix +
			fmt.Sprintf("and lower --rate, raise the limit of open files or give the prober CPU: %s %s nothing",
				quantity.Count(n, "request"), tells),
		For: []evidence.Sign{evidence.Close.Target(w.Target, at, "requests failed on our side")},
	}
}
