package empty

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// no-ready-endpoint: the Service has no endpoint to route to, and every request fails, from
// everywhere. kube-proxy then rejects connections; but Linux limits the ICMP replies it does so with
// to a burst of about 6 per peer and then 1/s, so that most connects time out instead.
//
//	endpoints  1 1 1 0 0 0 0 0 0 0 1 1
//	svc        ok ok x x x x … x x x x ok      first refused, then timing out

var NoReadyEndpoint = emptyReason{
	Name:  "no-ready-endpoint",
	Doc:   "The Service had no endpoint that was ready, and none that was terminating and still serving.",
	Needs: []rule.Need{rule.EndpointSlices, rule.EndpointsWatched},
	finds: wasScaledToZero,
	says:  sayNoReadyEndpoint,

	Reasons: []string{serviceAway, unlisted, scaledToZero, evidence.ProbeKilled, allEnded, readinessOnly, oneNode,
		nodeDrained, togetherGone, rolledOut, togetherUnready, tooLittleCapacity, oneReplica},
}

// Reasons for which no endpoint was ready.
const (
	serviceAway     = "service-deleted"
	unlisted        = "no-longer-selected" // endpoints left though their Pods neither ended nor turned not ready
	scaledToZero    = "scaled-to-0"        // or the workload was deleted
	allEnded        = "ended-by-itself"    // the containers of all Pods ended
	readinessOnly   = "readiness"          // the only Pod turned not ready, and went on answering
	oneNode         = "one-node"           // all were on one node, and were taken away
	nodeDrained     = "node-drained"       // all were on one node, and were evicted from it
	togetherGone    = "taken-together"     // several were taken away together
	rolledOut       = "rolled-out"         // several were taken away together by a rollout
	togetherUnready = "not-ready-together" // several turned not ready together
	oneReplica      = "one-replica"        // there was one, and it went

	tooLittleCapacity = "too-little-capacity" // some were taken away, and the probes of the others timed out
)

// wasScaledToZero reports whether the workload of all Pods that left was scaled to 0, or deleted, before the last did.
func wasScaledToZero(e *emptiness) bool {
	for _, p := range e.leavers {
		if !p.wasDeleted() || e.view.Changes.States.Top(p.Pod) != e.view.Changes.States.Top(e.leavers[0].Pod) {
			return false
		}
	}
	last := e.lastLeaver()
	if last == nil {
		return false
	}
	e.object = e.view.Changes.States.Top(last)
	for _, ev := range e.view.Changes.States.Of(last.Namespace, e.object) {
		if ev.At.Earliest > e.span.Start.Latest {
			break
		}
		if e.event = nil; ev.To == timeline.SnapshotDeleted || ev.To != timeline.SnapshotFound &&
			ev.Snapshot.Workload.Replicas == 0 {
			e.event = ev
		}
	}
	return e.event != nil
}

func sayNoReadyEndpoint(e *emptiness) rule.Finding {
	for _, why := range []struct {
		reason string
		find   func(*emptiness) (rule.Finding, bool)
	}{
		{serviceAway, serviceDeleted}, {scaledToZero, scaledAway}, {evidence.ProbeKilled, killedByLiveness},
		{allEnded, endedThemselves}, {readinessOnly, readinessFailed},
		{unlisted, leftAlive}, {oneNode, onOneNode}, {togetherGone, takenTogether}, {togetherUnready, notReadyTogether},
	} {
		if f, is := why.find(e); is {
			f.Reason = cmp.Or(f.Reason, why.reason)
			return f
		}
	}
	if f, is := overloaded(e); is {
		f.Reason = tooLittleCapacity
		f.Lack(workloadUnknown(e)...)
		return f
	}
	e.sayWhyLast()
	f := e.finding(takenBy(e), tooFew(e), evidence.Mention(takenAway(e)...)...)
	f.Text += eachLeft(e, e.leavers)
	if e.readyBefore() == 1 {
		f.Reason = oneReplica
	}
	f.Lack(workloadUnknown(e)...)
	return f
}

// takenBy says who took the only Pod away, where that was neither by a request nor by its workload.
func takenBy(e *emptiness) string {
	if len(takenAway(e)) == 0 {
		return ""
	}
	return fmt.Sprintf("%s was %s, and ", e.leavers[0].Name, e.leavers[0].Ending.Text)
}

func takenAway(e *emptiness) []model.Evidence {
	if len(e.leavers) != 1 || e.leavers[0].Ending == nil ||
		!slices.Contains([]model.EndedBy{model.ByEviction, model.ByTaint, model.ByKubelet, model.ByScheduler,
			model.ByCollector}, e.leavers[0].Ending.By) {
		return nil
	}
	if ev := e.view.Changes.Event(e.leavers[0].Ending.Event); ev == nil || ev.At.Earliest > e.leavers[0].left.Latest {
		return nil // that was later
	}
	return goings(e)
}

// tooFew gives the time that a second replica has to bridge, and how much of it is the replacement's own slowness.
func tooFew(e *emptiness) string {
	if wanted := wanted(e); wanted > 0 {
		return fmt.Sprintf("find out why only 1 of %d replicas was ready before: more replicas do not help while "+
			"they do not become ready", wanted) + strings.Replace(mustCarry(e), ": the", "; the", 1)
	}
	if n := len(e.leavers); n > 1 {
		return fmt.Sprintf("run more replicas than may go at a time: %s left within %s, for different reasons",
			rule.Every(n), quantity.Span(max(time.Millisecond, e.apart().Max))) +
			strings.Replace(mustCarry(e), ": the", "; the", 1)
	}
	return "run ≥ 2 replicas on different nodes, with a PodDisruptionBudget that lets only 1 go at a time" +
		budgets(e) + mustCarry(e)
}

// wanted returns how many replicas the workload of the last Pod wanted where that Pod was the only one of them that was
// ready; 0 where it wanted no more, or that is not known.
func wanted(e *emptiness) int {
	last, known := e.lastOfAll()
	if !known || e.readyBefore() != 1 {
		return 0
	}
	w := e.view.Changes.States.At(last.Namespace, e.view.Changes.States.Top(last.Pod), last.left.Earliest)
	if w == nil || w.Replicas < 2 || w.Status.Ready != 1 {
		return 0
	}
	return w.Replicas
}

// budgets says in brackets which PodDisruptionBudgets let Pods be evicted that left, and how many at once, or that
// there was none; nothing where none was evicted, or that is not known.
func budgets(e *emptiness) string {
	evicted := slices.ContainsFunc(e.leavers, func(p leaver) bool {
		return p.Ending != nil && p.Ending.By == model.ByEviction
	})
	if !evicted || e.view.Templates[e.leavers[0].Template] == nil || e.view.Watches.LaneOff("poddisruptionbudget",
		e.window) {
		return ""
	}
	before := map[string]*model.Event{}
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind == timeline.SnapshotTaken && ev.Snapshot != nil && ev.Snapshot.Budget != nil &&
			ev.Object.Namespace == e.leavers[0].Namespace &&
			(before[ev.Object.Name] == nil || ev.Seen < e.leavers[0].left.Earliest) {
			before[ev.Object.Name] = ev
		}
	}
	var each []string
	for _, name := range slices.Sorted(maps.Keys(before)) {
		ev := before[name]
		limit := "minAvailable " + ev.Snapshot.Budget.MinAvailable
		if ev.Snapshot.Budget.MinAvailable == "" {
			limit = "maxUnavailable " + ev.Snapshot.Budget.MaxUnavailable
		}
		if ev.To != timeline.SnapshotDeleted {
			each = append(each, fmt.Sprintf("%s, with %s, allowed %d", name, limit, ev.Snapshot.Budget.Allowed))
		}
	}
	if len(each) == 0 {
		return " (there was none)"
	}
	return " (" + strings.Join(each, "; ") + ")"
}

func mustCarry(e *emptiness) string {
	if e.span.Next == nil {
		return ""
	}
	text := fmt.Sprintf(": the others must carry the load for ≥ %s", e.lasted())
	if p := e.nextPod(); p != nil && p.Created != nil && p.EndpointReady != nil {
		text += fmt.Sprintf(" (%s took up to %s from created to ready)", p.Name,
			quantity.Span(evidence.Length(*p.Created, *p.EndpointReady).Max))
	}
	return text
}

// workloadUnknown says that what made the Pods go is not known because what makes them was not watched.
func workloadUnknown(e *emptiness) []evidence.Sign {
	last := e.lastLeaver()
	if last == nil || last.Deleted == nil || last.Owner == "" {
		return nil
	}
	top := e.view.Changes.States.Top(last)
	if len(e.view.Changes.States.Of(last.Namespace, top)) > 0 {
		return nil
	}
	kind, _, _ := strings.Cut(top, "/")
	if !e.view.Watches.LaneOff(strings.ToLower(kind), e.window) {
		return nil
	}
	return []evidence.Sign{evidence.Context.Doubt(fmt.Sprintf("%ss could not be watched: whether %s was scaled to 0, "+
		"or replaces its Pods one after the other, is not known", kind, cluster.WorkloadWords(top)))}
}

// serviceDeleted: the Service itself had gone.
func serviceDeleted(e *emptiness) (rule.Finding, bool) {
	gone := e.view.Services.Deleted(e.window)
	if gone == nil {
		return rule.Finding{}, false
	}
	e.event = gone
	at := e.clock(gone.At.Latest)
	f := e.finding(fmt.Sprintf("Service %s was deleted (%s), and ", gone.Object.Name, at),
		fmt.Sprintf(
			"keep the Service while clients need it, and change it instead of recreating it: it was deleted at %s",
			at), e.sign("Service "+gone.Object.Name+" was deleted"))
	f.For = append(f.For, e.all())
	return f, true
}

// leftAlive: endpoints left though their Pods were neither ending nor found not ready: somebody changed labels, or an
// EndpointSlice.
func leftAlive(e *emptiness) (rule.Finding, bool) {
	if len(e.leavers) == 0 || len(e.leavers) < e.readyBefore() || e.span.Last.To != timeline.EndpointAbsent {
		return rule.Finding{}, false
	}
	for _, p := range e.leavers {
		notReady := p.NotReady != nil && p.NotReady.Earliest <= p.left.Latest &&
			p.left.Earliest <= p.NotReady.Latest+followed
		if p.TerminatingBy(e.span.Start.Latest) || notReady || e.endedAsItLeft(p) != nil || p.Ending != nil &&
			p.Ending.By == model.ByKubelet {
			return rule.Finding{}, false
		}
	}
	if e.view.Watches.LaneOff("pod", e.window) {
		return rule.Finding{}, false // then that is not known
	}
	what := rule.Every(len(e.leavers))
	if len(e.leavers) == 1 {
		what = e.leavers[0].Name
	}
	if e.event = portsChanged(e); e.event != nil {
		at := e.clock(e.event.At.Latest)
		return e.finding(fmt.Sprintf("the Service's ports were changed (%s, %s), %s left the endpoints though "+
			"neither ending nor found not ready, and ", strings.TrimPrefix(e.event.Detail, evidence.PortsEdited), at,
			what),
			fmt.Sprintf("change a Service's ports only to a targetPort that its Pods have, and keep the port and its "+
				"name while clients need them: they were changed at %s", at),
			e.sign("the Service's ports were changed: "+strings.TrimPrefix(e.event.Detail, evidence.PortsEdited))), true
	}
	var signs []evidence.Sign
	for _, p := range e.leavers[:min(len(e.leavers), rule.MostNamed)] {
		for _, ev := range e.view.Changes.About[p.UID] {
			if ev.Kind == timeline.PodGone && ev.Detail == timeline.NoLongerSelected &&
				ev.At.Overlaps(model.Instant{Earliest: p.left.Earliest - followed, Latest: p.left.Latest + followed}) {
				signs = append(signs, evidence.Context.Seen(ev, p.Name+" was no longer selected by the Service"))
			}
		}
	}
	return e.finding(fmt.Sprintf("%s left the endpoints though neither ending nor found not ready, and ", what),
		fmt.Sprintf("find out who changed the labels of these Pods, or the EndpointSlices: more replicas do not help "+
			"against that; it happened at %s", e.clock(e.span.Start.Latest)), signs...), true
}

// portsChanged returns the change of the Service's ports that can have emptied it, nil if there was none.
func portsChanged(e *emptiness) (last *model.Event) {
	service := e.view.Traffic.Target(e.window).Service
	for _, ev := range e.view.Services.Edits {
		if strings.HasPrefix(ev.Detail, evidence.PortsEdited) &&
			(service == "" || ev.Object.Namespace+"/"+ev.Object.Name == service) &&
			ev.At.Overlaps(e.aboutStart(followed)) {
			last = ev
		}
	}
	return last
}

// scaledAway: there was to be no Pod.
func scaledAway(e *emptiness) (rule.Finding, bool) {
	if e.event == nil {
		return rule.Finding{}, false
	}
	what := cluster.WorkloadWords(e.object)
	at := e.clock(e.event.At.Latest)
	if e.event.To == timeline.SnapshotDeleted {
		return e.finding(fmt.Sprintf("%s was deleted (%s), and ", what, at),
				fmt.Sprintf("keep %s while clients need it: it was deleted at %s", what, at),
				e.sign(what+" was deleted")),
			true
	}
	fix := fmt.Sprintf("keep ≥ 1 replica while clients need it: %s was scaled to 0 at %s", what, at)
	if back := scaledBack(e); back != nil {
		fix += fmt.Sprintf(", and to %d at %s", back.Snapshot.Workload.Replicas, e.clock(back.At.Latest))
	}
	return e.finding(fmt.Sprintf("%s was scaled to 0 (%s), and ", what, at), fix, e.sign(what+" was scaled to 0")), true
}

// scaledBack returns the first change after which the workload that was scaled to 0 wants Pods again, nil if there was
// none.
func scaledBack(e *emptiness) *model.Event {
	for _, ev := range e.view.Changes.States.Of(e.event.Object.Namespace, e.object) {
		if ev.Seen > e.event.Seen && ev.Snapshot.Workload.Replicas > 0 {
			return ev
		}
	}
	return nil
}

// recently is how long before the Service was empty the kills of its Pods count.
const recently = 2 * time.Minute

// killedByLiveness: only the liveness probe ended the Pods' containers.
func killedByLiveness(e *emptiness) (rule.Finding, bool) {
	kills, killed := 0, map[string]bool{}
	var last, decides *model.Event
	left, known := e.lastOfAll()
	for i := range e.view.Run.Events {
		ev := &e.view.Run.Events[i]
		if ev.Kind != timeline.KubeEvent || ev.To != "Killing" ||
			!strings.Contains(ev.Detail, "failed liveness probe") {
			continue
		}
		if p := e.leaver(ev.Object.UID); p != nil && !p.TerminatingBy(ev.At.Latest) &&
			e.span.Start.Earliest-recently <= ev.At.Latest && ev.At.Earliest <= e.span.End.Latest {
			kills, killed[p.Name], last = kills+1, true, ev
			if known && p == left.Pod && ev.At.Earliest <= left.left.Latest && !e.view.Changes.StartedBetween(p, ev,
				left.left.Earliest) {
				// one that came later did not take the endpoint away, and one before its last start was made good
				decides = ev
			}
		}
	}
	if decides == nil {
		return rule.Finding{}, false
	}
	e.event = last
	var names []string
	for _, name := range e.names() {
		if killed[name] {
			names = append(names, name)
		}
	}
	times := quantity.Count(kills, "time")
	limit := ""
	if p := livenessOf(e.view, e.lastLeaver()); p != nil {
		limit = fmt.Sprintf(" (it is %d failures, one each %s)", p.Threshold, quantity.Span(p.Period))
	}
	return e.finding(fmt.Sprintf("the liveness probe ended containers of %s, %s, and ", quantity.Names(names), times),
		fmt.Sprintf("let the liveness probe ask only whether the process must be restarted, and give it more time%s: "+
			"it ended containers %s, and more replicas do not help against that", limit, times),
		e.sign("the liveness probe of "+names[len(names)-1]+" failed, and its kubelet ended the container")), true
}

// livenessOf returns the liveness probe of a Pod's first container that has one, nil if that is not known.
func livenessOf(v *evidence.Evidence, p *model.Pod) *timeline.Probe {
	if t := v.Templates[p.Template]; t != nil {
		for _, c := range t.Containers {
			if c.Liveness != nil {
				return c.Liveness
			}
		}
	}
	return nil
}

// endedThemselves: the containers of all Pods that left had ended unasked.
func endedThemselves(e *emptiness) (rule.Finding, bool) {
	for _, p := range e.leavers {
		if p.Ending != nil && p.Ending.By == model.ByKubelet || e.endedAsItLeft(p) == nil {
			return rule.Finding{}, false
		}
	}
	last, known := e.lastOfAll()
	if !known {
		return rule.Finding{}, false
	}
	e.event = e.endedAsItLeft(last)
	how := "its container " + cluster.ContainerEnd(e.event)
	return e.finding(fmt.Sprintf("%s ended though nobody had asked for it (%s: %s), and ", quantity.Names(e.names()),
		last.Name, how),
		fmt.Sprintf("find out why with kubectl logs --previous: %s ended; of %s, %s",
			quantity.Count(len(e.leavers), "Pod"), last.Name, how),
		e.sign(last.Name+": "+how)), true
}

// readinessFailed: the only Pod turned not ready, and went on answering.
func readinessFailed(e *emptiness) (rule.Finding, bool) {
	last, known := e.lastOfAll()
	if !known || len(e.leavers) != 1 || last.TerminatingBy(e.span.Start.Latest) || last.NotReady == nil {
		return rule.Finding{}, false
	}
	if !e.wentOnAnswering(last) {
		return rule.Finding{}, false
	}
	probe := e.view.Addresses.Probe(e.window, last.Pod)
	fix := "let the readiness probe fail only where the Pod cannot serve"
	if len(e.unhealthy()) == 0 {
		fix = "find out what set it not ready, its probe, a readiness gate or its kubelet"
	}
	f := e.finding(fmt.Sprintf("%s turned not ready though it went on answering at its own address, and ", last.Name),
		fix+", and run ≥ 2 replicas"+mustCarry(e),
		evidence.Measured.Target(probe.Target, &last.left, last.Name+" went on answering at its own address"))
	f.Oppose(e.answeredBadly()...)
	return f, true
}

// goings returns what ended the Pods that left.
func goings(e *emptiness) (all []model.Evidence) {
	for _, p := range e.leavers[:min(len(e.leavers), rule.MostNamed)] {
		if p.Ending == nil {
			continue
		}
		if ev := e.view.Changes.Event(p.Ending.Event); ev != nil {
			all = append(all, model.Evidence{Event: ev.ID, At: new(ev.At), Text: fmt.Sprintf("%s on %s was %s", p.Name,
				p.Node, p.Ending.Text)})
		}
	}
	return all
}
