package causes

import (
	"fmt"
	"slices"
	"strings"
	"time"

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

var pinnedConnection = Rule{
	Name: "pinned-connection",
	Doc:  "Persistent connections were cut, or their requests failed, when the Pod they were pinned to ended.",
	Looks: `Only "reused" fails, with resets or closed connections, when a Pod ends; "new" is clean. Of connections that are kept
open (--held), those that were on the Pod are closed after its deletion, or reset when it exits, and no others.
Requests on connections to a Pod that ends may also be answered with errors, or not at all, until it has ended: its own
address fails at that time. If that fails in another way, the confidence is at most *medium*.`,
	Fix:  `Answer with "Connection: close" from SIGTERM on, and wait for what is in flight.`,
	Test: testPinnedConnection,
	Held: testHeldPinned,
}

func testPinnedConnection(c *Case) Finding {
	v, w := c.index, c.Window
	switch {
	case v.target(w).Kind != timeline.Reused:
		return no("the connections were not persistent")
	case some(w.Classes, timeline.Reset, timeline.EOF) == 0 && !v.anyEnding(w):
		return no("no connection was cut")
	}
	cutters, cut := findCutters(v, w)
	if len(cutters) == 0 && some(w.Classes, timeline.Reset, timeline.EOF) == 0 {
		return no("no connection was cut")
	} else if len(cutters) == 0 {
		return no("no Pod ended " + quantity.Between(w.Start))
	}
	f := Finding{For: cutSigns(v, w, cutters), Text: cutText(v, cutters, cut), Fix: pinnedFix(v, w, cutters, cut)}
	stops := stopsOf(cutters)
	if slices.ContainsFunc(stops, func(s *podStop) bool { return !s.quiet }) {
		f.missing(v.unasked(w)...)
		f.against(v.failedAsWell(w, stops)...)
	}
	for _, c := range cutters {
		if !c.proved {
			f.missing(doubt(Measured, c.pod.Name+"'s stop is only known from the watch: any change about that time fits as well"))
		}
		f.against(notKilled(c.pod)...)
		if in := v.endedInParts(c.stop()); in != nil && c.as.most() == answersErrors {
			f.against(doubt(Close, fmt.Sprintf("%s of %s ran on for ≥ %s: only %s had ended", in.last, c.pod.Name, quantity.Lowest(in.apart), in.first)))
		}
		if 2*c.unlike > c.cut {
			f.missing(doubt(Measured, fmt.Sprintf("%s failed otherwise at its own address (%s): what became of connections that were kept is not measured there", c.pod.Name, quantity.ClassCounts(c.fails[0].outage.Classes))))
		}
	}
	newConnections(v, w, cutters, &f)
	f.explains(w, cut)
	return f
}

// cutSigns are what happened, in order.
func cutSigns(v *index, w *model.Window, cutters []*cutter) []Sign {
	began := Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched}
	var signs []Sign
	for _, c := range cutters[:min(len(cutters), mostNamed)] {
		s := c.sign()
		before, after := signsOfEnd(v, c.pod, *s.At)
		signs = append(append(signs, context(before...)...), s)
		if len(cutters) == 1 {
			return append(append(signs, began), context(after...)...)
		}
	}
	return append(signs, began)
}

// sign is that the Pod stopped.
func (c *cutter) sign() Sign {
	if stop := c.stop(); !stop.quiet && len(c.fails) > 0 {
		return stop.signs()[0]
	}
	s := Sign{model.Evidence{Target: c.target, At: &c.starts()[0], Text: c.pod.Name + " stopped"}, Watched}
	if c.proved {
		s.Strength = Measured
	}
	return s
}

func cutText(v *index, cutters []*cutter, cut int) string {
	if c := cutters[0]; len(cutters) == 1 && c.as.most() != cutsAll {
		s := c.stop()
		return fmt.Sprintf("%s on persistent connections to %s failed after it %s, as it was ending%s", quantity.Count(cut, "request"), c.pod.Name, c.as.begun(v, s.target), v.why(s, &c.as))
	}
	if len(cutters) == 1 {
		return fmt.Sprintf("%s cut %s on persistent connections when it stopped", cutters[0].pod.Name, quantity.Count(cut, "request"))
	}
	var parts []string
	for _, c := range cutters[:min(len(cutters), mostNamed)] {
		parts = append(parts, fmt.Sprintf("%s %d", c.pod.Name, c.cut))
	}
	if len(cutters) > mostNamed {
		parts = append(parts, fmt.Sprintf("and %d more", len(cutters)-mostNamed))
	}
	return fmt.Sprintf("%s cut %s on persistent connections when they stopped: %s", quantity.Count(len(cutters), "Pod"), quantity.Count(cut, "request"), strings.Join(parts, ", "))
}

// newConnections asks the target that opens a new connection per request: if it was well, the routes were.
func newConnections(v *index, w *model.Window, cutters []*cutter, f *Finding) {
	t := v.target(w)
	for _, fresh := range v.Run.Targets {
		if fresh.Kind != timeline.New || !v.shareRoutes(&fresh, t) {
			continue
		}
		if trouble := v.windowNear(t, timeline.New, w.Span()); trouble != nil && v.theirRoutes(trouble, cutters) {
			f.For = append(f.For, context(model.Evidence{Target: fresh.Name, Text: "new connections failed only while they were routed to the same Pod"})...)
			return
		} else if trouble != nil {
			if cut, others := v.cutOtherwise(trouble, cutters); cut > 0 && 2*others > cut {
				f.against(doubt(Watched, fmt.Sprintf("%d of %d new connections were cut as well when no Pod stopped: something cuts others too", others, cut)))
				return
			}
			f.against(doubt(Close, "new connections failed as well: "+quantity.ClassCounts(trouble.Classes)))
			return
		}
		f.For = append(f.For, context(model.Evidence{Target: fresh.Name, Text: "new connections did not fail"})...)
		return
	}
	f.missing(doubt(Measured, "no target opened new connections: the routes may have failed as well"))
}

// theirRoutes reports whether new connections failed only because they were routed to Pods that answered badly, or not
// at all, on connections that were kept.
func (v *index) theirRoutes(w *model.Window, cutters []*cutter) bool {
	r := v.raceIn(w)
	return len(r.stops) > 0 && r.explained >= w.Failed && !slices.ContainsFunc(r.stops, func(s *podStop) bool {
		return s.quiet || !slices.ContainsFunc(cutters, func(c *cutter) bool { return c.pod == s.pod && c.as.most() != cutsAll })
	})
}

// anyEnding reports whether a Pod was ending in the window.
func (v *index) anyEnding(w *model.Window) bool {
	return slices.ContainsFunc(v.pods(w), func(p *model.Pod) bool { return p.TerminatingBy(w.End.Latest) })
}

// cutOtherwise counts the requests of a window that were cut, and those of them that were under way when none of the
// Pods stopped.
func (v *index) cutOtherwise(w *model.Window, cutters []*cutter) (cut, others int) {
	for _, f := range v.failuresOf(w) {
		if f.Class != timeline.Reset && f.Class != timeline.EOF {
			continue
		}
		cut++
		if !slices.ContainsFunc(cutters, func(c *cutter) bool {
			return slices.ContainsFunc(c.ends, func(at model.Instant) bool {
				return f.Earliest() <= at.Latest+moment && cutIn(&f, model.Instant{Earliest: at.Earliest, Latest: at.Latest + moment})
			})
		}) {
			others++
		}
	}
	return cut, others
}

// pinnedFix says how to let clients go: tell them, and wait for what is in flight.
func pinnedFix(v *index, w *model.Window, cutters []*cutter, cut int) string {
	longest := time.Duration(0)
	for _, t := range v.Run.Targets {
		if t.Kind.Judged() && t.Service == v.target(w).Service && t.Latency != nil {
			longest = max(longest, t.Latency.Max)
		}
	}
	who := cutters[0].pod.Name
	if len(cutters) > 1 {
		who = quantity.Count(len(cutters), "Pod")
	}
	leave := "answer with Connection: close"
	switch url := v.target(w).URL; {
	case strings.HasPrefix(url, "tcp:"):
		leave = "close connections between two requests"
	case strings.HasPrefix(url, "grpc"):
		leave = "send GOAWAY"
	}
	every := ""
	if c := cutters[0]; c.as.most() == answersErrors && c.as.asksAnother() && len(v.containersOf(c.pod)) > 1 {
		every = fmt.Sprintf("let all containers that requests pass through end together, by the same preStop sleep: %s; ", v.sleeps(c.pod))
	}
	return every + fmt.Sprintf("from SIGTERM on %s, and keep serving ≥ %s before exiting, until every client has received it (the longest request took %s): %s cut %s",
		leave, quantity.Span(quantity.RoundUp(longest+drainMargin)), quantity.Span(longest), who, quantity.Count(cut, "request"))
}
