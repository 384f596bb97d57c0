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

// pinned-connection: persistent connections are pinned to the Pod they were opened to. When it ends
// they are cut, with a reset or in the middle of a reply, while new connections go elsewhere and are
// well. No route is to blame: the Pod did not ask its clients to leave.
//
//	new     ok ok ok ok ok ok ok
//	reused  ok ok x  x  ok ok ok      reset or closed as the Pod stopped, then redialled

// drainMargin is added to the longest request seen: how much longer another one may take.
const drainMargin = time.Second

// A cutter is a Pod at whose end connections that were pinned to it were cut.
type cutter struct {
	pod    *model.Pod
	target string          // of its own address; "" if there is none
	ends   []model.Instant // when it stopped and when it exited, as far as known
	proved bool            // by its own address
	cut    int             // requests
}

var pinnedConnection = Rule{
	Name: "pinned-connection",
	Doc:  "Persistent connections were cut when the Pod they were pinned to ended.",
	Looks: `Only "reused" fails, with resets or closed connections, when a Pod ends; "new" is clean. Of connections that are kept
open (--held), those that were on the Pod are closed after its deletion, or reset when it exits, and no others.`,
	Fix:  `Answer with "Connection: close" from SIGTERM on, and wait for what is in flight.`,
	Test: testPinnedConnection,
	Held: testHeldPinned,
}

func testPinnedConnection(c *Case) Finding {
	v, w := c.index, c.Window
	switch {
	case v.target(w).Kind != timeline.Reused:
		return no("the connections were not persistent")
	case some(w.Classes, timeline.Reset, timeline.EOF) == 0:
		return no("no connection was cut")
	}
	cutters, cut := findCutters(v, w)
	if len(cutters) == 0 {
		return no("no Pod ended " + quantity.Between(w.Start))
	}
	f := Finding{For: cutSigns(v, w, cutters), Text: cutText(cutters, cut), Fix: pinnedFix(v, w, cutters, cut)}
	for _, c := range cutters {
		if !c.proved {
			f.missing(doubt(Measured, c.pod.Name+"'s stop is only known from the watch: any change about that time fits as well"))
		}
		f.against(notKilled(c.pod)...)
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
		before, after := signsOfEnd(v, c.pod, c.ends[0])
		signs = append(append(signs, context(before...)...), c.sign())
		if len(cutters) == 1 {
			return append(append(signs, began), context(after...)...)
		}
	}
	return append(signs, began)
}

// sign is that the Pod stopped.
func (c *cutter) sign() Sign {
	s := Sign{model.Evidence{Target: c.target, At: &c.ends[0], Text: c.pod.Name + " stopped"}, Watched}
	if c.proved {
		s.Strength = Measured
	}
	return s
}

// findCutters finds the ending Pods whose ends cut the window's requests, each its own: those that were under way
// then, and the next one on each connection. One of them ended at the window's onset.
func findCutters(v *index, w *model.Window) (cutters []*cutter, cut int) {
	t := v.target(w)
	reach := time.Duration(float64(nextUse(t)) * float64(timeline.Target{Rate: t.Rate}.Interval()))
	opens := false
	for _, p := range v.pods(w) {
		if !p.TerminatingBy(w.End.Latest) {
			continue
		}
		if c := newCutter(v, w, p); c != nil {
			cutters = append(cutters, c)
			opens = opens || slices.ContainsFunc(c.ends, func(at model.Instant) bool {
				at.Latest += reach
				return at.Overlaps(v.onset(w))
			})
		}
	}
	if !opens {
		return nil, 0
	}
	for _, f := range v.failuresOf(w) {
		if f.Class != timeline.Reset && f.Class != timeline.EOF {
			continue
		}
		if c := cutterOf(cutters, f, reach); c != nil {
			c.cut++
			cut++
		}
	}
	cutters = slices.DeleteFunc(cutters, func(c *cutter) bool { return c.cut == 0 })
	slices.SortStableFunc(cutters, func(a, b *cutter) int { return cmp.Compare(a.ends[0].Earliest, b.ends[0].Earliest) })
	return cutters, cut
}

func newCutter(v *index, w *model.Window, p *model.Pod) *cutter {
	probe := v.probe(w, p)
	c := &cutter{pod: p, target: probe.target, proved: probe.stopped != nil}
	for _, at := range []*model.Instant{probe.stopped, p.Exited} {
		if at != nil && p.TerminatingBy(at.Latest) { // else it ended before anybody had asked for it
			c.ends = append(c.ends, *at)
		}
	}
	if len(c.ends) == 0 || !v.wasEndpoint(w, p, w.End.Latest) {
		return nil
	}
	return c
}

// cutterOf is the Pod that ended last before f was cut, nil if none ended so shortly before.
func cutterOf(cutters []*cutter, f model.Failure, reach time.Duration) (found *cutter) {
	var ended time.Duration
	for _, c := range cutters {
		for _, at := range c.ends {
			if at.Earliest <= f.Latest() && f.Earliest() <= at.Latest+reach && (found == nil || at.Earliest > ended) {
				found, ended = c, at.Earliest
			}
		}
	}
	return found
}

func cutText(cutters []*cutter, cut int) string {
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
		if trouble := v.windowNear(t, timeline.New, w.Span()); trouble != nil {
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
	if strings.HasPrefix(v.target(w).URL, "tcp:") {
		leave = "close connections between two requests"
	}
	return fmt.Sprintf("from SIGTERM on %s, and keep serving ≥ %s before exiting, until every client has received it (the longest request took %s): %s cut %s",
		leave, quantity.Span(quantity.RoundUp(longest+drainMargin)), quantity.Span(longest), who, quantity.Count(cut, "request"))
}
