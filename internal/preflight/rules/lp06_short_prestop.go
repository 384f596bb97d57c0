package rules

import (
	"fmt"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var shortPreStop = Rule{
	ID:          "LP06",
	Name:        "short-prestop",
	Doc:         "The preStop hook sleeps for less time than routes outlive a Pod.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: staleRoutes,
	When:        timeline.PodEnds,
	Predicts:    []string{"route-outlives-pod"},
	Unread:      unreadHooks,
	Check: func(s *service.State) (found []Finding) {
		const tooShort = "whenever a Pod ends, %s may still fail for up to %s after the sleep, %s"
		for t, c := range s.Servers() {
			d := delayOf(c)
			if d.Serves == 0 || d.Unread != "" || d.Serves >= s.RouteLag.Most {
				continue
			}
			until := "unless the server goes on serving after SIGTERM"
			if d.Stops != "" {
				until = fmt.Sprintf("because the hook then runs `%s`", service.Shown(d.Stops))
			}
			hook := "lifecycle.preStop." + podspec.HookKind(podspec.PreStop(c))
			missing := quantity.Span(s.RouteLag.Most - d.Serves)
			fix := fmt.Sprintf("sleep for %d s", s.RouteLag.Cover())
			if s.Service.Spec.PublishNotReadyAddresses {
				fix = unpublish(s)
			}
			found = append(found, Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(tooShort, oneOf(s.Sharing(t)), missing, until),
				Evidence:   []service.Evidence{t.Of(c, hook, d.Serves), s.RouteLag.Evidence()},
				Fix:        fix,
			})
		}
		return found
	},
}
