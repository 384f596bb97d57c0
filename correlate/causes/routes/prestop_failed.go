package routes

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/causes/rule"
	"lapse/correlate/model"
	"lapse/correlate/quantity"
)

// prestop-failed: a Pod has a preStop hook that was to keep it serving, and the hook failed: it was asked to end at
// once, and stopped before the routes to it were gone. As a command that the image does not have.
//
//	Pod     deleted  FailedPreStopHook  SIGTERM, stopped
//	svc     ok ok    x ok x ok x        ok ok

var PreStopFailed = rule.Rule{
	Name:  "prestop-failed",
	Doc:   "A Pod's preStop hook failed, so the Pod stopped at once, before its node's routes had left it.",
	Needs: []rule.Need{rule.PodsWatched},
	Test:  testPreStopFailed,
}

func testPreStopFailed(c *rule.Case) rule.Finding {
	v, w := c.Evidence, c.Window
	r := v.Routes.Race(w)
	failed := r.FailedHooks(v.Endings)
	if len(failed) == 0 {
		return rule.No("no preStop hook of a Pod that stopped is known to have failed")
	}
	if r.LatestStop() != nil {
		return rule.No("its route was changed too late for any hook")
	}
	longest := slices.MaxFunc(failed, func(a, b *evidence.FailedHook) int {
		return cmp.Compare(a.Stop.Lag().Min, b.Stop.Lag().Min)
	})
	s := longest.Stop
	var stops []*evidence.PodStop
	var unclear, beside *evidence.FailedHook
	for _, h := range failed {
		stops = append(stops, h.Stop)
		if unclear == nil && h.Unclear {
			unclear = h
		}
		if beside == nil && h.Beside != "" {
			beside = h
		}
	}
	f := rule.Finding{
		Text: fmt.Sprintf("the preStop hook of %s%s failed, %s, and %s still routed there for %s",
			evidence.NamedStops(stops), longest.Runs, stoppedAtOnce(stops, s.ServedAfterKilling(),
				unclear != nil || beside != nil), v.Services.Router(w), s.About()),
		Fix: fmt.Sprintf("repair the hook, or use preStop.sleep, which needs no command: it must last ≥ %s, and "+
			"failed (%s)%s",
			quantity.Span(quantity.RoundUp(s.ServedAfterKilling()+s.Lag().Min+evidence.RouteMargin)), longest.Detail,
			servedUntilThen(s)),
	}
	for _, h := range failed[:min(len(failed), rule.MostNamed)] {
		what := h.Object.Name + ": FailedPreStopHook"
		if h.Container != "" {
			what += " of " + h.Container
		}
		f.For = append(f.For, evidence.Watched.Seen(h.Event, what+", "+h.Detail))
	}
	for _, s := range stops[:min(len(stops), rule.MostNamed)] {
		if s.Proved {
			f.For = append(f.For, evidence.Measured.Target(s.Target, &s.At,
				s.Pod.Name+" stopped answering new clients"))
			continue
		}
		f.Lack(evidence.Measured.Doubt(s.Pod.Name +
			" has no direct target, so its stop is only known from the watch"))
	}
	f.For = append(f.For, evidence.Watched.Target(w.Target, &w.Start, "requests began to fail: "+
		quantity.ClassCounts(w.Classes)))
	for _, s := range stops {
		f.Measures = append(f.Measures, model.Measure{Name: model.RouteLag, Object: s.Pod.Name,
			Node: v.Services.RouterNode(w), Length: s.Lag()})
	}
	switch {
	case unclear == nil:
	case unclear.MayEnd:
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("whether the hook of %s ends the server itself is not known: "+
			"then it failed because it was killed with its container", unclear.Stop.Pod.Name)))
		f.Fix = "if the hook ends the server itself, let it sleep first; else " + f.Fix
	default:
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("whether the hook of %s was to keep it serving is not known: if "+
			"not, it would have stopped then without the failure as well", unclear.Stop.Pod.Name)))
	}
	if beside != nil {
		f.Lack(evidence.Measured.Doubt(fmt.Sprintf("%s of %s may be the container that serves, and it did not wait "+
			"for that hook", beside.Beside, beside.Stop.Pod.Name)))
		f.Fix += fmt.Sprintf("; if %s serves, it needs such a sleep, too", beside.Beside)
	}
	rule.MoreThanTheirShare(v, w, len(r.Stops), &f)
	f.Oppose(r.NotTheirs()...)
	f.ExplainsAtMost(w, r.Explained)
	return f
}

// servedUntilThen says for how long a Pod is known to have served before it stopped; nothing where that is not known,
// or short.
func servedUntilThen(s *evidence.PodStop) string {
	if served := s.ServedAfterKilling(); served > 0 {
		return fmt.Sprintf("; %s served for ≥ %s before it stopped", s.Pod.Name, quantity.Lowest(served))
	}
	return ""
}

// stoppedAtOnce says that Pods stopped because the hook had failed: at once, or too early if one served for a time. If
// the reason is unclear, it says only when.
func stoppedAtOnce(stops []*evidence.PodStop, served time.Duration, unclear bool) string {
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
