package causes

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// This file bounds for how long a node routed to Pods after they had stopped.
//
// A failed request was sent over a route to a Pod that had stopped. Which one that was, it does not tell where
// several had. But a node takes endpoints out in the order in which they left their EndpointSlice: while the one that
// left first is still routed to, so are all that left after it. So each failure proves how long the route to the last
// of them lived:
//
//	a stopped    |
//	b stopped    .     .  |
//	requests     x  .  x  .  x  x  .  x  .  .  .  .  .  .
//	             └──── a ─┘  └─── b ──┘     └ k successes in a row: the routes are gone
//
// Of b it is proven. Of a it is proven up to b's stop, and possible as long as b's.

// routeMargin is added to the longest time a route was seen to outlive its Pod. One drain is one
// sample: kube-proxy gathers changes for up to its minSyncPeriod, 1 s by default, before it
// rewrites the routes (kubernetes/kubernetes#92836), and how much of that a Pod's end meets is luck.
const routeMargin = time.Second

// An episode is a window with those that are near it, of all targets that go over the same routes. So what is found
// does not depend on how windows are joined.
type episode struct {
	view     *index
	w        *model.Window // the first
	span     model.Instant
	routes   int             // endpoints that the node can have had routes to
	k        int             // successes in a row that prove that the route to one of them is gone
	fresh    *model.Target   // of kind new; nil if there is none
	windows  []*model.Window // all of them
	failures []model.Failure // of requests that a stale route can have made fail
	stops    []*podStop      // of ending Pods, as they stopped
	whyNot   string          // why there are none
	troubled []trouble
}

// apart is how far windows of one episode lie apart at most: as far as runs of failures in one window do by default.
const apart = time.Second

func (v *index) episodeOf(w *model.Window) *episode {
	if e := v.episodes[w]; e != nil {
		return e
	}
	t := v.target(w)
	var alike []*model.Window
	for i := range v.Run.Windows {
		if other := &v.Run.Windows[i]; other.Kind != model.Slow && v.shareRoutes(v.target(other), t) {
			alike = append(alike, other)
		}
	}
	slices.SortStableFunc(alike, func(a, b *model.Window) int { return cmp.Compare(a.Start.Earliest, b.Start.Earliest) })
	var e *episode
	var all []*episode
	for _, other := range alike {
		if e == nil || other.Start.Earliest > e.span.Latest+apart {
			e = &episode{view: v, w: other, span: other.Span()}
			all = append(all, e)
		}
		e.span.Latest = max(e.span.Latest, other.End.Latest)
		v.episodes[other], e.windows = e, append(e.windows, other)
	}
	for i := range v.Run.Targets {
		if fresh := &v.Run.Targets[i]; fresh.Kind == timeline.New && v.shareRoutes(fresh, t) {
			for _, e := range all {
				e.fresh = fresh
			}
		}
	}
	for _, e := range all {
		e.judge()
	}
	return v.episodes[w]
}

func (e *episode) judge() {
	e.routes = e.view.routesIn(e.w, e.span)
	e.k = windows.InARow(e.routes)
	e.findStops()
	e.findFailures()
	e.findTrouble()
	e.bound()
}

// findFailures finds the failures that a stale route can have made: of requests that got no connection, and of others
// that got one and failed as a Pod's own address did while it ended.
func (e *episode) findFailures() {
	for _, w := range e.windows {
		if e.view.keepsPorts(w) {
			continue // which endpoint they go to, the routes of that time do not say
		}
		last := lastRoutable(e.view, w)
		for _, f := range e.view.undelivered(w) {
			if f.Earliest() <= last && (windows.Unconnected(f.Class) || routedAnew(&f) && len(e.candidates(&f)) > 0) {
				e.failures = append(e.failures, f)
			}
		}
	}
	slices.SortStableFunc(e.failures, func(a, b model.Failure) int { return cmp.Compare(a.Sent, b.Sent) })
}

// routedAnew reports whether a request was to open a connection, or opened one: one that was kept tells nothing of
// routes.
func routedAnew(f *model.Failure) bool { return !f.Reused || windows.Unconnected(f.Class) }

// lastRoutable is the last instant at which a request can have been sent that a stale route made fail: once no
// endpoint is left, failures have another cause.
func lastRoutable(v *index, w *model.Window) time.Duration {
	last := model.Never
	for _, empty := range v.unrouted(w) {
		if empty.whole().Overlaps(w.Span()) {
			last = min(last, max(empty.start.Latest, w.Start.Latest))
		}
	}
	return last
}

// routesIn is how many endpoints the node can have had routes to at most: as many as were ready at one time, or
// before one of those left that the node may still route to. A node that follows late has the routes of back then.
func (v *index) routesIn(w *model.Window, at model.Instant) int {
	svc := v.service(w)
	n := svc.mostReady(at.Earliest-cluster.WatchLag, at.Latest)
	for i, left := range svc.leaves {
		if left.Seen <= at.Latest {
			n = max(n, svc.before[i])
		}
	}
	if n == 0 || v.laneOff("endpointslice", w) {
		return max(n, len(v.pods(w)))
	}
	return n
}

// arrived is when the first packet of a request that got no connection had arrived at the latest, or was lost.
func arrived(f *model.Failure) time.Duration {
	return windows.Arrival(f.Class, f.Sent, f.Done) + f.Error
}

// reach is by how much the first failure can follow a stop: requests met other routes before. A persistent connection
// notices that its Pod stopped when it is used next.
func (e *episode) reach(t *model.Target) time.Duration {
	if t.Rate <= 0 {
		return 0
	}
	n := 2 * e.k
	if t.Kind == timeline.Reused {
		n = nextUse(t)
	}
	return time.Duration(float64(n) / t.Rate * float64(time.Second))
}

// findStops finds the ending Pods that stopped when failures can be their doing, as they stopped.
func (e *episode) findStops() {
	e.whyNot = "no Pod was ending"
	for _, p := range e.view.pods(e.w) {
		if !p.TerminatingBy(e.span.Latest) {
			continue
		}
		s := e.stopOf(p)
		switch {
		case s == nil:
			e.whyNot = p.Name + " was ending, but did not stop"
		case !e.view.wasEndpoint(e.w, p, s.at.Latest):
			e.whyNot = p.Name + " was ending, and had never been a ready endpoint"
		case e.wasLast(p):
			e.whyNot = p.Name + " was the last endpoint, and there was no other to route to"
		default:
			e.stops = append(e.stops, s)
		}
	}
	slices.SortStableFunc(e.stops, func(a, b *podStop) int {
		return cmp.Or(cmp.Compare(a.at.Earliest, b.at.Earliest), cmp.Compare(a.at.Latest, b.at.Latest))
	})
}

// wasLast reports whether no endpoint was left by the update that turned the Pod's own away.
func (e *episode) wasLast(p *model.Pod) bool {
	svc := e.view.service(e.w)
	order, left := svc.order[p.UID]
	for _, empty := range e.view.unrouted(e.w) {
		together := left && svc.leaves[order].Seen == empty.last.Seen
		if (together || empty.last.Object.UID == p.UID) && empty.whole().Overlaps(e.span) {
			return true
		}
	}
	return false
}

// stopOf is the Pod's stop, nil if it did not stop about the window. A Pod whose own address was probed and went on
// answering is cleared; without a probe, it stopped between its deletion and its exit.
func (e *episode) stopOf(p *model.Pod) *podStop {
	probe := e.view.probe(e.w, p)
	s := &podStop{pod: p, target: probe.target, order: -1, routed: -1, gone: model.Never, quiet: true}
	fails := e.view.endFailures(e.w, p)
	reach := e.reach(e.view.target(e.w))
	first := slices.IndexFunc(fails, func(f endFailure) bool {
		return !f.again || f.outage.End.Latest+reach >= e.span.Earliest
	})
	switch {
	case first >= 0 && fails[first].from.Earliest <= e.span.Latest:
		s.fails, s.target = fails[first:], fails[first].target
		s.at, s.known, s.proved = s.fails[0].from, s.fails[0].outage.Start.Latest, true
		s.answered = e.view.answeredBadly(s)
		u := s.fails[0].outage
		s.quiet = !s.fails[0].again && (e.view.datagrams(e.w) || only(u.Classes, append(cutClasses[:2:2], unconnected...)...))
	case probe.stopped != nil:
		s.at, s.proved = *probe.stopped, true
	case probe.lastOK != nil && *probe.lastOK > e.span.Latest:
		return nil
	default:
		at, known := stopByWatch(p)
		if !known {
			return nil
		}
		if probe.lastOK != nil {
			cluster.NotBefore(&at, *probe.lastOK)
		}
		s.at, s.exited = at, p.Exited != nil
	}
	if s.at.Latest+reach < e.span.Earliest || s.at.Earliest > e.span.Latest {
		return nil
	}
	s.published, _ = e.view.publishes(e.w)
	s.unwatched = e.view.laneOff("endpointslice", e.w)
	s.outside = e.view.outside(e.w) != ""
	svc := e.view.service(e.w)
	if order, known := svc.order[p.UID]; known {
		s.order, s.left = order, svc.leaves[order].Seen
	}
	return s
}

// bound bounds until when each Pod was routed to.
func (e *episode) bound() {
	for _, s := range e.stops {
		s.gone = min(e.goneBy(s, e.failures), s.until(), e.view.end())
	}
	e.inOrderOfLeaving()
	for i := range e.failures {
		f := &e.failures[i]
		if e.doubtful(f) {
			continue
		}
		for _, s := range lastToLeave(e.candidates(f)) {
			s.routed = max(s.routed, f.Earliest())
		}
	}
	for i := range e.failures {
		f := &e.failures[i]
		for _, s := range e.candidates(f) {
			s.shared = s.shared || f.Earliest() > s.routed
		}
	}
}

// goneBy is when k requests in a row had succeeded since the Pod had stopped and since the last of these failures
// that was its own: one before another Pod's stop, and not after so many successes that the route was gone for sure.
// Only requests that open a connection tell.
//
// Right after that failure, k successes in a row prove it. Where other failures follow, each begins another try to
// have so many by chance: more are needed with each.
func (e *episode) goneBy(s *podStop, failures []model.Failure) time.Duration {
	if e.fresh == nil {
		return model.Never
	}
	streaks := e.view.probed(e.fresh).Streaks
	routes := int(math.Ceil(float64(e.routes) / s.share())) // a Pod that answers some makes successes of its own
	own := streaks.Proof(3*windows.InARow(routes), s.at.Latest)
	for _, other := range e.stops {
		if other.at.Earliest > s.at.Latest {
			own = min(own, other.at.Earliest)
		}
	}
	from := s.at.Latest
	var others []model.Failure
	for i := range failures {
		switch f := &failures[i]; {
		case !s.canHaveMade(f):
		case f.Earliest() < own:
			from = max(from, f.Sent+f.Error)
		default:
			others = append(others, *f)
		}
	}
	for i := range others {
		if gone := streaks.Proof(windows.InARowOfTries(routes, i), from); gone <= others[i].Earliest() {
			return gone
		}
		from = max(from, others[i].Sent+others[i].Error)
	}
	return streaks.Proof(windows.InARowOfTries(routes, len(others)), from)
}

// inOrderOfLeaving says of each Pod that its route was gone when that of one was gone which left with it or later.
//
// Where requests failed by the route to s after the successes that seemed to show that a later one's was gone, these
// were chance: that route stood as long.
func (e *episode) inOrderOfLeaving() {
	for _, s := range e.stops {
		for _, later := range e.stops {
			if s.order >= 0 && later.order > s.order && later.gone <= s.at.Latest && e.onlyBy(s) {
				later.gone = max(later.gone, s.gone)
			}
		}
	}
	for _, s := range e.stops {
		for _, later := range e.stops {
			if s.order >= 0 && later.order >= s.order && later.gone > s.at.Latest {
				s.gone = min(s.gone, later.gone)
			}
		}
	}
}

// onlyBy reports whether a request failed that can have been routed to no other Pod that had stopped than s.
func (e *episode) onlyBy(s *podStop) bool {
	return slices.ContainsFunc(e.failures, func(f model.Failure) bool {
		all := e.candidates(&f)
		return f.Earliest() > s.at.Latest && len(all) == 1 && all[0] == s
	})
}

// candidates are the stops of the Pods to which f can have been routed.
func (e *episode) candidates(f *model.Failure) []*podStop {
	var all []*podStop
	for _, s := range e.stops {
		if s.canHaveMade(f) {
			all = append(all, s)
		}
	}
	return all
}

// lastToLeave are those of the Pods whose endpoints left last, in one update. Where that is not known of one, a lone
// Pod is it, and of several none.
func lastToLeave(stops []*podStop) []*podStop {
	if len(stops) < 2 {
		return stops
	}
	last := slices.MaxFunc(stops, func(a, b *podStop) int { return cmp.Compare(a.order, b.order) }).order
	var found []*podStop
	for _, s := range stops {
		switch s.order {
		case -1:
			return nil
		case last:
			found = append(found, s)
		}
	}
	return found
}

// findTrouble finds the Pods that failed at their own addresses while they were ready, where that was not their end.
func (e *episode) findTrouble() {
	for _, p := range e.view.pods(e.w) {
		for _, t := range e.view.directOf(e.w, p) {
			for i := range e.view.probed(t).Outages {
				u := &e.view.probed(t).Outages[i]
				if u.Kind != model.Slow && u.Span().Overlaps(e.span) && !e.view.canBeItsEnd(p, t, u) && p.ReadyWithin(u.Start.Latest, u.End.Earliest) {
					e.troubled = append(e.troubled, trouble{p, u})
				}
			}
		}
	}
}

// doubtful reports whether f may have been routed to a Pod that was ready and failed all the same.
func (e *episode) doubtful(f *model.Failure) bool {
	return slices.ContainsFunc(e.troubled, func(t trouble) bool {
		return t.window.Start.Earliest <= arrived(f) && f.Earliest() <= t.window.End.Latest
	})
}

// madeByTrouble reports whether a Pod that was ready failed at its own address as f did, at that time.
func (e *episode) madeByTrouble(f *model.Failure) bool {
	class := f.Class
	if class == timeline.TimeoutConnect && e.view.datagrams(e.w) {
		class = timeline.TimeoutResponse
	}
	return slices.ContainsFunc(e.troubled, func(t trouble) bool {
		return t.window.Classes[class.String()] > 0 && t.window.Start.Earliest <= arrived(f) && f.Earliest() <= t.window.End.Latest
	})
}
