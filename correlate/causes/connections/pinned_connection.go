// Package connections explains windows in which kept connections ended.
package connections

import (
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

// pinned-connection: persistent connections are pinned to the Pod they were opened to. When it ends
// they are cut, with a reset or in the middle of a reply, while new connections go elsewhere and are
// well. No route is to blame: the Pod did not ask its clients to leave.
//
//	new     ok ok ok ok ok ok ok
//	reused  ok ok x  x  ok ok ok      reset or closed as the Pod stopped, then redialled

// drainMargin is added to the longest request seen: how much longer another one may take.
const drainMargin = time.Second

var PinnedConnection = rule.Rule{
	Name: "pinned-connection",
	Doc:  "Persistent connections were cut, or their requests failed, when the Pod they were pinned to ended.",
	Test: testPinnedConnection,
	Held: testHeldPinned,
}

func testPinnedConnection(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	switch {
	case v.Traffic.Target(w).Kind != timeline.Reused:
		return rule.No("the connections were not reused")
	case evidence.Count(w.Classes, timeline.Reset, timeline.EOF) == 0 && !anyEnding(v, w):
		return rule.No("no connection was cut")
	}
	cutters, cut := evidence.FindCutters(v.Endings, w)
	if len(cutters) == 0 && evidence.Count(w.Classes, timeline.Reset, timeline.EOF) == 0 {
		return rule.No("no connection was cut")
	} else if len(cutters) == 0 {
		return rule.No("no Pod ended " + quantity.Between(v.Run, w.Start))
	}
	f := rule.Finding{For: cutSigns(v, w, cutters), Text: cutText(v, cutters, cut), Fix: pinnedFix(v, w, cutters)}
	stops := evidence.StopsOf(cutters)
	if slices.ContainsFunc(stops, func(s *evidence.PodStop) bool { return !s.Quiet }) {
		f.Lack(v.Addresses.Unasked(w)...)
		f.Oppose(v.Suspects.FailedAsWell(w, stops)...)
	}
	for _, c := range cutters {
		if !c.Proved {
			f.Lack(evidence.Measured.Doubt(c.Pod.Name + "'s stop is only known from the watch: any change about " +
				"that time fits as well"))
		}
		f.Oppose(evidence.NotKilled(c.Pod)...)
		if in := v.Endings.EndedInParts(c.Stop()); in != nil && c.As.Most() == evidence.AnswersErrors {
			f.Oppose(evidence.Close.Doubt(fmt.Sprintf("%s of %s ran on for ≥ %s: only %s had ended", in.Last,
				c.Pod.Name, quantity.Lowest(in.Apart), in.First)))
		}
		if 2*c.Unlike > c.Cut {
			f.Lack(evidence.Measured.Doubt(fmt.Sprintf("%s failed in another way at its own address (%s): reused "+
				"connections are not measured there", c.Pod.Name, quantity.ClassCounts(c.Fails[0].Outage.Classes))))
		}
	}
	newConnections(v, w, cutters, &f)
	f.Oppose(cutWithoutAnEnd(v, w)...)
	f.Lack(v.Services.Unwatched(w)...)
	f.ExplainsAtMost(w, cut)
	return f
}

// cutSigns returns what happened, in order.
func cutSigns(v *evidence.Evidence, w *model.Window, cutters []*evidence.Cutter) []evidence.Sign {
	began := evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+quantity.ClassCounts(w.Classes))
	var signs []evidence.Sign
	for _, c := range cutters[:min(len(cutters), rule.MostNamed)] {
		s := cutterSign(c)
		before, after := evidence.SignsOfEnd(v.Changes, c.Pod, *s.At)
		signs = append(append(signs, evidence.Mention(before...)...), s)
		if len(cutters) == 1 {
			return append(append(signs, began), evidence.Mention(after...)...)
		}
	}
	return append(signs, began)
}

// cutterSign returns the sign that the Pod stopped.
func cutterSign(c *evidence.Cutter) evidence.Sign {
	if stop := c.Stop(); !stop.Quiet && len(c.Fails) > 0 {
		return stop.Signs()[0]
	}
	s := evidence.Watched.Target(c.Target, &c.Starts()[0], c.Pod.Name+" stopped")
	if c.Proved {
		s.Strength = evidence.Measured
	}
	return s
}

func cutText(v *evidence.Evidence, cutters []*evidence.Cutter, cut int) string {
	if c := cutters[0]; len(cutters) == 1 && c.As.Most() != evidence.CutsAll {
		s := c.Stop()
		return fmt.Sprintf("%s on reused connections to %s failed after it %s, as it was ending%s",
			quantity.Count(cut, "request"), c.Pod.Name, c.As.Begun(v.Traffic, s.Target), v.Endings.Why(s, &c.As))
	}
	if len(cutters) == 1 {
		return fmt.Sprintf("%s cut %s on reused connections when it stopped", cutters[0].Pod.Name,
			quantity.Count(cut, "request"))
	}
	var parts []string
	for _, c := range cutters[:min(len(cutters), rule.MostNamed)] {
		parts = append(parts, fmt.Sprintf("%s %d", c.Pod.Name, c.Cut))
	}
	if len(cutters) > rule.MostNamed {
		parts = append(parts, fmt.Sprintf("and %d more", len(cutters)-rule.MostNamed))
	}
	return fmt.Sprintf("%s cut %s on reused connections when they stopped: %s",
		quantity.Count(len(cutters), "Pod"), quantity.Count(cut, "request"), strings.Join(parts, ", "))
}

// newConnections asks the target that opens a new connection per request: if it was well, the routes were.
func newConnections(v *evidence.Evidence, w *model.Window, cutters []*evidence.Cutter, f *rule.Finding) {
	t := v.Traffic.Target(w)
	for _, fresh := range v.Run.Targets {
		if fresh.Kind != timeline.New || !v.Traffic.ShareRoutes(&fresh, t) {
			continue
		}
		if trouble := v.Traffic.WindowNear(t, timeline.New, w.Span()); trouble != nil &&
			theirRoutes(v, trouble, cutters) {
			f.For = append(f.For, evidence.Context.Target(fresh.Name, nil,
				"new connections failed only while they were routed to the same Pod"))
			return
		} else if trouble != nil {
			if cut, others := cutOtherwise(v, trouble, cutters); cut > 0 && 2*others > cut {
				f.Oppose(evidence.Watched.Doubt(fmt.Sprintf("%d of %d new connections were cut as well when no Pod "+
					"stopped: something cuts others too", others, cut)))
				return
			}
			f.Oppose(evidence.Close.Doubt("new connections failed as well: " + quantity.ClassCounts(trouble.Classes)))
			return
		}
		f.For = append(f.For, evidence.Context.Target(fresh.Name, nil, "new connections did not fail"))
		return
	}
	f.Lack(evidence.Measured.Doubt("no target opened new connections: the routes may have failed as well"))
}

// theirRoutes reports whether new connections failed only because they were routed to Pods that answered badly, or not
// at all, on connections that were kept.
func theirRoutes(v *evidence.Evidence, w *model.Window, cutters []*evidence.Cutter) bool {
	r := v.Routes.Race(w)
	return len(r.Stops) > 0 && r.Explained >= w.Failed && !slices.ContainsFunc(r.Stops, func(s *evidence.PodStop) bool {
		return s.Quiet || !slices.ContainsFunc(cutters, func(c *evidence.Cutter) bool {
			return c.Pod == s.Pod && c.As.Most() != evidence.CutsAll
		})
	})
}

// anyEnding reports whether a Pod was ending in the window.
func anyEnding(v *evidence.Evidence, w *model.Window) bool {
	return slices.ContainsFunc(v.Services.Pods(w), func(p *model.Pod) bool { return p.TerminatingBy(w.End.Latest) })
}

// cutOtherwise counts the requests of a window that were cut, and those of them that were under way when none of the
// Pods stopped.
func cutOtherwise(v *evidence.Evidence, w *model.Window, cutters []*evidence.Cutter) (cut, others int) {
	for _, f := range v.Traffic.Failures(w) {
		if f.Class != timeline.Reset && f.Class != timeline.EOF {
			continue
		}
		cut++
		if !slices.ContainsFunc(cutters, func(c *evidence.Cutter) bool {
			return slices.ContainsFunc(c.Ends, func(at model.Instant) bool {
				return f.Earliest() <= at.Latest+evidence.Moment &&
					evidence.CutIn(&f, model.Instant{Earliest: at.Earliest, Latest: at.Latest + evidence.Moment})
			})
		}) {
			others++
		}
	}
	return cut, others
}

// cutWithoutAnEnd returns the doubt that about as many requests were cut at another time, when no Pod was ending.
func cutWithoutAnEnd(v *evidence.Evidence, w *model.Window) []evidence.Sign {
	for i := range v.Run.Windows {
		u := &v.Run.Windows[i]
		cuts := evidence.Count(u.Classes, timeline.Reset, timeline.EOF)
		if u.Target == w.Target && 2*cuts > evidence.Count(w.Classes, timeline.Reset, timeline.EOF) &&
			!evidence.AnyEnds(v.Services.Pods(w), u) {
			return []evidence.Sign{evidence.Close.Doubt(fmt.Sprintf("%s %s cut as well %s, when no Pod was ending",
				quantity.Count(cuts, "request"), quantity.Was(cuts), quantity.Between(v.Run, u.Start)))}
		}
	}
	return nil
}

// pinnedFix says how to let clients go: tell them, and wait for what is in flight.
func pinnedFix(v *evidence.Evidence, w *model.Window, cutters []*evidence.Cutter) string {
	longest := time.Duration(0)
	for _, t := range v.Run.Targets {
		if t.Kind.Judged() && t.Service == v.Traffic.Target(w).Service && t.Latency != nil {
			longest = max(longest, t.Latency.Max)
		}
	}
	leave := "answer with Connection: close"
	switch url := v.Traffic.Target(w).URL; {
	case strings.HasPrefix(url, "tcp:"):
		leave = "close connections between two requests"
	case strings.HasPrefix(url, "grpc"):
		leave = "send GOAWAY"
	}
	every := ""
	if c := cutters[0]; c.As.Most() == evidence.AnswersErrors && c.As.AsksAnother() &&
		len(v.Templates.ContainersOf(c.Pod)) > 1 {
		every = fmt.Sprintf(
			"let all containers that requests pass through end together, by the same preStop sleep: %s; ",
			v.Templates.Sleeps(c.Pod))
	}
	return every + fmt.Sprintf("from SIGTERM on %s, and exit only when each client has had that: ≥ %s after SIGTERM "+
		"(%s, as the longest request took, and %s more)",
		leave, quantity.Span(quantity.RoundUp(longest+drainMargin)), quantity.Span(longest), quantity.Span(drainMargin))
}
