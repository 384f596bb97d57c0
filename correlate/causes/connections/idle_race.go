package connections

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/timeline"
)

// idle-race: the server closes connections that were idle for some time, and the client uses each of them about that
// often: now and then a request is on its way while the server closes. Nothing changes in the cluster.
//
//	reused  ok ok ok x ok ok ok ok x ok      reset or closed, one at a time
//	direct  ok ok ok ok ok ok ok ok ok ok

var IdleRace = rule.Rule{
	Name:  "idle-race",
	Doc:   "The server closed idle connections at the moment at which they were used again.",
	Needs: []rule.Need{rule.PodsWatched},
	Test:  testIdleRace,
}

// leastIdle is the shortest time that a server keeps an idle connection: common servers close them after seconds.
const leastIdle = time.Second

func testIdleRace(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	t := v.Traffic.Target(w)
	cut := evidence.Count(w.Classes, timeline.Reset, timeline.EOF)
	idle := v.Traffic.Uses(t, evidence.NextUse(t)-1, w.Start.Earliest)
	switch {
	case t.Kind != timeline.Reused:
		return rule.No("the connections were not reused")
	case cut == 0:
		return rule.No("no connection was cut")
	case idle < leastIdle:
		return rule.No("each connection is used about every " + quantity.Span(idle) +
			": no server closes idle connections so soon")
	}
	for _, p := range v.Services.Pods(w) {
		if p.TerminatingBy(w.End.Latest) && !p.TerminatingBy(w.Start.Earliest-leastIdle) {
			return rule.No(p.Name + " was ending")
		}
		if p.Exited != nil && p.Exited.Overlaps(w.Span()) {
			return rule.No(p.Name + " exited")
		}
	}
	others := v.Suspects.OthersAnswered(w, nil)
	f := rule.Finding{
		Text: fmt.Sprintf("%s on reused connections that are used about every %s met a connection that the "+
			"server was just closing, with no Pod ending: it keeps idle connections for about as long",
			quantity.Count(cut, "request"), quantity.Span(idle)),
		Fix: fmt.Sprintf("let the server keep idle connections for longer than the client does: here each of %d was "+
			"idle for about %s between two requests", evidence.NextUse(t)-1, quantity.Span(idle)),
		For: []evidence.Sign{evidence.Watched.Target(w.Target, &w.Start, "reused connections were cut: "+
			quantity.ClassCounts(w.Classes))},
	}
	f.For = append(f.For, evidence.Mention(others...)...)
	if name := freshCut(v, w); name != "" {
		f.Oppose(evidence.Watched.Doubt("connections of " + name + " were cut as well, and these are never idle: " +
			"something cuts others too"))
	}
	doubt := evidence.Measured.Doubt("for how long each connection had been idle was not measured")
	if !cutAgain(v, w, idle) {
		doubt = evidence.Watched.Doubt(fmt.Sprintf("it happened once, within %s: a server that reloads, or ends one "+
			"of its workers, cuts the connections of that as well", quantity.Span(idle)))
	}
	f.Lack(doubt)
	if len(others) == 0 {
		f.Lack(evidence.Watched.Doubt("no Pod is known to have answered at its own address meanwhile: one may " +
			"have failed unseen"))
	}
	f.ExplainsAtMost(w, cut)
	return f
}

// cutAgain reports whether connections of the window's target were cut more than once: those that a worker of the
// server had are all met within the time in which each is used.
func cutAgain(v *evidence.Evidence, w *model.Window, used time.Duration) bool {
	first, last := model.Never, model.Unbounded
	for _, u := range v.Traffic.Measured(v.Traffic.Target(w)).Outages {
		if evidence.AnyEnds(v.Services.Pods(w), &u) {
			continue
		}
		for _, f := range v.Traffic.Failures(&u) {
			if f.Class == timeline.Reset || f.Class == timeline.EOF {
				first, last = min(first, f.Sent), max(last, f.Sent)
			}
		}
	}
	return last > first && last-first > used
}

// freshCut names a target that opens a connection for each request and was cut while no Pod of the Service was
// ending, at any time in the run; "" if none was.
func freshCut(v *evidence.Evidence, w *model.Window) string {
	fresh, pods := map[string]bool{}, v.Services.Pods(w)
	for i := range v.Run.Targets {
		if t := &v.Run.Targets[i]; t.Kind == timeline.New && v.Traffic.ShareRoutes(t, v.Traffic.Target(w)) {
			fresh[t.Name] = true
		}
	}
	for _, p := range pods {
		fresh[v.Addresses.DirectName(w, p)] = true
	}
	for _, name := range slices.Sorted(maps.Keys(fresh)) {
		if slices.ContainsFunc(v.Traffic.Measured(v.Traffic.Targets[name]).Outages, func(u model.Window) bool {
			return evidence.Count(u.Classes, timeline.Reset, timeline.EOF) > 0 && !evidence.AnyEnds(pods, &u)
		}) {
			return name
		}
	}
	return ""
}
