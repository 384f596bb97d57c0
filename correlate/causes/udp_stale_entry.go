package causes

import (
	"fmt"
	"math"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// udp-stale-entry: datagrams from some source ports go on to a Pod that has stopped, where the node's connection
// tracking sent them before. Datagrams from other ports are led by the node's routes, which have followed.
//
//	svc new       ok ok x ok ok ok ok ok ok ok ok ok     a fresh source port each: at most until the routes follow
//	svc reused    ok ok x ok x  ok x  ok x  ok x  ok     ports that are kept: those which went to the Pod, all of the time
//	direct        ok ok x x  x  x  x  x  x  x  x  x      the Pod has stopped
//
// kube-proxy removes such an entry once the endpoint does not serve any more, by its readiness, and not before: a Pod
// that ends and goes on saying that it is ready keeps them. Several versions leave entries behind for good
// (kubernetes/kubernetes#125467, #126130, #139628).

var udpStaleEntry = Rule{
	Name: "udp-stale-entry",
	Doc:  "UDP from fixed source ports kept going to a Pod that had stopped, because of connection tracking; from fresh ports it was answered.",
	Looks: `A Pod stops answering at its own address, as it ends. Requests of kind new, each from another source port, are
answered again as soon as the routes have followed. Some of those of kind reused, whose ports stay, keep failing for
much longer, all from such a port: until the entries are removed, or the client takes another port. A server that
hangs fails both kinds. Send` + "`{id}`" + ` with ` + "`--echo`" + `: without it, Lapse takes another port itself once a reply is overdue.`,
	Fix: `Let a client take another source port once a reply is overdue. At SIGTERM fail the readiness probe first, and serve
UDP on for some seconds: kube-proxy removes the entries when the endpoint stops serving, and the next datagrams go
elsewhere.`,
	Needs: []Need{podsWatched, requestsFailed},
	Only:  func(c *Case) bool { return c.datagrams(c.Window) && c.index.target(c.Window).Kind == timeline.Reused },
	Test:  testUDPStaleEntry,
}

// fewestKept is how many datagrams from fixed source ports must be lost after the routes had followed: fewer may have
// been lost by chance.
const fewestKept = 5

func testUDPStaleEntry(c *Case) Finding {
	v, w := c.index, c.Window
	e := v.episodeOf(w)
	switch {
	case e.fresh == nil:
		return no("fresh source ports were not measured beside the fixed ones")
	case len(e.stops) == 0:
		return no(e.whyNot + " " + quantity.Between(w.Start))
	}
	var s *podStop
	var kept []model.Failure
	for _, stop := range e.stops {
		if lost := v.lostAfter(w, v.followed(e, stop)); s == nil || len(lost) > len(kept) {
			s, kept = stop, lost
		}
	}
	if len(kept) < fewestKept {
		return no("datagrams from fresh source ports were lost for as long as those from fixed ones")
	}
	after := model.Instant{Earliest: kept[0].Sent, Latest: kept[len(kept)-1].Sent}
	if v.outageNear(e.fresh.Name, after) != nil {
		return no("datagrams from fresh source ports were lost meanwhile as well")
	}
	if answered, sent := v.Answered(e.fresh.ID, after.Earliest, after.Latest); sent < fewestKept || answered < sent {
		return no(fmt.Sprintf("of %d datagrams from fresh source ports meanwhile %d were answered", sent, answered))
	}
	return v.staleEntry(w, e, s, after)
}

// followed is the instant from which the routes had followed a Pod's stop for sure: datagrams from fresh source ports
// were lost no more. Those from fixed ones that are lost say nothing of the routes here.
func (v *index) followed(e *episode, s *podStop) time.Duration {
	gone := e.goneBy(s, slices.DeleteFunc(slices.Clone(e.failures), func(f model.Failure) bool { return f.Target != e.fresh.Name }))
	at := gone
	for _, u := range v.probed(e.fresh).Outages {
		if u.Kind != model.Slow && u.Start.Earliest <= gone {
			at = max(at, u.End.Latest)
		}
	}
	return at
}

// lostAfter are the datagrams of a window that nothing answered and that were sent after an instant.
func (v *index) lostAfter(w *model.Window, at time.Duration) (lost []model.Failure) {
	for _, f := range v.undelivered(w) {
		if f.Earliest() > at && slices.Contains(lostClasses, f.Class) {
			lost = append(lost, f)
		}
	}
	return lost
}

// lostClasses are how a datagram fails that no server took.
var lostClasses = []timeline.Class{timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot}

// staleEntry is the finding that datagrams went on to a Pod which had stopped, from some source ports, at times when
// the routes had followed.
func (v *index) staleEntry(w *model.Window, e *episode, s *podStop, after model.Instant) Finding {
	p, node := s.pod, v.router(w)
	lasted := model.Length{Min: max(0, after.Latest-s.at.Latest), Max: max(0, w.End.Latest-s.at.Earliest)}
	f := Finding{
		Text: fmt.Sprintf("datagrams from some source ports still went to %s for %s after it had stopped: connection tracking on %s kept them there, while those from fresh ports were answered",
			p.Name, quantity.Length(lasted, w.Open.End), node),
		Measures: []model.Measure{{Name: "stale-entry", Object: p.Name, Node: v.routerNode(w), Length: lasted}},
	}
	before, ended := signsOfEnd(v, p, s.at)
	f.For = append(f.For, context(before...)...)
	f.For = append(f.For, s.signs()...)
	f.For = append(f.For,
		Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests from fixed source ports began to fail: " + quantity.ClassCounts(w.Classes)}, Watched},
		Sign{model.Evidence{Target: e.fresh.Name, At: &after, Text: fmt.Sprintf("all requests from fresh source ports were answered for ≥ %s meanwhile", quantity.Lowest(after.Latest-after.Earliest))}, Watched})
	f.For = append(f.For, context(ended...)...)
	f.For = append(f.For, context(v.othersAnswered(w, nil)...)...)
	f.Fix = v.staleEntryFix(w, s, lasted.Min)
	f.missing(unmeasuredStops([]*podStop{s})...)
	f.against(alsoTroubled(e.troubled, w)...)
	if peers := v.service(w).peers([]*podStop{s}); peers > 1 && morePorts(v.target(w), w.Share, peers) {
		f.against(doubt(Close, fmt.Sprintf("%s of requests failed: more source ports than one of %d endpoints can be expected to have had", quantity.Percent(w.Share), peers)))
	}
	f.explains(w, len(v.lostAfter(w, s.at.Earliest-1)))
	return f
}

// staleEntryFix tells an endpoint that goes on serving by its readiness from one that had left, of which kube-proxy
// keeps the entries against its own rules.
func (v *index) staleEntryFix(w *model.Window, s *podStop, lasted time.Duration) string {
	client := fmt.Sprintf("have clients take another source port once a reply is overdue: here some waited ≥ %s", quantity.Lowest(lasted))
	left := v.stoppedServing(s.pod)
	switch {
	case left == nil || left.Earliest >= w.End.Earliest-cluster.WatchLag-routeMargin:
		return fmt.Sprintf("at SIGTERM fail the readiness probe of %s first, and serve UDP on until its endpoint has stopped serving: kube-proxy keeps the entries of an endpoint that is terminating and serves; or %s", s.pod.Name, client)
	default:
		return fmt.Sprintf("look at kube-proxy on %s: it has not removed the entries that lead to %s, whose endpoint had stopped serving (its version, its log; `conntrack -D -p udp --reply-src ADDRESS` removes them by hand); or %s",
			v.router(w), s.pod.Name, client)
	}
}

// stoppedServing is when the Pod's endpoint was seen neither ready nor serving any more; nil if that was not seen.
func (v *index) stoppedServing(p *model.Pod) *model.Instant {
	for _, e := range v.about[p.UID] {
		if e.Kind == timeline.EndpointChanged && (e.To == timeline.EndpointAbsent || e.To == timeline.EndpointTerminating || e.To == timeline.EndpointNotReady) && p.TerminatingBy(e.Seen) {
			return &e.At
		}
	}
	return nil
}

// morePorts reports whether more of a target's fixed source ports failed than chance gives one of n endpoints.
func morePorts(t *model.Target, share float64, n int) bool {
	ports := float64(max(t.Connections, 1))
	mean := ports / float64(n)
	return share*ports > mean+3*math.Sqrt(mean*(1-1/float64(n)))+1
}
