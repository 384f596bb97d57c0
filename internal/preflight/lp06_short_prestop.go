package preflight

import (
	"fmt"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var shortPreStop = Rule{
	ID:          "LP06",
	Name:        "short-prestop",
	Doc:         "The preStop hook sleeps for less time than routes outlive a Pod.",
	Needs:       []Fact{TemplatesFact},
	ConfirmedBy: staleRoutes,
	When:        timeline.PodEnds,
	Predicts:    []string{"route-outlives-pod"},
	Unread:      unreadHooks,
	Check: func(s *State) (found []Finding) {
		const tooShort = "whenever a Pod ends, %s may still fail for up to %s after the sleep, %s"
		for t, c := range s.servers() {
			d := delayOf(c)
			if d.Serves == 0 || d.Unread != "" || d.Serves >= s.RouteLag.Most {
				continue
			}
			until := "unless the server goes on serving after SIGTERM"
			if d.Stops != "" {
				until = fmt.Sprintf("for then the hook runs `%s`", shown(d.Stops))
			}
			hook := "lifecycle.preStop." + kindOf(preStop(c))
			missing := quantity.Span(s.RouteLag.Most - d.Serves)
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(tooShort, oneOf(s.beside(t)), missing, until),
				Evidence:   []Evidence{t.of(c, hook, d.Serves), s.RouteLag.evidence()},
				Fix:        fmt.Sprintf("sleep for %d s", s.RouteLag.cover()),
			})
		}
		return found
	},
}
