package preflight

import (
	"fmt"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var shortPreStop = Rule{
	ID: "LP06", Name: "short-prestop", Needs: []Fact{TemplatesFact},
	Doc:         "The preStop hook sleeps for less time than routes outlive a Pod.",
	ConfirmedBy: staleRoutes, When: timeline.PodEnds, Predicts: []string{"route-outlives-pod"},
	Check: func(s *State) (found []Finding) {
		n, _ := s.count()
		for t, c := range s.servers() {
			h := preStop(c)
			length, known := sleeps(h)
			if h == nil || !known || length >= s.RouteLag.Most {
				continue
			}
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf("whenever a Pod ends, %s may still fail for up to %s after the sleep, unless the server goes on serving after SIGTERM", oneOf(n), quantity.Span(s.RouteLag.Most-length)),
				Evidence:   []Evidence{t.of(c, "lifecycle.preStop."+kindOf(h), length), s.RouteLag.evidence()},
				Fix:        fmt.Sprintf("sleep for %d s", s.RouteLag.cover()),
			})
		}
		return found
	},
}
