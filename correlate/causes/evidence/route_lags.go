package evidence

import (
	"cmp"
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file bounds how long a node routed to Pods after they had stopped.
//
// A failed request was sent over a route to a Pod that had stopped; if several had, it does not show which. But a node
// takes endpoints out in the order in which they left their EndpointSlice: while the one that left first is still
// routed to, so are all that left after it. So each failure proves how long the route to the last of them lived:
//
//	a stopped    |
//	b stopped    .     .  |
//	requests     x  .  x  .  x  x  .  x  .  .  .  .  .  .
//	             └──── a ─┘  └─── b ──┘     └ k successes in a row: the routes are gone
//
// For b this is proven. For a it is proven up to b's stop, and possible for as long as b's.

// Routes is the requests that were routed to Pods which had stopped.
type Routes struct {
	*Input
	traffic   *Traffic
	watches   *Watches
	services  *Services
	addresses *Addresses
	endings   *Endings
	races     map[*model.Window]Race
	episodes  map[*model.Window]*Episode
	longest   map[*Service]LongestLag
}

// An Episode is a window and those near it, of all targets that use the same routes. So findings do not depend on how
// windows are joined.
type Episode struct {
	view     *Routes
	w        *model.Window // the first
	span     model.Instant
	routes   int             // endpoints that the node can have had routes to
	k        int             // successes in a row that prove that the route to one of them is gone
	Fresh    *model.Target   // of kind new; nil if there is none
	windows  []*model.Window // all of them
	Failures []model.Failure // of requests that a stale route can have made fail
	Stops    []*PodStop      // of ending Pods, as they stopped
	WhyNot   string          // why there are none
	Troubled []trouble
}

func (v *Routes) Episode(w *model.Window) *Episode {
	if e := v.episodes[w]; e != nil {
		return e
	}
	t := v.traffic.Target(w)
	var alike []*model.Window
	for i := range v.Run.Windows {
		if other := &v.Run.Windows[i]; other.Kind != model.Slow && v.traffic.ShareRoutes(v.traffic.Target(other), t) {
			alike = append(alike, other)
		}
	}
	slices.SortStableFunc(alike, func(a, b *model.Window) int {
		return cmp.Compare(a.Start.Earliest, b.Start.Earliest)
	})
	var e *Episode
	var all []*Episode
	for _, other := range alike {
		if e == nil || other.Start.Earliest > e.span.Latest+apart {
			e = &Episode{view: v, w: other, span: other.Span()}
			all = append(all, e)
		}
		e.span.Latest = max(e.span.Latest, other.End.Latest)
		v.episodes[other], e.windows = e, append(e.windows, other)
	}
	for i := range v.Run.Targets {
		if fresh := &v.Run.Targets[i]; fresh.Kind == timeline.New && v.traffic.ShareRoutes(fresh, t) {
			for _, e := range all {
				e.Fresh = fresh
			}
		}
	}
	for _, e := range all {
		e.judge()
	}
	return v.episodes[w]
}

func (e *Episode) judge() {
	e.routes = e.view.services.routesIn(e.w, e.span)
	e.k = windows.InARow(e.routes)
	e.findStops()
	e.findFailures()
	e.findTrouble()
	e.bound()
}

// findFailures finds the failures that a stale route can explain: requests that got no connection, and requests that
// failed as a Pod's own address did while it ended.
func (e *Episode) findFailures() {
	for _, w := range e.windows {
		if e.view.traffic.KeepsPorts(w) {
			continue // which endpoint they go to, the routes of that time do not say
		}
		last := lastRoutable(e.view.services, w)
		for _, f := range e.view.traffic.Undelivered(w) {
			if f.Earliest() <= last && (windows.Unconnected(f.Class) || routedAnew(&f) && len(e.candidates(&f)) > 0) {
				e.Failures = append(e.Failures, f)
			}
		}
	}
	slices.SortStableFunc(e.Failures, func(a, b model.Failure) int { return cmp.Compare(a.Sent, b.Sent) })
}

// routedAnew reports whether a request had to open a connection: one on a kept connection says nothing about routes.
func routedAnew(f *model.Failure) bool { return !f.Reused || windows.Unconnected(f.Class) }

// lastRoutable returns the last instant at which a stale route can explain a failed request: once no endpoint is left,
// failures have another cause.
func lastRoutable(v *Services, w *model.Window) time.Duration {
	last := model.Never
	for _, empty := range v.Unrouted(w) {
		if empty.Whole().Overlaps(w.Span()) {
			last = min(last, max(empty.Start.Latest, w.Start.Latest))
		}
	}
	return last
}

// reach returns how long after a stop the first failure can come: requests may take other routes first, and a
// persistent connection fails only when it is used next.
func (e *Episode) reach(t *model.Target) time.Duration {
	n := 2 * e.k
	if t.Kind == timeline.Reused {
		n = NextUse(t)
	}
	return e.view.traffic.Uses(t, n, e.w.Start.Earliest)
}

// findStops finds the ending Pods whose stop can explain failures, in the order in which they stopped.
func (e *Episode) findStops() {
	e.WhyNot = "no Pod was ending"
	for _, p := range e.view.services.Pods(e.w) {
		if !p.TerminatingBy(e.span.Latest) {
			continue
		}
		s := e.stopOf(p)
		switch {
		case s == nil:
			e.WhyNot = p.Name + " was ending, but did not stop"
		case !e.view.services.WasEndpoint(e.w, p, s.At.Latest):
			e.WhyNot = p.Name + " was ending, and had never been a ready endpoint"
		case e.wasLast(p):
			e.WhyNot = p.Name + " was the last endpoint, and there was no other to route to"
		default:
			e.Stops = append(e.Stops, s)
		}
	}
	slices.SortStableFunc(e.Stops, func(a, b *PodStop) int {
		return cmp.Or(cmp.Compare(a.At.Earliest, b.At.Earliest), cmp.Compare(a.At.Latest, b.At.Latest))
	})
}

// wasLast reports whether the update that took the Pod's endpoint away left no endpoint.
func (e *Episode) wasLast(p *model.Pod) bool {
	svc := e.view.services.Service(e.w)
	order, left := svc.order[p.UID]
	for _, empty := range e.view.services.Unrouted(e.w) {
		together := left && svc.leaves[order].Seen == empty.Last.Seen
		if (together || empty.Last.Object.UID == p.UID) && empty.Whole().Overlaps(e.span) {
			return true
		}
	}
	return false
}

// stopOf returns the Pod's stop, nil if it did not stop near the window. A Pod whose own address went on answering did
// not stop; without a probe, it stopped between its deletion and its exit.
func (e *Episode) stopOf(p *model.Pod) *PodStop {
	probe := e.view.addresses.Probe(e.w, p)
	s := &PodStop{Pod: p, Target: probe.Target, order: -1, routed: -1, gone: model.Never, Quiet: true}
	fails := e.view.endings.EndFailures(e.w, p)
	reach := e.reach(e.view.traffic.Target(e.w))
	first := slices.IndexFunc(fails, func(f endFailure) bool {
		return !f.Again || f.Outage.End.Latest+reach >= e.span.Earliest
	})
	switch {
	case first >= 0 && fails[first].From.Earliest <= e.span.Latest:
		s.fails, s.Target = fails[first:], fails[first].Target
		s.At, s.known, s.Proved = s.fails[0].From, s.fails[0].Outage.Start.Latest, true
		s.answered = e.view.endings.answeredBadly(s)
		u := s.fails[0].Outage
		s.Quiet = !s.fails[0].Again && (e.view.traffic.Datagrams(e.w) ||
			Only(u.Classes, append(CutClasses[:2:2], unconnected...)...))
	case probe.Stopped != nil:
		s.At, s.Proved = *probe.Stopped, true
	case probe.LastOK != nil && *probe.LastOK > e.span.Latest:
		return nil
	default:
		at, known := e.view.endings.stopByWatch(p)
		if !known {
			return nil
		}
		if probe.LastOK != nil {
			cluster.NotBefore(&at, *probe.LastOK)
		}
		s.At, s.exited = at, p.Exited != nil
	}
	if s.At.Latest+reach < e.span.Earliest || s.At.Earliest > e.span.Latest {
		return nil
	}
	s.Published, _ = e.view.services.Publishes(e.w)
	s.unwatched = e.view.watches.LaneOff("endpointslice", e.w)
	s.Outside = e.view.services.Outside(e.w) != ""
	svc := e.view.services.Service(e.w)
	if order, known := svc.order[p.UID]; known {
		s.order, s.left = order, svc.leaves[order].Seen
		if !s.unwatched {
			s.Alone = aloneUntil(e.view.services.reachable(e.w), p.UID, s.left)
		}
	}
	return s
}

// bound bounds how long each Pod was routed to.
func (e *Episode) bound() {
	for _, s := range e.Stops {
		s.gone = min(e.GoneBy(s, e.Failures), s.until(), e.view.traffic.End())
	}
	e.inOrderOfLeaving()
	e.findRouted()
	for i := range e.Failures {
		f := &e.Failures[i]
		for _, s := range e.candidates(f) {
			s.shared = s.shared || f.Earliest() > s.routed
		}
	}
}

// findRouted finds the last failure that proves that each Pod was routed to. One after k successes in a row does not:
// the route had most likely gone, and a packet was lost. The next one does, if fewer successes lie between. After 2k
// none does.
func (e *Episode) findRouted() {
	streaks := e.view.traffic.Measured(e.Fresh).Streaks
	since, over := map[*PodStop]time.Duration{}, map[*PodStop]time.Duration{}
	for _, s := range e.Stops {
		since[s], over[s] = s.At.Latest, streaks.Proof(2*windows.InARow(e.routesOf(s)), s.At.Latest)
	}
	for i := range e.Failures {
		f := &e.Failures[i]
		all := e.candidates(f)
		for _, s := range lastToLeave(all) {
			switch gone := min(over[s], streaks.Proof(windows.InARow(e.routesOf(s)), since[s])); {
			case e.doubtful(f):
			case gone <= f.Earliest():
				s.Stray = true
			default:
				s.routed = max(s.routed, f.Earliest())
			}
		}
		for _, s := range all {
			since[s] = max(since[s], f.Sent+f.Error)
		}
	}
}

// routesOf returns of how many routes the Pod's is one: a Pod that answers some requests makes successes of its own.
func (e *Episode) routesOf(s *PodStop) int { return int(math.Ceil(float64(e.routes) / s.share())) }

// GoneBy returns when k requests in a row had succeeded after the Pod's stop and after the last failure that was its
// own: one before another Pod's stop, and not after enough successes to prove the route gone. Only requests that open a
// connection count.
//
// Right after that failure, k successes in a row prove it. Each failure that follows starts another try to reach k by
// chance: more successes are needed with each.
func (e *Episode) GoneBy(s *PodStop, failures []model.Failure) time.Duration {
	streaks, routes := e.view.traffic.Measured(e.Fresh).Streaks, e.routesOf(s)
	own := streaks.Proof(3*windows.InARow(routes), s.At.Latest)
	for _, other := range e.Stops {
		if other.At.Earliest > s.At.Latest {
			own = min(own, other.At.Earliest)
		}
	}
	from := s.At.Latest
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

// inOrderOfLeaving bounds each Pod's route by those of the Pods that left with it or later: once one of these is gone,
// so is the Pod's.
//
// If requests failed on the route to s after successes seemed to prove a later Pod's route gone, the successes were
// chance: that route stood as long.
func (e *Episode) inOrderOfLeaving() {
	for _, s := range e.Stops {
		for _, later := range e.Stops {
			if s.order >= 0 && later.order > s.order && later.gone <= s.At.Latest && e.onlyBy(s) {
				later.gone = max(later.gone, s.gone)
			}
		}
	}
	for _, s := range e.Stops {
		for _, later := range e.Stops {
			if s.order >= 0 && later.order >= s.order && later.gone > s.At.Latest {
				s.gone = min(s.gone, later.gone)
			}
		}
	}
}

// onlyBy reports whether a request failed that can have been routed to no other stopped Pod than s.
func (e *Episode) onlyBy(s *PodStop) bool {
	return slices.ContainsFunc(e.Failures, func(f model.Failure) bool {
		all := e.candidates(&f)
		return f.Earliest() > s.At.Latest && len(all) == 1 && all[0] == s
	})
}

// candidates returns the stops of the Pods that f can have been routed to.
func (e *Episode) candidates(f *model.Failure) []*PodStop {
	var all []*PodStop
	for _, s := range e.Stops {
		if s.canHaveMade(f) {
			all = append(all, s)
		}
	}
	return all
}

// lastToLeave returns the Pods whose endpoints left in the last update. If the order is not known, it returns the only
// Pod, or none of several.
func lastToLeave(stops []*PodStop) []*PodStop {
	if len(stops) < 2 {
		return stops
	}
	last := slices.MaxFunc(stops, func(a, b *PodStop) int { return cmp.Compare(a.order, b.order) }).order
	var found []*PodStop
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

// findTrouble finds the Pods that failed at their own addresses while they were ready and not ending.
func (e *Episode) findTrouble() {
	for _, p := range e.view.services.Pods(e.w) {
		for _, t := range e.view.addresses.DirectOf(e.w, p) {
			for i := range e.view.traffic.Measured(t).Outages {
				u := &e.view.traffic.Measured(t).Outages[i]
				if u.Kind != model.Slow && u.Span().Overlaps(e.span) && !e.view.addresses.canBeItsEnd(p, t, u) &&
					p.ReadyWithin(u.Start.Latest, u.End.Earliest) {
					e.Troubled = append(e.Troubled, trouble{p, u})
				}
			}
		}
	}
}

// doubtful reports whether f may have been routed to a Pod that was ready but failed.
func (e *Episode) doubtful(f *model.Failure) bool {
	return slices.ContainsFunc(e.Troubled, func(t trouble) bool {
		return t.window.Start.Earliest <= Arrived(f) && f.Earliest() <= t.window.End.Latest
	})
}

// madeByTrouble reports whether a ready Pod failed at its own address in the same way as f, at that time.
func (e *Episode) madeByTrouble(f *model.Failure) bool {
	class := f.Class
	if class == timeline.TimeoutConnect && e.view.traffic.Datagrams(e.w) {
		class = timeline.TimeoutResponse
	}
	return slices.ContainsFunc(e.Troubled, func(t trouble) bool {
		return t.window.Classes[class.String()] > 0 && t.window.Start.Earliest <= Arrived(f) &&
			f.Earliest() <= t.window.End.Latest
	})
}
