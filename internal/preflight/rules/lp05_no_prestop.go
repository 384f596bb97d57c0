package rules

import (
	"fmt"

	"lapse/internal/preflight/service"
	"lapse/timeline"
)

// staleRoutes are the causes that a run names if requests were sent to a Pod that had stopped.
var staleRoutes = []string{"route-outlives-pod", "kube-proxy-late", "controller-lag"}

// unpublish says what to do where a hook that sleeps does not help: a Pod's endpoint is ready until it is gone.
// https://kubernetes.io/docs/concepts/services-networking/endpoint-slices/#conditions
func unpublish(s *service.State) string {
	what := "leave publishNotReadyAddresses out"
	if isHeadless(s) { // the Pods of a StatefulSet find each other so, and may not get ready without
		what = "a second Service for clients, without publishNotReadyAddresses"
	}
	return what + ", with which a Pod is sent requests until it is gone, however long a hook sleeps"
}

var noPreStop = Rule{
	ID:          "LP05",
	Name:        "no-prestop",
	Doc:         "No preStop hook delays SIGTERM: a server that stops listening at SIGTERM is still sent requests.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: staleRoutes,
	When:        timeline.PodEnds,
	Predicts:    []string{"route-outlives-pod"},
	Unread:      unreadHooks,
	Check: func(s *service.State) (found []Finding) {
		const (
			noDelay = "whenever a Pod ends, %s may fail until routes to it are gone (%s), " +
				"unless the server goes on serving after SIGTERM, which the spec does not show"
			stops = "whenever a Pod ends, %s may fail until routes to it are gone (%s): " +
				"the preStop hook runs `%s`, which closes the listener at once"
			serveOn = "preStop: {sleep: {seconds: %d}}, or a server that serves on for that long after SIGTERM"
		)
		for t, c := range s.Servers() {
			d := delayOf(c)
			if d.Serves > 0 || d.Unread != "" {
				continue
			}
			requests, lag := oneOf(s.Sharing(t)), s.RouteLag.Words()
			f := Finding{
				Severity:   MayLose,
				Prediction: fmt.Sprintf(noDelay, requests, lag),
				Evidence:   []service.Evidence{t.Of(c, "lifecycle.preStop", hookText(c)), s.RouteLag.Evidence()},
				Fix:        fmt.Sprintf(serveOn, s.RouteLag.Cover()),
			}
			if d.Stops != "" {
				f.Prediction = fmt.Sprintf(stops, requests, lag, service.Shown(d.Stops))
				f.Fix = fmt.Sprintf("sleep for %d s in the hook before that command", s.RouteLag.Cover())
			}
			if s.Service.Spec.PublishNotReadyAddresses {
				f.Fix = unpublish(s)
			}
			found = append(found, f)
		}
		return found
	},
}
