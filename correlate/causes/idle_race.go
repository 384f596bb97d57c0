package causes

import (
	"fmt"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// idle-race: the server closes connections that were idle for some time, and the client uses each of them about that often: now and then a
// request is on its way while the server closes. Nothing changes in the cluster.
//
//	reused  ok ok ok x ok ok ok ok x ok      reset or closed, one at a time
//	direct  ok ok ok ok ok ok ok ok ok ok

var idleRace = Rule{
	Name: "idle-race",
	Doc:  "The server closed idle connections at the moment at which they were used again.",
	Looks: `Only "reused" fails, with resets or closed connections, a few at a time and again and again. No Pod ends, and all answer at their own addresses.
Each connection is used as seldom as the rate and the number of connections say.`,
	Fix:   "Let the server keep idle connections for longer than the client does, or let the client close them first.",
	Needs: []Need{podsWatched},
	Test:  testIdleRace,
}

// leastIdle is for how long a server keeps an idle connection at least: those in use close them after seconds.
const leastIdle = time.Second

func testIdleRace(c *Case) Finding {
	v, w := c.index, c.Window
	t := v.target(w)
	cut := some(w.Classes, timeline.Reset, timeline.EOF)
	idle := time.Duration(0)
	if t.Rate > 0 {
		idle = time.Duration(float64(nextUse(t)-1) / t.Rate * float64(time.Second))
	}
	switch {
	case t.Kind != timeline.Reused:
		return no("the connections were not persistent")
	case cut == 0:
		return no("no connection was cut")
	case idle < leastIdle:
		return no("each connection is used about every " + quantity.Span(idle) + ": no server closes idle connections so soon")
	}
	for _, p := range v.pods(w) {
		if p.TerminatingBy(w.End.Latest) && !p.TerminatingBy(w.Start.Earliest-leastIdle) {
			return no(p.Name + " was ending")
		}
		if p.Exited != nil && p.Exited.Overlaps(w.Span()) {
			return no(p.Name + " exited")
		}
	}
	others := v.othersAnswered(w, nil)
	f := Finding{
		Text: fmt.Sprintf("%s on persistent connections that are used about every %s met a connection that the server was just closing, with no Pod ending: it keeps idle connections for about as long",
			quantity.Count(cut, "request"), quantity.Span(idle)),
		Fix: fmt.Sprintf("let the server keep idle connections for longer than the client does: here each of %d was idle for about %s between two requests", nextUse(t)-1, quantity.Span(idle)),
		For: []Sign{{model.Evidence{Target: w.Target, At: &w.Start, Text: "persistent connections were cut: " + quantity.ClassCounts(w.Classes)}, Watched}},
	}
	f.For = append(f.For, context(others...)...)
	f.missing(doubt(Measured, "for how long each connection had been idle was not measured"))
	if len(others) == 0 {
		f.missing(doubt(Watched, "no Pod is known to have answered at its own address meanwhile: one may have failed unseen"))
	}
	f.explains(w, cut)
	return f
}
