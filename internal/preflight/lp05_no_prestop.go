package preflight

import (
	"fmt"

	"lapse/timeline"
)

// staleRoutes are the causes that requests went to a Pod which had stopped: kube-proxy or the EndpointSlice
// controller can be late beside.
var staleRoutes = []string{"route-outlives-pod", "kube-proxy-late", "controller-lag"}

var noPreStop = Rule{
	ID: "LP05", Name: "no-prestop", Needs: []Fact{TemplatesFact},
	Doc:         "No preStop hook delays SIGTERM: a server that stops listening at SIGTERM is still sent requests.",
	ConfirmedBy: staleRoutes, When: timeline.PodEnds, Predicts: []string{"route-outlives-pod"},
	Unread: unreadHooks,
	Check: func(s *State) (found []Finding) {
		for t, c := range s.servers() {
			d := delayOf(c)
			if d.Serves > 0 || d.Unread != "" {
				continue
			}
			f := Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf("whenever a Pod ends, %s may fail until routes to it are gone (%s), unless the server goes on serving after SIGTERM, which the spec does not show", oneOf(s.beside(t)), s.RouteLag.words()),
				Evidence:   []Evidence{t.of(c, "lifecycle.preStop", hookText(c)), s.RouteLag.evidence()},
				Fix:        fmt.Sprintf("preStop: {sleep: {seconds: %d}}, or a server that serves on for that long after SIGTERM", s.RouteLag.cover()),
			}
			if d.Stops != "" {
				f.Prediction = fmt.Sprintf("whenever a Pod ends, %s may fail until routes to it are gone (%s): the preStop hook runs `%s`, which closes the listener at once", oneOf(s.beside(t)), s.RouteLag.words(), shown(d.Stops))
				f.Fix = fmt.Sprintf("sleep for %d s in the hook before that command", s.RouteLag.cover())
			}
			found = append(found, f)
		}
		return found
	},
}
