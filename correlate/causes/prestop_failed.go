package causes

import (
	"fmt"
	"slices"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// prestop-failed: a Pod has a preStop hook that was to keep it serving, and the hook failed: it was asked to end at
// once, and stopped before the routes to it were gone. As a command that the image does not have.
//
//	Pod     deleted  FailedPreStopHook  SIGTERM, stopped
//	svc     ok ok    x ok x ok x        ok ok

var preStopFailed = Rule{
	Name: "prestop-failed",
	Doc:  "A Pod's preStop hook failed, so the Pod stopped at once, before its node's routes had left it.",
	Looks: `As route-outlives-pod, and an Event FailedPreStopHook of the Pod that stopped: the hook was to keep it serving. Often
the image lacks the command, as "sleep" in a distroless image. If the hook itself ends the server, as "nginx -s quit"
does, it is killed with its container: then its failure is an effect, and the cause is route-outlives-pod. The
confidence is at most *medium* where Lapse cannot tell which of both it is.`,
	Fix:   "Use the hook kind sleep (preStop.sleep), which needs no command; or repair the command.",
	Needs: []Need{podsWatched},
	Test:  testPreStopFailed,
}

func testPreStopFailed(c *Case) Finding {
	v, w := c.index, c.Window
	r := v.raceIn(w)
	failed, stops := r.failedHooks(v)
	if len(stops) == 0 {
		return no("no preStop hook of a Pod that stopped is known to have failed")
	}
	if r.latest() != nil {
		return no("its route was changed too late for any hook")
	}
	s := slices.MaxFunc(stops, func(a, b *podStop) int { return int(a.lag().Min - b.lag().Min) })
	unclear := ""
	for i, e := range failed {
		if v.effectOf(stops[i], e) == notKnown {
			unclear = stops[i].pod.Name
			break
		}
	}
	f := Finding{
		Text: fmt.Sprintf("the preStop hook of %s%s failed, %s, and %s still routed there for %s", namedStops(stops), v.namedHooks(s.pod), stoppedAtOnce(stops, s.servedAfterKilling(), unclear != ""), v.router(w), s.about()),
		Fix: fmt.Sprintf("repair the hook, or use preStop.sleep, which needs no command: it must last ≥ %s, and failed (%s)%s",
			quantity.Span(quantity.RoundUp(s.servedAfterKilling()+s.lag().Min+routeMargin)), failed[0].Detail, servedUntilThen(s)),
	}
	for _, e := range failed[:min(len(failed), mostNamed)] {
		f.For = append(f.For, Sign{model.Evidence{Event: e.ID, At: new(e.At), Text: e.Object.Name + ": FailedPreStopHook, " + e.Detail}, Watched})
	}
	for _, s := range stops[:min(len(stops), mostNamed)] {
		if s.proved {
			f.For = append(f.For, Sign{model.Evidence{Target: s.target, At: &s.at, Text: s.pod.Name + " itself stopped answering"}, Measured})
			continue
		}
		f.missing(doubt(Measured, s.pod.Name+" has no direct target, so its stop is only known from the watch"))
	}
	f.For = append(f.For, Sign{model.Evidence{Target: w.Target, At: &w.Start, Text: "requests began to fail: " + quantity.ClassCounts(w.Classes)}, Watched})
	for _, s := range stops {
		f.Measures = append(f.Measures, model.Measure{Name: model.RouteLag, Object: s.pod.Name, Node: v.routerNode(w), Length: s.lag()})
	}
	if unclear != "" {
		f.missing(doubt(Measured, fmt.Sprintf("whether the hook of %s ends the server itself is not known: then it failed because it was killed with its container", unclear)))
		f.Fix = "if the hook ends the server itself, let it sleep first; else " + f.Fix
	}
	v.moreThanTheirShare(w, len(r.stops), &f)
	f.against(r.notTheirs()...)
	f.explains(w, r.explained)
	return f
}

// servedUntilThen says for how long a Pod is known to have served before it stopped; nothing where that is not known,
// or short.
func servedUntilThen(s *podStop) string {
	if served := s.servedAfterKilling(); served > 0 {
		return fmt.Sprintf("; %s served for ≥ %s before it stopped", s.pod.Name, quantity.Lowest(served))
	}
	return ""
}

// stoppedAtOnce says when Pods stopped, one of which is known to have served for a time after its shutdown had begun,
// and that this is what the hook's failure led to, unless that is unclear.
func stoppedAtOnce(stops []*podStop, served time.Duration, unclear bool) string {
	who, when, so := "it", "at once", "so"
	if len(stops) > 1 {
		who = "these"
	}
	if served > 0 {
		when = "too early"
	}
	if unclear {
		when, so = "about then", "and"
	}
	return so + " " + who + " stopped " + when
}
