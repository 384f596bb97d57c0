package causes

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is what several rules say of a window in which requests were routed to Pods that had stopped. For how
// long each was routed to is worked out in route_lags.go.

// A race is a window in which requests were routed to Pods that had stopped.
type race struct {
	whyNot    string     // why it is none
	stops     []*podStop // of the Pods whose routes can have made failures, as they stopped
	explained int        // failures of the window that these can have made
	lost      int        // of these, the ones of requests that got no connection; the others were cut
	doubtful  int        // of those explained, the ones that Pods can have made which were in trouble though they were ready
	last      time.Duration
	troubled  []trouble
	as        map[*podStop]*formCount // how those of each failed
}

// A trouble is a Pod that failed at its own address though it was ready and not ending.
type trouble struct {
	pod    *model.Pod
	window *model.Window
}

// raceIn finds the Pods whose stale routes can have made the window.
func (v *index) raceIn(w *model.Window) race {
	if r, known := v.races[w]; known {
		return r
	}
	r := v.findRace(w)
	v.races[w] = r
	return r
}

func (v *index) findRace(w *model.Window) race {
	if v.target(w).Turns {
		return race{whyNot: "connections go to the endpoints' own addresses: no node routes them"}
	}
	if len(v.pods(w)) == 0 || !dials(v, w) && !v.endedAs(w) {
		return race{whyNot: "no new connection failed to be made"}
	}
	return v.episodeOf(w).attribute(w)
}

// dials reports whether the window tells of connections that could not be made, or were cut before
// they carried a reply. On persistent connections only a failed dial does.
func dials(v *index, w *model.Window) bool {
	failedDials := some(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable)
	if v.datagrams(w) {
		failedDials += some(w.Classes, timeline.TimeoutResponse)
	}
	if v.target(w).Kind == timeline.Reused || w.Kind == model.Slow {
		return failedDials > 0
	}
	return failedDials+some(w.Classes, timeline.Reset, timeline.EOF) > 0
}

// attribute counts which failures of a window the stops can have made.
func (e *episode) attribute(w *model.Window) race {
	r := race{troubled: e.troubled, whyNot: e.whyNot + " " + quantity.Between(w.Start), as: map[*podStop]*formCount{}}
	own := e.view.undelivered(w)
	last := lastRoutable(e.view, w)
	long := e.view.longWait(w)
	waiting := some(w.Classes, timeline.TimeoutConnect) > 0 || e.view.datagrams(w)
	for i := range own {
		f := &own[i]
		var made []*podStop
		if f.Earliest() <= last && routedAnew(f) && (f.Class != timeline.NoSlot || waiting) {
			made = e.candidates(f)
		}
		for _, s := range made {
			if r.as[s] == nil {
				r.as[s] = &formCount{}
			}
			r.as[s].add(f, long)
		}
		switch {
		case f.Earliest() > last:
		case len(made) > 0:
			r.explained++
			r.lost++
			r.last = max(r.last, f.Earliest())
			if e.madeByTrouble(f) {
				r.doubtful++
			}
		case slices.ContainsFunc(e.stops, func(s *podStop) bool { return s.cut(f) }):
			r.explained++
			r.last = max(r.last, f.Earliest())
		}
	}
	if r.lost > 0 {
		r.explained += max(0, w.Failed-len(own)) // beyond the cap of the list
	}
	for _, s := range e.stops {
		if r.as[s] != nil && r.lost > 0 || r.lost == 0 && dials(e.view, w) && s.cutsAny(own) {
			r.stops = append(r.stops, s)
		}
	}
	if r.explained > 0 && r.doubtful == r.explained {
		t := troubledIn(r.troubled, w)
		r.stops, r.whyNot = nil, fmt.Sprintf("all that routes to Pods which had stopped can have made, %s can have made as well, which failed at its own address though it was ready", t[0].pod.Name)
		return r
	}
	if len(r.stops) == 0 && len(e.stops) > 0 {
		r.whyNot = fmt.Sprintf("%s stopped %s: no request failed so that its route can have made it", e.stops[0].pod.Name, quantity.Between(e.stops[0].at))
	}
	return r
}

// failedHooks are the Events of a race's Pods that a preStop hook failed, and the stops of these Pods. A hook that
// stopped its Pod is none: it was killed with its container.
func (r *race) failedHooks(v *index) (failed []*model.Event, stops []*podStop) {
	for _, s := range r.stops {
		for _, e := range v.about[s.pod.UID] {
			if e.Kind == timeline.KubeEvent && strings.EqualFold(e.To, "FailedPreStopHook") && v.effectOf(s, e) != isEffect {
				failed, stops = append(failed, e), append(stops, s)
				break
			}
		}
	}
	return failed, stops
}

// troubledIn are the Pods that failed at their own addresses during the window, though they were ready.
func troubledIn(troubled []trouble, w *model.Window) (all []trouble) {
	for _, t := range troubled {
		if t.window.Span().Overlaps(w.Span()) {
			all = append(all, t)
		}
	}
	return all
}

// alsoTroubled are the doubts that such Pods failed during the window: then more was wrong than stale routes.
func alsoTroubled(troubled []trouble, w *model.Window) (doubts []Sign) {
	for _, t := range troubledIn(troubled, w) {
		doubts = append(doubts, doubt(Close, fmt.Sprintf("%s failed at its own address as well (%s), though it was ready", t.pod.Name, quantity.ClassCounts(t.window.Classes))))
	}
	return doubts
}

// notTheirs is the doubt that most failures which stale routes can have made can as well be those of Pods that failed
// though they were ready.
func (r *race) notTheirs() []Sign {
	if r.doubtful == 0 || 2*r.doubtful < r.explained {
		return nil
	}
	return []Sign{doubt(Watched, fmt.Sprintf("%d of %d such failures can be those of Pods that failed at their own addresses though they were ready", r.doubtful, r.explained))}
}

// moreThanTheirShare reports whether more of the window's requests failed than the share of the endpoints that had
// stopped.
func (r *race) moreThanTheirShare(v *index, w *model.Window) bool {
	return exceeds(w.Failed, w.Sent, r.leastShare(v, w))
}

func (r *race) leastShare(v *index, w *model.Window) float64 {
	return min(1, float64(r.deadAtOnce())/float64(r.leastPeers(v.service(w))))
}

// deadAtOnce is how many of the Pods may have been routed to at one time after they had stopped.
func (r *race) deadAtOnce() int {
	most := 0
	for _, s := range r.stops {
		n := 0
		for _, other := range r.stops {
			if other.at.Earliest <= s.at.Latest && s.at.Earliest <= other.gone {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// leastPeers is the smallest number of endpoints that the routes to these Pods can have been among.
func (r *race) leastPeers(s *service) int {
	least := math.MaxInt
	for _, g := range r.groups() {
		if peers := s.peers(g); peers > 0 {
			least = min(least, peers, s.leastReady(g[0].left-routeMargin, g[0].left))
		}
	}
	return max(1, least)
}

// atOnce is how close together endpoints leave that were taken away at once.
const atOnce = 250 * time.Millisecond

// groups puts together the Pods whose endpoints were taken away at once. All are in the order in which they stopped.
func (r *race) groups() [][]*podStop {
	byLeaving := slices.Clone(r.stops)
	slices.SortStableFunc(byLeaving, func(a, b *podStop) int { return cmp.Compare(a.order, b.order) })
	var groups [][]*podStop
	for i, s := range byLeaving {
		if i > 0 && s.order >= 0 && byLeaving[i-1].order >= 0 && s.left-byLeaving[i-1].left <= atOnce {
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
			continue
		}
		groups = append(groups, []*podStop{s})
	}
	slices.SortStableFunc(groups, func(a, b []*podStop) int { return cmp.Compare(a[0].at.Earliest, b[0].at.Earliest) })
	return groups
}

// peers is how many endpoints were ready before the first of these Pods left; 0 if the watch did not tell.
func (s *service) peers(stops []*podStop) int {
	most := 0
	for _, stop := range stops {
		if stop.order >= 0 {
			most = max(most, s.before[stop.order])
		}
	}
	return most
}

// A longestLag is the Pod of a Service that was routed to for longest after it had stopped, and the window in which
// it was.
type longestLag struct {
	stop   *podStop
	window *model.Window
	length time.Duration
}

// longestLag is that of the window's Service. What is proven goes before what is possible, and a stop that was measured
// before one that was not.
func (v *index) longestLag(w *model.Window) longestLag {
	svc := v.service(w)
	if svc.longest != nil {
		return *svc.longest
	}
	svc.longest = &longestLag{}
	for i := range v.Run.Windows {
		other := &v.Run.Windows[i]
		if v.frontend(v.targetNamed(other.Target)) != svc.frontend {
			continue
		}
		r := v.raceIn(other)
		for _, s := range r.stops {
			if s.late() != "" || s.unclear() {
				continue // no Pod can serve for so long
			}
			if lag := (longestLag{s, other, s.length(&r)}); svc.longest.weaker(lag) {
				*svc.longest = lag
			}
		}
	}
	return *svc.longest
}

func (l *longestLag) weaker(o longestLag) bool {
	switch {
	case l.stop == nil:
		return true
	case l.stop.proved != o.stop.proved:
		return o.stop.proved
	case (l.stop.routed >= 0) != (o.stop.routed >= 0):
		return o.stop.routed >= 0
	}
	return o.length > l.length
}

// length is for how long the Pod was routed to by the last request that it is proven of, else by the last that may
// have been sent to it, at most.
func (s *podStop) length(r *race) time.Duration {
	last := s.routed
	if last < 0 {
		last = min(s.gone, r.last)
	}
	return max(0, last-s.at.Earliest)
}
