package preflight

import (
	"fmt"

	"lapse/timeline"
)

// staleRoutes are the causes of requests to a Pod that had stopped: its routes outlived it, or kube-proxy or the
// EndpointSlice controller was late.
var staleRoutes = []string{"route-outlives-pod", "kube-proxy-late", "controller-lag"}

var noPreStop = Rule{
	ID:          "LP05",
	Name:        "no-prestop",
	Doc:         "No preStop hook delays SIGTERM: a server that stops listening at SIGTERM is still sent requests.",
	Needs:       []Fact{TemplatesFact},
	ConfirmedBy: staleRoutes,
	When:        timeline.PodEnds,
	Predicts:    []string{"route-outlives-pod"},
	Unread:      unreadHooks,
	Check: func(s *State) (found []Finding) {
		const (
			noDelay = "whenever a Pod ends, %s may fail until routes to it are gone (%s), " +
				"unless the server goes on serving after SIGTERM, which the spec does not show"
			stops = "whenever a Pod ends, %s may fail until routes to it are gone (%s): " +
				"the preStop hook runs `%s`, which closes the listener at once"
			serveOn = "preStop: {sleep: {seconds: %d}}, or a server that serves on for that long after SIGTERM"
		)
		for t, c := range s.servers() {
			d := delayOf(c)
			if d.Serves > 0 || d.Unread != "" {
				continue
			}
			requests, lag := oneOf(s.beside(t)), s.RouteLag.words()
			f := Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(noDelay, requests, lag),
				Evidence:   []Evidence{t.of(c, "lifecycle.preStop", hookText(c)), s.RouteLag.evidence()},
				Fix:        fmt.Sprintf(serveOn, s.RouteLag.cover()),
			}
			if d.Stops != "" {
				f.Prediction = fmt.Sprintf(stops, requests, lag, shown(d.Stops))
				f.Fix = fmt.Sprintf("sleep for %d s in the hook before that command", s.RouteLag.cover())
			}
			found = append(found, f)
		}
		return found
	},
}
