package evidence

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// This file is about windows in which requests were routed to Pods that had stopped. route_lags.go bounds how long each
// was routed to.

// A Race is a window in which requests were routed to Pods that had stopped.
type Race struct {
	WhyNot    string     // why it is none
	Stops     []*PodStop // of the Pods whose routes can have made failures, as they stopped
	Explained int        // failures of the window that these can have made
	Lost      int        // of these, the ones of requests that got no connection; the others were cut
	// of those explained, the ones that Pods can have made which were in trouble though they were ready
	doubtful int
	Last     time.Duration
	Troubled []trouble
	As       map[*PodStop]*FormCount // how the requests to each failed
}

// Race finds the Pods whose stale routes can have made the window.
func (v *Routes) Race(w *model.Window) Race {
	if r, known := v.races[w]; known {
		return r
	}
	r := v.findRace(w)
	v.races[w] = r
	return r
}

func (v *Routes) findRace(w *model.Window) Race {
	if v.traffic.Target(w).Turns {
		return Race{WhyNot: "connections go to the endpoints' own addresses: no node routes them"}
	}
	if len(v.services.Pods(w)) == 0 || !dials(v.traffic, w) && !v.endings.endedAs(w) {
		return Race{WhyNot: "no new connection failed to open"}
	}
	return v.Episode(w).attribute(w)
}

// dials reports whether failures of the window show connections that could not be opened, or were cut before they
// carried a reply. On persistent connections only a failed dial does.
func dials(v *Traffic, w *model.Window) bool {
	failedDials := Count(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable)
	if v.Datagrams(w) {
		failedDials += Count(w.Classes, timeline.TimeoutResponse)
	}
	if v.Target(w).Kind == timeline.Reused || w.Kind == model.Slow {
		return failedDials > 0
	}
	return failedDials+Count(w.Classes, timeline.Reset, timeline.EOF) > 0
}

// attribute counts the failures of a window that the stops can explain.
func (e *Episode) attribute(w *model.Window) Race {
	whyNot := e.WhyNot + " " + quantity.Between(e.view.Run, w.Start)
	r := Race{Troubled: e.Troubled, WhyNot: whyNot, As: map[*PodStop]*FormCount{}}
	own := e.view.traffic.Undelivered(w)
	last := lastRoutable(e.view.services, w)
	long := e.view.traffic.longWait(w)
	waiting := Count(w.Classes, timeline.TimeoutConnect) > 0 || e.view.traffic.Datagrams(w)
	for i := range own {
		f := &own[i]
		var made []*PodStop
		if f.Earliest() <= last && routedAnew(f) && (f.Class != timeline.NoSlot || waiting) {
			made = e.candidates(f)
		}
		for _, s := range made {
			if r.As[s] == nil {
				r.As[s] = &FormCount{}
			}
			r.As[s].add(f, long)
		}
		switch {
		case f.Earliest() > last:
		case len(made) > 0:
			r.Explained++
			r.Lost++
			r.Last = max(r.Last, f.Earliest())
			if e.madeByTrouble(f) {
				r.doubtful++
			}
		case slices.ContainsFunc(e.Stops, func(s *PodStop) bool { return s.cut(f) }):
			r.Explained++
			r.Last = max(r.Last, f.Earliest())
		}
	}
	if r.Lost > 0 {
		r.Explained += max(0, w.Failed-len(own)) // beyond the cap of the list
	}
	for _, s := range e.Stops {
		if r.As[s] != nil && r.Lost > 0 || r.Lost == 0 && dials(e.view.traffic, w) && s.cutsAny(own) {
			r.Stops = append(r.Stops, s)
		}
	}
	if r.Explained > 0 && r.doubtful == r.Explained {
		t := TroubledIn(r.Troubled, w)
		r.Stops, r.WhyNot = nil,
			fmt.Sprintf("every failure that a stale route could explain is also explained by %s, which was ready but "+
				"failed at its own address", t[0].pod.Name)
		return r
	}
	if len(r.Stops) == 0 && len(e.Stops) > 0 {
		r.WhyNot = fmt.Sprintf("%s stopped %s, but no request failed in a way that a stale route to it explains",
			e.Stops[0].Pod.Name, quantity.Between(e.view.Run, e.Stops[0].At))
	}
	return r
}

// FailedHooks returns the preStop hooks that failed, one of each of the race's Pods.
func (r *Race) FailedHooks(v *Endings) (failed []*FailedHook) {
	for _, s := range r.Stops {
		if h := v.failedHook(s); h != nil {
			failed = append(failed, h)
		}
	}
	return failed
}

// NotTheirs returns the doubt that most failures which stale routes can explain may as well come from Pods that
// failed though they were ready.
func (r *Race) NotTheirs() []Sign {
	if r.doubtful == 0 || 2*r.doubtful < r.Explained {
		return nil
	}
	return []Sign{Watched.Doubt(fmt.Sprintf("%d of %d such failures may come from Pods that were ready but failed at "+
		"their own addresses", r.doubtful, r.Explained))}
}

// MoreThanTheirShare reports whether more of the window's requests failed than the share of the endpoints that had
// stopped.
func (r *Race) MoreThanTheirShare(v *Services, w *model.Window) bool {
	return Exceeds(w.Failed, w.Sent, r.LeastShare(v, w))
}

func (r *Race) LeastShare(v *Services, w *model.Window) float64 {
	return min(1, float64(r.DeadAtOnce())/float64(r.leastPeers(v.Service(w))))
}

// DeadAtOnce returns how many of the Pods may have been routed to at one time after they had stopped.
func (r *Race) DeadAtOnce() int {
	most := 0
	for _, s := range r.Stops {
		n := 0
		for _, other := range r.Stops {
			if other.At.Earliest <= s.At.Latest && s.At.Earliest <= other.gone {
				n++
			}
		}
		most = max(most, n)
	}
	return most
}

// leastPeers returns the smallest number of endpoints that the routes to these Pods can have been among.
func (r *Race) leastPeers(s *Service) int {
	least := math.MaxInt
	for _, g := range r.Groups() {
		if peers := s.Peers(g); peers > 0 {
			least = min(least, peers, s.LeastReady(g[0].left-RouteMargin, g[0].left))
		}
	}
	return max(1, least)
}

// atOnce is how close together endpoints must leave to count as taken away at once.
const atOnce = 250 * time.Millisecond

// Groups returns the Pods grouped by endpoints that left at once, in the order in which they stopped.
func (r *Race) Groups() [][]*PodStop {
	byLeaving := slices.Clone(r.Stops)
	slices.SortStableFunc(byLeaving, func(a, b *PodStop) int { return cmp.Compare(a.order, b.order) })
	var groups [][]*PodStop
	for i, s := range byLeaving {
		if i > 0 && s.order >= 0 && byLeaving[i-1].order >= 0 && s.left-byLeaving[i-1].left <= atOnce {
			groups[len(groups)-1] = append(groups[len(groups)-1], s)
			continue
		}
		groups = append(groups, []*PodStop{s})
	}
	slices.SortStableFunc(groups, func(a, b []*PodStop) int { return cmp.Compare(a[0].At.Earliest, b[0].At.Earliest) })
	return groups
}

// LatestStop returns the Pod that was routed to for longest because something was too late, nil if nothing was.
func (r *Race) LatestStop() *PodStop {
	var worst *PodStop
	for _, s := range r.Stops {
		if s.Late() != "" && (worst == nil || s.Lag().Min > worst.Lag().Min) {
			worst = s
		}
	}
	return worst
}

// Begun says what the Pods of a race had done when requests to them began to fail: "had stopped".
func (r *Race) Begun(v *Traffic, stops []*PodStop) string {
	said := ""
	for _, s := range stops {
		did := r.As[s].Begun(v, s.Target)
		if said != "" && said != did {
			return "had begun to end"
		}
		said = did
	}
	return said
}

// NotProbed returns the doubt, where a Pod that ended was there and failed, that another one that was ready did so as
// well: its own address was not asked.
func (r *Race) NotProbed(v *Addresses, w *model.Window) []Sign {
	if !slices.ContainsFunc(r.Stops, func(s *PodStop) bool { return !s.Quiet }) {
		return nil
	}
	return v.Unasked(w)
}

// FailedBefore returns the doubt that a Pod had failed in the same way before it was asked to end.
func (r *Race) FailedBefore(v *Endings, w *model.Window) []Sign {
	for _, s := range r.Stops {
		if len(s.fails) == 0 || s.Quiet {
			continue
		}
		if e := v.failedSo(w, s.Pod, s.fails[0]); e != nil {
			return []Sign{Watched.Target(s.Target, &e.Start,
				fmt.Sprintf("%s had failed at its own address before its deletion as well: %s", s.Pod.Name,
					quantity.ClassCounts(e.Classes)))}
		}
	}
	return nil
}
