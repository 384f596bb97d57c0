package routes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// route-outlives-pod: a Pod that is asked to end stops listening, and for a while this node's routes
// still lead to it. New connections are refused, or time out once the Pod's sandbox is gone, at the
// share the Pod had of the Service's endpoints; everything else goes on. The proof is the Pod's own
// address, which stops answering at the same instant.
//
//	svc     ok ok ok x ok x x ok x ok ok ok
//	direct  ok ok ok x x  x x x  x x  x  x     the Pod stopped at the onset, the routes followed later
//	others  ok ok ok ok …                      and no other Pod had any part in it
//
// For how long each of several Pods was routed to is worked out in route_lags.go.

var RouteOutlivesPod = rule.Rule{
	Name:  "route-outlives-pod",
	Doc:   "A Pod stopped, or failed as it ended, before the prober's node stopped routing to it.",
	Needs: []rule.Need{rule.PodsWatched},
	Test:  testRouteOutlivesPod,
}

func testRouteOutlivesPod(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	r := v.Routes.Race(w)
	if len(r.Stops) == 0 {
		return rule.No(r.WhyNot)
	}
	if s := r.LatestStop(); s != nil {
		return rule.No(
			fmt.Sprintf("the route to %s was changed so late that no Pod can be expected to serve for as long",
				s.Pod.Name))
	}
	hooks := r.FailedHooks(v.Endings)
	for _, h := range hooks {
		if h.Beside == "" && !h.Unclear {
			return rule.No(fmt.Sprintf("the preStop hook of %s failed, which was to keep it serving", h.Stop.Pod.Name))
		}
	}
	f := rule.Finding{
		For:      raceSigns(&r, v, w),
		Text:     raceText(&r, v, w) + racePinned(&r, v, w),
		Measures: raceMeasures(&r, v, w),
	}
	f.Fix, f.Sleep = raceFix(v, w)
	raceOthers(&r, v, w, &f)
	raceShare(&r, v, w, &f)
	for _, s := range r.Stops {
		if in := v.Endings.EndedInParts(s); in != nil && !in.Forced &&
			(in.Serves || !in.Known || r.As[s].Most() == evidence.AnswersErrors) {
			f.Oppose(evidence.Close.Doubt(fmt.Sprintf("%s of %s ran on for ≥ %s: only %s had ended", in.Last,
				s.Pod.Name, quantity.Lowest(in.Apart), in.First)))
		}
	}
	f.ExplainsAtMost(w, r.Explained)
	if i := slices.IndexFunc(r.Stops, func(s *evidence.PodStop) bool { return s.Published }); i >= 0 {
		f.Sleep, f.Fix = nil, fmt.Sprintf("set publishNotReadyAddresses of the Service to false: it keeps the "+
			"endpoint of a Pod ready until the Pod is gone, however long that serves; %s",
			raceStopText(&r, v, w, r.Stops[i]))
	} else if i := slices.IndexFunc(r.Stops, (*evidence.PodStop).Unclear); i >= 0 {
		s := r.Stops[i]
		f.Sleep = nil
		unclear := quantity.Lowest(s.Lag().Min)
		f.Fix = fmt.Sprintf("find out who was late with the route to %s, the EndpointSlice or %s: no Pod can be "+
			"expected to serve for ≥ %s after SIGTERM", s.Pod.Name, v.Services.Router(w), unclear)
		if gap := c.Watches.Silence(c.Window); gap != nil {
			f.Fix += "; meanwhile " + gap.Detail + ", and no route could be changed"
		}
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("whether the EndpointSlice or %s was late is not known",
			v.Services.Router(w))))
	}
	for _, h := range hooks {
		if h.Beside == "" {
			f.Lack(evidence.Measured.Doubt(fmt.Sprintf("the preStop hook of %s%s failed: whether it was to keep it "+
				"serving is not known", h.Stop.Pod.Name, h.Runs)))
		}
	}
	f.Lack(v.Services.Unwatched(w)...)
	f.Lack(evidence.UnmeasuredStops(r.Stops)...)
	f.Lack(unseenEnds(&r, v)...)
	if v.Traffic.KeepsPorts(w) && v.Routes.Episode(w).Fresh == nil {
		f.Lack(evidence.Measured.Doubt("no datagrams from fresh source ports were measured: whether routes or " +
			"connection-tracking entries were stale is not known"))
	}
	f.Lack(nothingAfter(&r, w)...)
	f.Lack(lostPacket(&r, w)...)
	f.Oppose(r.NotTheirs()...)
	f.Lack(r.NotProbed(v.Addresses, w)...)
	f.Oppose(r.FailedBefore(v.Endings, w)...)
	if r.Lost == 0 {
		for _, s := range r.Stops {
			f.Oppose(evidence.NotKilled(s.Pod)...)
		}
	}
	return f
}

// pinsClients reports whether the Service sends all connections of a client to one Pod.
func pinsClients(v *evidence.Evidence, w *model.Window) bool {
	spec := v.Services.Spec(w)
	return spec != nil && spec.Snapshot.Service.Affinity == "ClientIP" && !v.Traffic.Target(w).Turns
}

// narrowed returns the setting by which the Service leads the window's requests to some of its endpoints only, and what
// that means; "" if it has none.
func narrowed(v *evidence.Evidence, w *model.Window) (setting, effect string) {
	spec := v.Services.Spec(w)
	if spec == nil {
		return "", ""
	}
	policy, node := v.Services.Policy(w)
	switch s := spec.Snapshot.Service; {
	case v.Traffic.Target(w).Turns:
		return "", ""
	case pinsClients(v, w):
		return "sessionAffinity ClientIP",
			fmt.Sprintf("all connections from %s go to one Pod, and other clients' to others", v.Traffic.From(w))
	// none is nearer
	case slices.ContainsFunc(v.Addresses.HealthyOthers(w), func(p *model.Pod) bool {
		return p.Node == v.Services.RouterNode(w)
	}):
	case policy == evidence.LocalPolicy && v.Traffic.Target(w).RouteNode != "":
		return "externalTrafficPolicy Local",
			fmt.Sprintf("requests to %s go only to Pods on it, and those to other nodes to theirs", node)
	case policy == evidence.LocalPolicy:
		return "internalTrafficPolicy Local",
			fmt.Sprintf("requests from %s go only to Pods on it, and other nodes' to theirs", v.Traffic.From(w))
	case s.Distribution != "":
		return "trafficDistribution " + s.Distribution,
			fmt.Sprintf(
				"requests from %s go only to Pods near it while there are any, and those from elsewhere to others",
				v.Traffic.From(w))
	}
	return "", ""
}

// racePinned says that this prober saw only some of the Pods.
func racePinned(r *evidence.Race, v *evidence.Evidence, w *model.Window) string {
	setting, effect := narrowed(v, w)
	if setting == "" || !pinsClients(v, w) && (v.Traffic.Target(w).Kind != timeline.New ||
		!r.MoreThanTheirShare(v.Services, w)) {
		return ""
	}
	return "; with " + setting + " " + effect
}

// raceMeasures returns how long each Pod was routed to.
func raceMeasures(r *evidence.Race, v *evidence.Evidence, w *model.Window) []model.Measure {
	var all []model.Measure
	for _, s := range r.Stops {
		all = append(all, model.Measure{Name: model.RouteLag, Object: s.Pod.Name, Node: v.Services.RouterNode(w),
			Length: s.Lag()})
	}
	return all
}

// longestRouted returns the Pod with the longest proven lag.
func longestRouted(stops []*evidence.PodStop) *evidence.PodStop {
	return slices.MaxFunc(stops, func(a, b *evidence.PodStop) int {
		la, lb := a.Lag(), b.Lag()
		return cmp.Or(cmp.Compare(la.Min, lb.Min), cmp.Compare(lb.Max, la.Max))
	})
}

func raceText(r *evidence.Race, v *evidence.Evidence, w *model.Window) string {
	groups := r.Groups()
	if len(groups) == 1 {
		return raceGroupText(r, v, w, groups[0])
	}
	parts := make([]string, 0, len(groups))
	for _, g := range groups[:min(len(groups), rule.MostNamed)] {
		parts = append(parts, evidence.NamedStops(g)+" "+longestRouted(g).About())
	}
	more := ""
	if len(groups) > rule.MostNamed {
		more = fmt.Sprintf(", and %d more", len(groups)-rule.MostNamed)
	}
	return fmt.Sprintf("%s still led to %s after they %s: %s%s", v.Services.Routes(w),
		quantity.Count(len(r.Stops), "Pod"), r.Begun(v.Traffic, r.Stops), strings.Join(parts, ", "), more)
}

func raceGroupText(r *evidence.Race, v *evidence.Evidence, w *model.Window, g []*evidence.PodStop) string {
	if len(g) == 1 {
		return raceStopText(r, v, w, g[0]) + v.Endings.Why(g[0], r.As[g[0]])
	}
	what := quantity.Count(len(g), "endpoint")
	if peers := v.Services.Service(w).Peers(g); peers > 0 {
		what = fmt.Sprintf("%d of %d endpoints", len(g), peers)
	}
	return fmt.Sprintf("%s were taken away at once, and %s still led to them for %s after they %s: %s",
		what, v.Services.Routes(w), longestRouted(g).About(), r.Begun(v.Traffic, g), surelyNamed(g))
}

// surelyNamed names Pods, those without a proven lag apart from the others.
func surelyNamed(stops []*evidence.PodStop) string {
	var surely, perhaps []*evidence.PodStop
	for _, s := range stops {
		if s.Lag().Min > 0 {
			surely = append(surely, s)
		} else {
			perhaps = append(perhaps, s)
		}
	}
	if len(surely) == 0 || len(perhaps) == 0 {
		return evidence.NamedStops(stops)
	}
	return evidence.NamedStops(surely) + ", and perhaps " + evidence.NamedStops(perhaps)
}

func raceStopText(r *evidence.Race, v *evidence.Evidence, w *model.Window, s *evidence.PodStop) string {
	return fmt.Sprintf("%s still led to %s for %s after it %s", v.Services.Routes(w), s.Pod.Name, s.About(),
		r.Begun(v.Traffic, []*evidence.PodStop{s}))
}

// raceSigns returns what happened, in the order in which one thing led to the next.
func raceSigns(r *evidence.Race, v *evidence.Evidence, w *model.Window) []evidence.Sign {
	began := evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes))
	if len(r.Stops) == 1 {
		s := r.Stops[0]
		before, after := evidence.SignsOfEnd(v.Changes, s.Pod, s.At)
		return slices.Concat(evidence.Mention(before...), s.Signs(), []evidence.Sign{began}, evidence.Mention(after...))
	}
	var signs []evidence.Sign
	for _, s := range r.Stops[:min(len(r.Stops), rule.MostNamed)] {
		if at := s.Pod.EndpointNotReady; at != nil {
			signs = append(signs, evidence.Context.Event(v.Changes.IDOf(s.Pod, timeline.EndpointChanged, at), at,
				s.Pod.Name+" left the ready endpoints"))
		}
		signs = append(signs, s.Signs()...)
	}
	return append(signs, began)
}

// nothingAfter says that no request was certainly sent after a Pod had stopped: all of them may have been on their
// way when it exited, with its route as it should be.
func nothingAfter(r *evidence.Race, w *model.Window) []evidence.Sign {
	if slices.ContainsFunc(r.Stops, func(s *evidence.PodStop) bool {
		return s.Lag().Min > 0
	}) || len(evidence.TroubledIn(r.Troubled, w)) > 0 {
		return nil
	}
	if slices.ContainsFunc(r.Stops, func(s *evidence.PodStop) bool {
		return s.Stray && r.Last > s.At.Latest
	}) {
		return []evidence.Sign{evidence.Watched.Doubt("so many requests in a row were answered before that the route " +
			"had most likely gone: a lost packet fits as well")}
	}
	if len(r.Stops) > 1 {
		return []evidence.Sign{evidence.Measured.Doubt("no failed request was certainly sent to a stopped Pod")}
	}
	return []evidence.Sign{evidence.Measured.Doubt("no failed request was certainly sent after it had stopped: it " +
		"may have cut those under way when it exited")}
}

// fewTimeouts is how many connect timeouts may all be lost packets.
const fewTimeouts = 2

// lostPacket returns the doubt that a packet was lost: only a few connections timed out, and so long after a Pod's
// endpoint had left that routes have usually followed. A refusal is an answer.
func lostPacket(r *evidence.Race, w *model.Window) []evidence.Sign {
	for _, s := range r.Stops {
		if least := s.ProxyLag().Min; w.Failed <= fewTimeouts && evidence.Only(w.Classes, timeline.TimeoutConnect) &&
			least >= evidence.TooLate && s.Late() == "" && !s.Outside {
			return []evidence.Sign{evidence.Measured.Doubt(fmt.Sprintf("%s, ≥ %s after the endpoint of %s had left: "+
				"a lost packet fits as well", quantity.ClassCounts(w.Classes), quantity.Lowest(least), s.Pod.Name))}
		}
	}
	return nil
}

// raceOthers asks the other Pods' own addresses: if ready ones failed too, more was wrong than stale routes.
func raceOthers(r *evidence.Race, v *evidence.Evidence, w *model.Window, f *rule.Finding) {
	f.Oppose(evidence.AlsoTroubled(r.Troubled, w)...)
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, nil)...)...)
}

// raceShare compares how much failed with the share that the Pods had of the endpoints.
func raceShare(r *evidence.Race, v *evidence.Evidence, w *model.Window, f *rule.Finding) {
	if v.Traffic.Target(w).Kind != timeline.New {
		return
	}
	peers := v.Services.Service(w).Peers(r.Stops)
	if peers == 0 || v.Watches.LaneOff("endpointslice", w) {
		unknown := evidence.Measured.Doubt("how many endpoints were ready is not known: there may have been none")
		if w.Kind == model.Outage {
			unknown.Strength = evidence.Watched
		}
		f.Lack(unknown)
		return
	}
	dead := r.DeadAtOnce()
	expected := min(1, float64(dead)/float64(peers))
	upTo := ""
	if 1 < dead && dead < len(r.Stops) {
		upTo = "up to "
	}
	f.For = append(f.For,
		evidence.Context.Target(w.Target, nil, fmt.Sprintf("%d of %d requests failed (%s); %s%s of %d endpoints is %s",
			w.Failed, w.Sent, quantity.Percent(w.Share), upTo, rule.Number(dead), peers, quantity.Percent(expected))))
	if !r.MoreThanTheirShare(v.Services, w) {
		return
	}
	if setting, effect := narrowed(v, w); setting != "" {
		f.For = append(f.For, evidence.Context.Event(v.Services.Spec(w).ID, nil,
			fmt.Sprintf("the Service has %s: %s", setting, effect)))
		return
	}
	f.Oppose(rule.ByHowMuch(v, w,
		r.LeastShare(v.Services, w)).Doubt("more failed than the share of the endpoints that " +
		"had stopped"))
}

// raceFix says how long to keep serving: the longest time any route was seen to outlive a Pod of
// this Service in the run, plus a margin, plus what the Pod served already after its shutdown had begun.
func raceFix(v *evidence.Evidence, w *model.Window) (string, *model.Sleep) {
	worst := v.Routes.LongestLag(w)
	if worst.Stop == nil {
		return "", nil
	}
	margin := v.Run.Run.SleepMargin(worst.Length)
	served, lag := worst.Stop.ServedAfterKilling(), worst.Stop.Lag()
	faster := ""
	if worst.Stop.Outside {
		faster = "; its health checks, its deregistration delay or its TTL say how long that takes"
	}
	needs, limit := quantity.RoundUp(served+worst.Length+margin), ""
	r := v.Routes.Race(worst.Window)
	routed := raceStopText(&r, v, worst.Window, worst.Stop)
	switch grace, known := v.Changes.GivenGrace(worst.Stop.Pod); {
	case known && grace == 0:
		return fmt.Sprintf("%s: %s had 2 s at most, whatever it does at SIGTERM; %s",
			v.Templates.GiveGrace(worst.Stop.Pod), worst.Stop.Pod.Name, routed), nil
	case known && grace <= needs:
		limit = fmt.Sprintf("; its grace period of %s must be longer than that", quantity.Span(grace))
	}
	how, bySleep := v.Endings.ServeOn(worst.Stop, r.As[worst.Stop], needs)
	fix := fmt.Sprintf("%s: %s%s%s%s", how, routed, alreadyServed(served), faster, limit)
	if !bySleep {
		return fix, nil
	}
	return fix, &model.Sleep{
		Pod:      worst.Stop.Pod.Name,
		PodUID:   worst.Stop.Pod.UID,
		Measured: served + worst.Length,
		Bounds:   model.Length{Min: served + lag.Min, Max: served + lag.Max},
		Margin:   margin,
	}
}

func alreadyServed(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", which was %s after its shutdown had begun", quantity.Span(d))
}
