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

// routeMargin is added to the longest time a route was seen to outlive its Pod. One drain is one
// sample: kube-proxy gathers changes for up to its minSyncPeriod, 1 s by default, before it
// rewrites the routes (kubernetes/kubernetes#92836), and how much of that a Pod's end meets is luck.
const routeMargin = time.Second

func routeOutlivesPod(v *index, w *model.Window) (*model.Cause, string) {
	r := v.raceIn(w)
	if len(r.stops) == 0 {
		return nil, r.silent
	}
	cause := &model.Cause{Confidence: model.High, Text: r.text(v, w), Fix: raceFix(v, w), Evidence: r.evidence(v, w), Measures: r.measures(v, w)}
	r.weighStops(cause)
	r.weighAfter(cause)
	r.weighOthers(v, w, cause)
	r.weighShare(v, w, cause)
	weighExplained(w, r.explained, cause)
	if r.lost == 0 {
		r.weighKilled(cause)
	}
	return cause, ""
}

// measures are for how long each Pod was routed to.
func (r *race) measures(v *index, w *model.Window) []model.Measure {
	var all []model.Measure
	for _, s := range r.stops {
		all = append(all, model.Measure{Name: model.RouteLag, Object: s.pod.Name, Node: v.target(w).Node, Length: s.lag()})
	}
	return all
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

// longestRouted is the Pod of which the longest lag is proven.
func longestRouted(stops []*podStop) *podStop {
	return slices.MaxFunc(stops, func(a, b *podStop) int {
		la, lb := a.lag(), b.lag()
		return cmp.Or(cmp.Compare(la.Min, lb.Min), cmp.Compare(lb.Max, la.Max))
	})
}

// mostNamed is how many Pods a sentence names.
const mostNamed = 6

func (r *race) text(v *index, w *model.Window) string {
	groups := r.groups()
	if len(groups) == 1 {
		return groupText(v, w, groups[0])
	}
	parts := make([]string, 0, len(groups))
	for _, g := range groups[:min(len(groups), mostNamed)] {
		parts = append(parts, named(g)+" "+longestRouted(g).about())
	}
	more := ""
	if len(groups) > mostNamed {
		more = fmt.Sprintf(", and %d more", len(groups)-mostNamed)
	}
	return fmt.Sprintf("%s still routed to %s after they had stopped: %s%s", v.from(w), quantity.Count(len(r.stops), "Pod"), strings.Join(parts, ", "), more)
}

func groupText(v *index, w *model.Window, g []*podStop) string {
	if len(g) == 1 {
		return stopText(v, w, g[0])
	}
	what := quantity.Count(len(g), "endpoint")
	if peers := v.service(w).peers(g); peers > 0 {
		what = fmt.Sprintf("%d of %d endpoints", len(g), peers)
	}
	return fmt.Sprintf("%s were taken away at once, and %s still routed to them for %s after they had stopped: %s",
		what, v.from(w), longestRouted(g).about(), named(g))
}

func stopText(v *index, w *model.Window, s *podStop) string {
	return fmt.Sprintf("%s still routed to %s for %s after it had stopped", v.from(w), s.pod.Name, s.about())
}

// named names Pods: "a", "a, b and c", "a, b and 4 more".
func named(stops []*podStop) string {
	const most = 3
	var names []string
	for _, s := range stops {
		names = append(names, s.pod.Name)
	}
	if len(names) > most {
		names = append(names[:most-1:most-1], fmt.Sprintf("%d more", len(names)-most+1))
	}
	if len(names) == 1 {
		return names[0]
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
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

// evidence tells what happened in the order in which one thing led to the next.
func (r *race) evidence(v *index, w *model.Window) []model.Evidence {
	began := model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}
	if len(r.stops) == 1 {
		s := r.stops[0]
		before, after := signsOfEnd(v, s.pod, s.at)
		return slices.Concat(before, s.evidence(), []model.Evidence{began}, after)
	}
	var evidence []model.Evidence
	for _, s := range r.stops[:min(len(r.stops), mostNamed)] {
		if at := s.pod.EndpointNotReady; at != nil {
			evidence = append(evidence, model.Evidence{Event: v.changeOf(s.pod, timeline.EndpointChanged, at), At: at, Text: s.pod.Name + " left the ready endpoints"})
		}
		evidence = append(evidence, s.evidence()...)
	}
	return append(evidence, began)
}

func (s *podStop) evidence() []model.Evidence {
	if !s.proved {
		return nil
	}
	return []model.Evidence{{Target: s.target, At: &s.at, Text: s.pod.Name + " itself stopped answering"}}
}

// signsOfEnd tells a Pod's end as the watch saw it: what came before its stop, or may have, and what came after.
func signsOfEnd(v *index, p *model.Pod, stop model.Instant) (before, after []model.Evidence) {
	add := func(to *[]model.Evidence, at *model.Instant, kind timeline.EventKind, text string) {
		if at != nil {
			*to = append(*to, model.Evidence{Event: v.changeOf(p, kind, at), At: at, Text: p.Name + " " + text})
		}
	}
	add(&before, p.Deleted, timeline.PodDeleted, "was deleted")
	left := &before
	if p.EndpointNotReady != nil && p.EndpointNotReady.Earliest > stop.Latest {
		left = &after
	}
	add(left, p.EndpointNotReady, timeline.EndpointChanged, "left the ready endpoints")
	add(&before, p.Killing, timeline.KubeEvent, "was being killed by its kubelet")
	add(&after, p.Exited, timeline.PodContainer, "exited")
	if p.EndpointRemoved != nil && (p.EndpointNotReady == nil || *p.EndpointRemoved != *p.EndpointNotReady) {
		add(&after, p.EndpointRemoved, timeline.EndpointChanged, "left the EndpointSlice")
	}
	return before, after
}

// weighStops lowers the confidence where a Pod's stop was not measured.
func (r *race) weighStops(c *model.Cause) {
	for _, s := range r.stops {
		switch {
		case s.proved:
		case s.exited:
			c.Confidence = lower(c.Confidence, model.Medium)
			c.Rivals = append(c.Rivals, s.pod.Name+" has no direct target, so its stop is only known from the watch: any change about that time fits as well")
		default:
			c.Confidence = lower(c.Confidence, model.Low)
			c.Rivals = append(c.Rivals, "only closeness in time: neither a direct target nor its container's end tells when "+s.pod.Name+" stopped")
		}
	}
}

// weighAfter asks whether any request was certainly sent after a Pod had stopped. If not, all of them may have been on
// their way when it exited, with its route as it should be.
func (r *race) weighAfter(c *model.Cause) {
	if slices.ContainsFunc(r.stops, func(s *podStop) bool { return s.lag().Min > 0 }) {
		return
	}
	c.Confidence = lower(c.Confidence, model.Medium)
	switch {
	case len(r.troubled) > 0:
	case len(r.stops) > 1:
		c.Rivals = append(c.Rivals, "of none of the Pods is it certain that a failed request was sent to it after it had stopped")
	default:
		c.Rivals = append(c.Rivals, "no failed request was certainly sent after it had stopped: it may have cut those under way when it exited")
	}
}

// weighOthers asks the other Pods' own addresses: if ready ones failed too, more was wrong than stale routes.
func (r *race) weighOthers(v *index, w *model.Window, c *model.Cause) {
	for _, t := range r.troubled {
		if t.window.Span().Overlaps(w.Span()) {
			c.Confidence = lower(c.Confidence, model.Medium)
			c.Rivals = append(c.Rivals, fmt.Sprintf("%s failed at its own address as well (%s), though it was ready", t.pod.Name, quantity.ClassCounts(t.window.Classes)))
		}
	}
	var clean []model.Evidence
	for _, other := range v.healthyOthers(w) {
		name := v.directName(w, other)
		if v.outageNear(name, w.Span()) == nil {
			clean = append(clean, model.Evidence{Target: name, Text: other.Name + " went on answering at its own address"})
		}
	}
	if len(clean) > 3 {
		clean = []model.Evidence{{Text: fmt.Sprintf("%d other Pods went on answering at their own addresses", len(clean))}}
	}
	c.Evidence = append(c.Evidence, clean...)
}

// healthyOthers are the Pods that were ready before and not ending, and that were probed directly.
func (v *index) healthyOthers(w *model.Window) []*model.Pod {
	var others []*model.Pod
	for _, p := range v.pods(w) {
		if p.TerminatingBy(w.End.Latest) || !p.ReadyBy(w.Start.Latest) {
			continue
		}
		if first := v.probe(w, p).firstOK; first != nil && *first < w.Start.Latest {
			others = append(others, p)
		}
	}
	return others
}

// weighShare compares how much failed with the share the Pods had of the endpoints.
func (r *race) weighShare(v *index, w *model.Window, c *model.Cause) {
	if v.target(w).Kind != timeline.New {
		return
	}
	peers := v.service(w).peers(r.stops)
	if peers == 0 || v.laneOff("endpointslice", w) {
		c.Confidence = lower(c.Confidence, model.Medium)
		c.Rivals = append(c.Rivals, "how many endpoints were ready is not known: that there was none fits as well")
		if w.Kind == model.Outage {
			c.Confidence = model.Low
		}
		return
	}
	dead := r.deadAtOnce()
	expected := min(1, float64(dead)/float64(peers))
	upTo := ""
	if 1 < dead && dead < len(r.stops) {
		upTo = "up to "
	}
	c.Evidence = append(c.Evidence, model.Evidence{Target: w.Target, Text: fmt.Sprintf("%d of %d requests failed (%s); %s%s of %d endpoints is %s",
		w.Failed, w.Sent, quantity.Percent(w.Share), upTo, number(dead), peers, quantity.Percent(expected))})
	if exceeds(w.Failed, w.Sent, min(1, float64(dead)/float64(r.leastPeers(v.service(w))))) {
		c.Confidence = lower(c.Confidence, model.Medium)
		c.Rivals = append(c.Rivals, "more failed than the share of the endpoints that had stopped")
	}
}

func number(n int) string {
	if n == 1 {
		return "one"
	}
	return fmt.Sprint(n)
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

// exceeds reports whether more failed than chance allows at this probability: more than three
// standard deviations above the mean. Fewer is no contradiction, for a window also holds the good
// requests between two of its runs of failures.
func exceeds(failed, sent int, p float64) bool {
	mean := float64(sent) * p
	return float64(failed) > mean+3*math.Sqrt(mean*(1-p))+1
}

// weighKilled asks whether a Pod was killed: then what it was about is cut, whatever its routes do.
func (r *race) weighKilled(c *model.Cause) {
	for _, s := range r.stops {
		weighKilled(s.pod, c)
	}
}

// killed is the exit code of a process that SIGKILL ended.
const killed = 137

func weighKilled(p *model.Pod, c *model.Cause) {
	if p.ExitCode != nil && *p.ExitCode == killed {
		c.Confidence = model.Low
		c.Rivals = append(c.Rivals, fmt.Sprintf("%s was killed (exit code %d), perhaps because its grace period was over: that cuts all that is in flight", p.Name, killed))
	}
}

// weighExplained lowers the confidence where a cause cannot have made all of the window's failures.
func weighExplained(w *model.Window, explained int, c *model.Cause) {
	if w.Kind == model.Slow || explained >= w.Failed {
		return
	}
	c.Explains = explained
	c.Confidence = lower(c.Confidence, model.Medium)
	if 2*explained < w.Failed {
		c.Confidence = model.Low
	}
	c.Rivals = append(c.Rivals, fmt.Sprintf("it can have made %d of %d failures: the others have another cause", explained, w.Failed))
}

// raceFix says how long to keep serving: the longest time any route was seen to outlive a Pod of
// this Service in the run, plus a margin, plus what the Pod served already after being told to end.
func raceFix(v *index, w *model.Window) string {
	worst := v.longestLag(w)
	if worst.stop == nil {
		return ""
	}
	margin := max(routeMargin, worst.length/4)
	served := worst.stop.servedAfterKilling()
	return fmt.Sprintf("keep serving ≥ %s after SIGTERM (a preStop sleep, or a delay before shutting down): %s%s",
		quantity.Span(quantity.RoundUp(served+worst.length+margin)), stopText(v, worst.window, worst.stop), alreadyServed(served))
}

func alreadyServed(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return fmt.Sprintf(", which was %s after it was told to end", quantity.Span(d))
}

// A longestLag is the Pod of a Service that was routed to for longest after it had stopped, and the window in which it was.
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
		if frontendOf(v.target(other)) != svc.frontend {
			continue
		}
		r := v.raceIn(other)
		for _, s := range r.stops {
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

// length is for how long the Pod was routed to by the last request that it is proven of, else by the last that may have been sent
// to it, at most.
func (s *podStop) length(r *race) time.Duration {
	last := s.routed
	if last < 0 {
		last = min(s.gone, r.last)
	}
	return max(0, last-s.at.Earliest)
}

// servedAfterKilling is how long the Pod is known to have served after its kubelet began to end it;
// 0 if that is not known, or so little that the margin holds it.
func (s *podStop) servedAfterKilling() time.Duration {
	if s.pod.Killing == nil || s.at.Earliest-s.pod.Killing.Latest < routeMargin/10 {
		return 0
	}
	return s.at.Earliest - s.pod.Killing.Latest
}
