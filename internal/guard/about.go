package guard

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/internal/guard/gate"
	"lapse/internal/history"
	"lapse/internal/run/flight"
	"lapse/internal/run/signs"
	"lapse/timeline"
)

// serviceOf returns NAMESPACE/NAME of the Service that a run measured, or "".
func serviceOf(tl *model.Timeline) string {
	if len(tl.Run.Services) == 0 {
		return ""
	}
	return tl.Run.Services[0].Namespace + "/" + tl.Run.Services[0].Name
}

// about returns what the gate knows of a judged run.
func about(tl *model.Timeline) gate.Run {
	instant := func(at time.Duration) time.Time { return tl.T0.Add(at).UTC() }
	began, changed := min(tl.Run.Baseline, tl.Run.Duration), tl.Run.Duration-tl.Run.Settle
	for i := range tl.Windows { // of what lasts: it has not settled before the next disruption
		changed = max(changed, tl.Windows[i].End.Latest)
	}
	if tl.Run.Aborted != "" || tl.Run.Truncated { // it has not settled
		changed = tl.Run.Duration
	}
	return gate.Run{
		ID:      tl.Run.ID,
		Began:   instant(began).Truncate(time.Millisecond),
		Changed: instant(max(began, changed)),
		Verdict: stateOf(tl),
		Reason:  reasonOf(tl),
		Fix:     fixOf(tl),
		Hashes:  history.Made(tl),
		Undone:  history.Undone(tl),
		Rolling: rolling(tl),
		Rollout: slices.ContainsFunc(tl.Pods, func(p model.Pod) bool {
			return p.Ending != nil && p.Ending.By == model.ByRollout
		}),
		Nodes: nodesOf(tl),
	}
}

// rolling reports whether a workload was being rolled out when a run began, and the beginning of that is not known to
// have done no harm: the guard was not there before, or the run before was broken off.
func rolling(tl *model.Timeline) bool {
	for _, snapshots := range cluster.ReadWorkloads(tl.Events) {
		first := snapshots[0]
		if is := first.Snapshot.Workload; first.To == timeline.SnapshotFound && first.Object.Kind != "ReplicaSet" &&
			first.Detail != timeline.SnapshotFollowed && is.Strategy != "OnDelete" &&
			is.Status.Existing > 0 && // else it is new
			(is.Status.Updated < is.ToUpdate() && is.Status.Updated < is.Status.Existing || // else it lacks Pods
				is.Status.Existing > is.Replicas) &&
			!(is.Paused && is.Status.Updated == 0) {
			return true
		}
	}
	return false
}

// begunUnwatched reports whether what a run shows may have begun before it, while nothing was watched. A change that
// was missed is a sign when the watch is back.
func begunUnwatched(tl *model.Timeline) bool {
	return slices.ContainsFunc(tl.Events, func(e model.Event) bool {
		return hides(e.Event) && e.Since < 0 && e.Seen >= tl.Run.Baseline-time.Second
	})
}

// hides reports whether an event says that changes were missed or seen late for so long that a run that begins at its
// end does not reach back to its beginning.
func hides(e timeline.Event) bool {
	return e.Kind == timeline.WatchGap && showsDisruptions(e.Object.Kind) && e.Seen-e.Since > flight.Span
}

// showsDisruptions reports whether disruptions are known by a watch of that kind; "" is all of them.
func showsDisruptions(kind string) bool {
	return kind == "" || kind == "Pod" || kind == "EndpointSlice"
}

// stateOf returns pass only of a run that was measured from its beginning to its end, has a gate, and is on disk for
// who doubts it.
func stateOf(tl *model.Timeline) gate.State {
	whole := tl.Run.Aborted == "" && !tl.Run.Truncated && !tl.Run.Live && tl.Run.Unsaved == "" &&
		!begunUnwatched(tl)
	switch {
	case tl.Verdict.Result == model.Fail:
		return gate.Fail
	case tl.Verdict.Result == model.Pass && whole:
		return gate.Pass
	}
	return gate.Inconclusive
}

// reasonOf returns a line such as "129 of 9996 failed; down 440 ms ±150; route-outlives-pod".
func reasonOf(tl *model.Timeline) string {
	v := tl.Verdict
	parts := []string{fmt.Sprintf("%d of %d failed", v.Failed, v.Sent)}
	if v.Failed > 0 {
		parts = append(parts, "down "+quantity.Length(v.Downtime.Total, v.Downtime.Open))
	}
	if rule := causeOf(tl); rule != "" {
		parts = append(parts, rule)
	}
	if pending := wording.Pending(tl); pending != "" {
		parts = append(parts, pending)
	}
	switch state := stateOf(tl); {
	case state == gate.Pass && rateOf(tl) != "":
		parts = append(parts, rateOf(tl))
	case state == gate.Inconclusive:
		parts = append(parts, doubtOf(tl))
	case lastingOf(tl) != "":
		parts = append(parts, lastingOf(tl))
	case state == gate.Fail && v.Failed == 0 && len(v.Reasons) > 0:
		parts = append(parts, v.Reasons[0]) // the gate that failed
	}
	return strings.Join(parts, "; ")
}

// lastingOf returns what lasts, and since when, of a run that shows nothing else, or that began with what lasted
// already; else "".
func lastingOf(tl *model.Timeline) string {
	if signs.Lasts(tl.Run.Aborted) {
		return tl.Run.Aborted
	}
	for _, e := range tl.Events {
		if _, sign, _ := strings.Cut(e.Detail, "first sign: "); e.Enters(timeline.PhaseMeasuring) && signs.Lasts(sign) {
			return strings.Replace(sign, "requests fail ", "requests failed ", 1)
		}
	}
	return ""
}

// causeOf returns the rule that explains most failures, or "".
func causeOf(tl *model.Timeline) string {
	if causes := history.Of(tl, "")[0].Causes; len(causes) > 0 {
		return causes[0].Rule
	}
	return ""
}

// doubtOf returns why a run neither passed nor failed.
func doubtOf(tl *model.Timeline) string {
	for _, l := range tl.Said.Caveats {
		if l.Kind == model.LineEnded || l.Kind == model.LineDoubt {
			return l.Text
		}
	}
	switch {
	case tl.Run.Unsaved != "":
		return "not all of the run is on disk: " + tl.Run.Unsaved
	case tl.Verdict.Result == model.Ungated:
		return "no gate was set"
	case begunUnwatched(tl):
		return "the cluster was not watched before: it may have begun earlier"
	case len(tl.Said.Reasons) > 0:
		return tl.Said.Reasons[0]
	}
	return "not judged"
}

// nodesOf returns the nodes on which the Service was disturbed. A managed node group cordons all its nodes up front: of
// one whose Pods go on, the run says nothing.
func nodesOf(tl *model.Timeline) (nodes []string) {
	lost := map[string]bool{}
	announced := map[string]model.Instant{} // when a node was cordoned, tainted or marked first
	for _, e := range tl.Events {
		node := e.Object.Name
		switch _, known := announced[node]; {
		case e.Kind == timeline.NodeReady && e.From != "" && e.To != "true":
			lost[node] = true
		case known:
		case e.Kind == timeline.NodeSchedulable && e.From != "" && e.To != "true",
			(e.Kind == timeline.NodeTaint || e.Kind == timeline.NodeMarked) && e.From == "absent":
			announced[node] = e.At
		}
	}
	has := map[string]bool{} // Pods of the Service at the end
	for _, p := range tl.Pods {
		has[p.Node] = has[p.Node] || p.Deleted == nil && p.Gone == nil
	}
	for _, p := range tl.Pods {
		at, ok := announced[p.Node]
		if lost[p.Node] || disturbed(p) || ok && (!has[p.Node] || failedSince(p, at)) {
			nodes = append(nodes, p.Node)
		}
	}
	slices.Sort(nodes)
	return slices.DeleteFunc(slices.Compact(nodes), func(node string) bool { return node == "" })
}

// disturbed reports whether something ended a Pod that is neither a rollout, nor a scale-down, nor itself.
func disturbed(p model.Pod) bool {
	if p.Ending == nil {
		return false
	}
	switch p.Ending.By {
	case model.ByRollout, model.ByScaling, model.ByItself:
		return false
	}
	return true
}

// failedSince reports whether a Pod, which was not rolled out or scaled down, was not ready any more or a container of
// it ended after an instant.
func failedSince(p model.Pod, at model.Instant) bool {
	if p.Ending != nil && p.Ending.By != model.ByItself {
		return false
	}
	return slices.ContainsFunc([]*model.Instant{p.EndpointNotReady, p.Exited}, func(change *model.Instant) bool {
		return change != nil && change.Latest >= at.Earliest
	})
}
