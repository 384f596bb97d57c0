package routes

import (
	"fmt"
	"math"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// udp-stale-entry: datagrams from some source ports go on to a Pod that has stopped, where the node's connection
// tracking sent them before. Datagrams from other ports are led by the node's routes, which have followed.
//
//	svc new       ok ok x ok ok ok ok ok ok ok ok ok     a fresh source port each: at most until the routes follow
//	svc reused    ok ok x ok x  ok x  ok x  ok x  ok     fixed ports: those that went to the Pod, all the time
//	direct        ok ok x x  x  x  x  x  x  x  x  x      the Pod has stopped
//
// kube-proxy removes such an entry once the endpoint does not serve any more, by its readiness, and not before: a Pod
// that ends and goes on saying that it is ready keeps them. Several versions leave entries behind for good
// (kubernetes/kubernetes#125467, #126130, #139628).

var UDPStaleEntry = rule.Rule{
	Name: "udp-stale-entry",
	Doc: "UDP from fixed source ports kept going to a Pod that had stopped, because of connection tracking; from " +
		"fresh ports it was answered.",
	Needs: []rule.Need{rule.PodsWatched, rule.RequestsFailed},
	Only: func(c *rule.Case) bool {
		return c.Traffic.Datagrams(c.Window) && c.Evidence.Traffic.Target(c.Window).Kind == timeline.Reused
	},
	Test: testUDPStaleEntry,
}

// fewestKept is how many datagrams from fixed source ports must be lost after the routes had followed: fewer may have
// been lost by chance.
const fewestKept = 5

func testUDPStaleEntry(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	e := v.Routes.Episode(w)
	switch {
	case e.Fresh == nil:
		return rule.No("only fixed source ports were measured, no fresh ones")
	case len(e.Stops) == 0:
		return rule.No(e.WhyNot + " " + quantity.Between(v.Run, w.Start))
	}
	var s *evidence.PodStop
	var kept []model.Failure
	for _, stop := range e.Stops {
		if lost := lostAfter(v, w, routesFollowed(v, e, stop)); s == nil || len(lost) > len(kept) {
			s, kept = stop, lost
		}
	}
	if len(kept) < fewestKept {
		return rule.No("datagrams from fresh source ports were lost for as long as those from fixed ones")
	}
	after := model.Instant{Earliest: kept[0].Sent, Latest: kept[len(kept)-1].Sent}
	if v.Traffic.OutageNear(e.Fresh.Name, after) != nil {
		return rule.No("datagrams from fresh source ports were lost meanwhile as well")
	}
	if answered, sent := v.Answered(e.Fresh.ID, after.Earliest, after.Latest); sent < fewestKept || answered < sent {
		return rule.No(fmt.Sprintf("of %d datagrams from fresh source ports meanwhile %d were answered", sent,
			answered))
	}
	return staleEntry(v, w, e, s, after)
}

// routesFollowed returns when the routes had certainly followed a Pod's stop: no datagram from a fresh source port was
// lost after that. Lost datagrams from fixed ports say nothing about routes here.
func routesFollowed(v *evidence.Evidence, e *evidence.Episode, s *evidence.PodStop) time.Duration {
	gone := e.GoneBy(s, slices.DeleteFunc(slices.Clone(e.Failures), func(f model.Failure) bool {
		return f.Target != e.Fresh.Name
	}))
	at := gone
	for _, u := range v.Traffic.Measured(e.Fresh).Outages {
		if u.Kind != model.Slow && u.Start.Earliest <= gone {
			at = max(at, u.End.Latest)
		}
	}
	return at
}

// lostAfter returns the datagrams of a window that nothing answered and that were sent after an instant.
func lostAfter(v *evidence.Evidence, w *model.Window, at time.Duration) (lost []model.Failure) {
	for _, f := range v.Traffic.Undelivered(w) {
		if f.Earliest() > at && slices.Contains(lostClasses, f.Class) {
			lost = append(lost, f)
		}
	}
	return lost
}

// lostClasses are the classes of datagrams that no server got.
var lostClasses = []timeline.Class{timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable, timeline.NoSlot}

// staleEntry returns the finding that datagrams went on to a Pod which had stopped, from some source ports, at times
// when the routes had followed.
func staleEntry(v *evidence.Evidence, w *model.Window, e *evidence.Episode, s *evidence.PodStop,
	after model.Instant) rule.Finding {
	p, node := s.Pod, v.Services.Router(w)
	lasted := model.Length{Min: max(0, after.Latest-s.At.Latest), Max: max(0, w.End.Latest-s.At.Earliest)}
	f := rule.Finding{
		Text: fmt.Sprintf("datagrams from some source ports still went to %s for %s after it had stopped: connection "+
			"tracking on %s kept them there, while those from fresh ports were answered",
			p.Name, quantity.Length(lasted, w.Open.End), node),
		Measures: []model.Measure{{Name: "stale-entry", Object: p.Name, Node: v.Services.RouterNode(w),
			Length: lasted}},
	}
	before, ended := evidence.SignsOfEnd(v.Changes, p, s.At)
	f.For = append(f.For, evidence.Mention(before...)...)
	f.For = append(f.For, s.Signs()...)
	f.For = append(f.For,
		evidence.Watched.Target(w.Target, &w.Start, "requests from fixed source ports began to fail: "+
			quantity.ClassCounts(w.Classes)),
		evidence.Watched.Target(e.Fresh.Name, &after,
			fmt.Sprintf("all requests from fresh source ports were answered for ≥ %s meanwhile",
				quantity.Lowest(after.Latest-after.Earliest))))
	f.For = append(f.For, evidence.Mention(ended...)...)
	f.For = append(f.For, evidence.Mention(v.Suspects.OthersAnswered(w, nil)...)...)
	f.Fix = staleEntryFix(v, w, s, lasted.Min)
	f.Lack(evidence.UnmeasuredStops([]*evidence.PodStop{s})...)
	f.Oppose(evidence.AlsoTroubled(e.Troubled, w)...)
	if peers := v.Services.Service(w).Peers([]*evidence.PodStop{s}); peers > 1 &&
		morePorts(v.Traffic.Target(w), w.Share, peers) {
		f.Oppose(evidence.Close.Doubt(fmt.Sprintf("%s of requests failed: more source ports than one of %d "+
			"endpoints can be expected to have had", quantity.Percent(w.Share), peers)))
	}
	f.ExplainsAtMost(w, len(lostAfter(v, w, s.At.Earliest-1)))
	return f
}

// staleEntryFix distinguishes an endpoint that still serves by its readiness from one that had left: kube-proxy should
// have removed the entries of the latter.
func staleEntryFix(v *evidence.Evidence, w *model.Window, s *evidence.PodStop, lasted time.Duration) string {
	client := fmt.Sprintf("have clients take another source port once a reply is overdue: here some waited ≥ %s",
		quantity.Lowest(lasted))
	left := stoppedServing(v, s.Pod)
	switch {
	case left == nil || left.Earliest >= w.End.Earliest-cluster.WatchLag-evidence.RouteMargin:
		return fmt.Sprintf("at SIGTERM fail the readiness probe of %s first, and serve UDP on until its endpoint has "+
			"stopped serving: kube-proxy keeps the entries of an endpoint that is terminating and serves; or %s",
			s.Pod.Name, client)
	default:
		return fmt.Sprintf("look at kube-proxy on %s: it has not removed the entries that lead to %s, whose endpoint "+
			"had stopped serving (its version, its log; `conntrack -D -p udp --reply-src ADDRESS` removes them by "+
			"hand); or %s",
			v.Services.Router(w), s.Pod.Name, client)
	}
}

// stoppedServing returns when the Pod's endpoint was seen neither ready nor serving any more; nil if that was not seen.
func stoppedServing(v *evidence.Evidence, p *model.Pod) *model.Instant {
	for _, e := range v.Changes.About[p.UID] {
		if e.Kind == timeline.EndpointChanged && (e.To == timeline.EndpointAbsent ||
			e.To == timeline.EndpointTerminating || e.To == timeline.EndpointNotReady) && p.TerminatingBy(e.Seen) {
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
