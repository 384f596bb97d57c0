package causes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

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

var routeOutlivesPod = Rule{
	Name: "route-outlives-pod",
	Doc:  "A Pod stopped, or failed as it ended, before the prober's node stopped routing to it.",
	Looks: `A Pod is deleted. Its own address (row "direct") stops answering, and for some milliseconds or seconds the node still
routes to it. About one request in N fails, where N is the number of endpoints; the other Pods answer. If several Pods
stop, as in a rolling restart, each is named with its own lag (how long it was routed to after it had stopped): "950
ms ±40" is measured; "≥ 784 ms" is a lower bound, because later failures may be another Pod's; "≤ 780 ms" is only an
upper bound. A Pod that ends need not refuse: it may answer with errors, or accept connections and not answer. Requests
count that failed as its own address did then. The confidence is at most *medium* then if another ready Pod's address
was not asked, and *low* if it had failed so before.
` + "`causes[].measures`" + ` in timeline.json has them. If the measured URL is not the Service's own address, something behind the URL does the routing (a load balancer, an ingress or DNS): no node is named, and the confidence is at most *medium*. [How they are computed](../decisions/0012-whose-stale-route.md).`,
	Fix:   "Keep serving after SIGTERM for at least the time in the incident's fix: a preStop sleep, or a delay before the server shuts down.",
	Needs: []Need{podsWatched},
	Test:  testRouteOutlivesPod,
}

func testRouteOutlivesPod(c *Case) Finding {
	v, w := c.index, c.Window
	r := v.raceIn(w)
	if len(r.stops) == 0 {
		return no(r.whyNot)
	}
	if s := r.latest(); s != nil {
		return no(fmt.Sprintf("the route to %s was changed so late that no Pod can be expected to serve for as long", s.pod.Name))
	}
	if _, stops := r.failedHooks(v); len(stops) > 0 {
		return no(fmt.Sprintf("the preStop hook of %s failed, which was to keep it serving", stops[0].pod.Name))
	}
	f := Finding{For: r.signs(v, w), Text: r.text(v, w) + r.pinned(v, w), Fix: raceFix(v, w), Measures: r.measures(v, w)}
	r.others(v, w, &f)
	r.share(v, w, &f)
	for _, s := range r.stops {
		if in := v.endedInParts(s); in != nil && !in.forced && (in.serves || !in.known || r.as[s].most() == answersErrors) {
			f.against(doubt(Close, fmt.Sprintf("%s of %s ran on for ≥ %s: only %s had ended", in.last, s.pod.Name, quantity.Lowest(in.apart), in.first)))
		}
	}
	f.explains(w, r.explained)
	if i := slices.IndexFunc(r.stops, (*podStop).unclear); i >= 0 {
		s := r.stops[i]
		unclear := quantity.Lowest(s.lag().Min)
		if s.published {
			f.Fix = fmt.Sprintf("set publishNotReadyAddresses of the Service to false: it kept the endpoint of %s for ≥ %s after the Pod had stopped", s.pod.Name, unclear)
			return f
		}
		f.Fix = fmt.Sprintf("find out who was late with the route to %s, the EndpointSlice or %s: no Pod can be expected to serve for ≥ %s after SIGTERM", s.pod.Name, v.router(w), unclear)
		if gap := c.silence(c.Window); gap != nil {
			f.Fix += "; meanwhile " + gap.Detail + ", and no route could be changed"
		}
		f.missing(doubt(Measured, fmt.Sprintf("whether the EndpointSlice or %s was late is not known", v.router(w))))
	}
	if host := v.outside(w); host != "" {
		f.missing(doubt(Measured, fmt.Sprintf("what leads requests from %s to the Pods is not watched: a change there fits as well", host)))
	}
	f.missing(unmeasuredStops(r.stops)...)
	f.missing(r.unseenEnds(v)...)
	if v.keepsPorts(w) && v.episodeOf(w).fresh == nil {
		f.missing(doubt(Measured, "no datagrams from fresh source ports were measured beside: whether the routes or entries of connection tracking were stale is not known"))
	}
	f.missing(r.nothingAfter(w)...)
	f.against(r.notTheirs()...)
	f.missing(r.notProbed(v, w)...)
	f.against(r.failedBefore(v, w)...)
	if r.lost == 0 {
		for _, s := range r.stops {
			f.against(notKilled(s.pod)...)
		}
	}
	return f
}

// pinsClients reports whether the Service sends all connections of a client to one Pod.
func (v *index) pinsClients(w *model.Window) bool {
	spec := v.serviceSpec(w)
	return spec != nil && spec.Snapshot.Service.Affinity == "ClientIP" && !v.target(w).Turns
}

// narrowed is the setting by which the Service leads the window's requests to some of its endpoints only, and what
// that means; "" if it has none.
func (v *index) narrowed(w *model.Window) (setting, effect string) {
	spec := v.serviceSpec(w)
	if spec == nil {
		return "", ""
	}
	policy, node := v.policy(w)
	switch s := spec.Snapshot.Service; {
	case v.target(w).Turns:
		return "", ""
	case v.pinsClients(w):
		return "sessionAffinity ClientIP", fmt.Sprintf("all connections from %s go to one Pod, and other clients' to others", v.from(w))
	case slices.ContainsFunc(v.healthyOthers(w), func(p *model.Pod) bool { return p.Node == v.routerNode(w) }): // none is nearer
	case policy == localPolicy && v.target(w).RouteNode != "":
		return "externalTrafficPolicy Local", fmt.Sprintf("requests to %s go only to Pods on it, and those to other nodes to theirs", node)
	case policy == localPolicy:
		return "internalTrafficPolicy Local", fmt.Sprintf("requests from %s go only to Pods on it, and other nodes' to theirs", v.from(w))
	case s.Distribution != "":
		return "trafficDistribution " + s.Distribution, fmt.Sprintf("requests from %s go only to Pods near it while there are any, and those from elsewhere to others", v.from(w))
	}
	return "", ""
}

// pinned says that this prober saw only some of the Pods.
func (r *race) pinned(v *index, w *model.Window) string {
	setting, effect := v.narrowed(w)
	if setting == "" || !v.pinsClients(w) && (v.target(w).Kind != timeline.New || !r.moreThanTheirShare(v, w)) {
		return ""
	}
	return "; with " + setting + " " + effect
}

// measures are for how long each Pod was routed to.
func (r *race) measures(v *index, w *model.Window) []model.Measure {
	var all []model.Measure
	for _, s := range r.stops {
		all = append(all, model.Measure{Name: model.RouteLag, Object: s.pod.Name, Node: v.routerNode(w), Length: s.lag()})
	}
	return all
}

// longestRouted is the Pod of which the longest lag is proven.
func longestRouted(stops []*podStop) *podStop {
	return slices.MaxFunc(stops, func(a, b *podStop) int {
		la, lb := a.lag(), b.lag()
		return cmp.Or(cmp.Compare(la.Min, lb.Min), cmp.Compare(lb.Max, la.Max))
	})
}

func (r *race) text(v *index, w *model.Window) string {
	groups := r.groups()
	if len(groups) == 1 {
		return r.groupText(v, w, groups[0])
	}
	parts := make([]string, 0, len(groups))
	for _, g := range groups[:min(len(groups), mostNamed)] {
		parts = append(parts, namedStops(g)+" "+longestRouted(g).about())
	}
	more := ""
	if len(groups) > mostNamed {
		more = fmt.Sprintf(", and %d more", len(groups)-mostNamed)
	}
	return fmt.Sprintf("%s still routed to %s after they %s: %s%s", v.router(w), quantity.Count(len(r.stops), "Pod"), r.begun(v, r.stops), strings.Join(parts, ", "), more)
}

func (r *race) groupText(v *index, w *model.Window, g []*podStop) string {
	if len(g) == 1 {
		return r.stopText(v, w, g[0]) + v.why(g[0], r.as[g[0]])
	}
	what := quantity.Count(len(g), "endpoint")
	if peers := v.service(w).peers(g); peers > 0 {
		what = fmt.Sprintf("%d of %d endpoints", len(g), peers)
	}
	return fmt.Sprintf("%s were taken away at once, and %s still routed to them for %s after they %s: %s",
		what, v.router(w), longestRouted(g).about(), r.begun(v, g), surelyNamed(g))
}

// surelyNamed names Pods, and tells those of which no lag is proven from the others.
func surelyNamed(stops []*podStop) string {
	var surely, perhaps []*podStop
	for _, s := range stops {
		if s.lag().Min > 0 {
			surely = append(surely, s)
		} else {
			perhaps = append(perhaps, s)
		}
	}
	if len(surely) == 0 || len(perhaps) == 0 {
		return namedStops(stops)
	}
	return namedStops(surely) + ", and perhaps " + namedStops(perhaps)
}

func (r *race) stopText(v *index, w *model.Window, s *podStop) string {
	return fmt.Sprintf("%s still routed to %s for %s after it %s", v.router(w), s.pod.Name, s.about(), r.begun(v, []*podStop{s}))
}

// signs are what happened, in the order in which one thing led to the next.
func (r *race) signs(v *index, w *model.Window) []Sign {
	began := Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched}
	if len(r.stops) == 1 {
		s := r.stops[0]
		before, after := signsOfEnd(v, s.pod, s.at)
		return slices.Concat(context(before...), s.signs(), []Sign{began}, context(after...))
	}
	var signs []Sign
	for _, s := range r.stops[:min(len(r.stops), mostNamed)] {
		if at := s.pod.EndpointNotReady; at != nil {
			signs = append(signs, context(model.Evidence{Event: v.changeOf(s.pod, timeline.EndpointChanged, at), At: at, Text: s.pod.Name + " left the ready endpoints"})...)
		}
		signs = append(signs, s.signs()...)
	}
	return append(signs, began)
}

// nothingAfter says that no request was certainly sent after a Pod had stopped: all of them may have been on their
// way when it exited, with its route as it should be.
func (r *race) nothingAfter(w *model.Window) []Sign {
	if slices.ContainsFunc(r.stops, func(s *podStop) bool { return s.lag().Min > 0 }) || len(troubledIn(r.troubled, w)) > 0 {
		return nil
	}
	if len(r.stops) > 1 {
		return []Sign{doubt(Measured, "of none of the Pods is it certain that a failed request was sent to it after it had stopped")}
	}
	return []Sign{doubt(Measured, "no failed request was certainly sent after it had stopped: it may have cut those under way when it exited")}
}

// others asks the other Pods' own addresses: if ready ones failed too, more was wrong than stale routes.
func (r *race) others(v *index, w *model.Window, f *Finding) {
	f.against(alsoTroubled(r.troubled, w)...)
	f.For = append(f.For, context(v.othersAnswered(w, nil)...)...)
}

// share compares how much failed with the share that the Pods had of the endpoints.
func (r *race) share(v *index, w *model.Window, f *Finding) {
	if v.target(w).Kind != timeline.New {
		return
	}
	peers := v.service(w).peers(r.stops)
	if peers == 0 || v.laneOff("endpointslice", w) {
		unknown := doubt(Measured, "how many endpoints were ready is not known: that there was none fits as well")
		if w.Kind == model.Outage {
			unknown.Strength = Watched
		}
		f.missing(unknown)
		return
	}
	dead := r.deadAtOnce()
	expected := min(1, float64(dead)/float64(peers))
	upTo := ""
	if 1 < dead && dead < len(r.stops) {
		upTo = "up to "
	}
	f.For = append(f.For, context(model.Evidence{Target: w.Target, Text: fmt.Sprintf("%d of %d requests failed (%s); %s%s of %d endpoints is %s",
		w.Failed, w.Sent, quantity.Percent(w.Share), upTo, number(dead), peers, quantity.Percent(expected))})...)
	if !r.moreThanTheirShare(v, w) {
		return
	}
	if setting, effect := v.narrowed(w); setting != "" {
		f.For = append(f.For, context(model.Evidence{Event: v.serviceSpec(w).ID, Text: fmt.Sprintf("the Service has %s: %s", setting, effect)})...)
		return
	}
	f.against(doubt(v.byHowMuch(w, r.leastShare(v, w)), "more failed than the share of the endpoints that had stopped"))
}

// raceFix says how long to keep serving: the longest time any route was seen to outlive a Pod of
// this Service in the run, plus a margin, plus what the Pod served already after its shutdown had begun.
func raceFix(v *index, w *model.Window) string {
	worst := v.longestLag(w)
	if worst.stop == nil {
		return ""
	}
	margin := max(routeMargin, worst.length/4)
	served := worst.stop.servedAfterKilling()
	faster := ""
	if worst.stop.outside {
		faster = "; its health checks, its deregistration delay or its TTL say how long that takes"
	}
	needs, limit := quantity.RoundUp(served+worst.length+margin), ""
	r := v.raceIn(worst.window)
	routed := r.stopText(v, worst.window, worst.stop)
	switch grace, known := v.givenGrace(worst.stop.pod); {
	case known && grace == 0:
		return fmt.Sprintf("%s: %s had 2 s at most, whatever it does at SIGTERM; %s", v.giveGrace(worst.stop.pod), worst.stop.pod.Name, routed)
	case known && grace <= needs:
		limit = fmt.Sprintf("; its grace period of %s must be longer than that", quantity.Span(grace))
	}
	return fmt.Sprintf("%s: %s%s%s%s", v.serveOn(worst.stop, r.as[worst.stop], needs), routed, alreadyServed(served), faster, limit)
}

func alreadyServed(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", which was %s after its shutdown had begun", quantity.Span(d))
}
