package rules

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var shortGrace = Rule{
	ID:          "LP07",
	Name:        "short-grace",
	Doc:         "The grace period leaves no time to finish after the preStop hook, or is 0.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: []string{"grace-too-short"},
	When:        timeline.PodEnds,
	Predicts:    []string{"grace-too-short"},
	Unread:      unreadHooks,
	Check: func(s *service.State) (found []Finding) {
		for _, t := range s.Running() {
			if podspec.Grace(&t.Spec) == 0 {
				found = append(found, noGrace(&t))
				continue
			}
			for _, c := range podspec.Serving(s.Service, &t.Spec) {
				if f, short := graceEnds(s, &t, c); short {
					found = append(found, f)
				}
			}
		}
		return found
	},
}

// period returns the grace period as evidence.
func period(t *service.Template) service.Evidence {
	return t.At("terminationGracePeriodSeconds", podspec.Grace(&t.Spec))
}

func noGrace(t *service.Template) Finding {
	return Finding{
		Severity: MayLose,
		Prediction: "a Pod that is deleted is gone from the API at once, " +
			"and its containers have no more than about 2 s to end: " +
			"requests that take longer are cut, and new ones may fail until routes are gone",
		Evidence: []service.Evidence{period(t)},
		Fix:      "leave terminationGracePeriodSeconds out (30 s), or set what the longest request needs",
	}
}

// graceEnds returns a finding about a container that is killed before its hook, its routes and its requests have ended.
func graceEnds(s *service.State, t *service.Template, c *corev1.Container) (Finding, bool) {
	d := delayOf(c)
	left := podspec.Grace(&t.Spec) - d.Lasts
	needed := max(0, s.RouteLag.Most-d.Serves) + s.LongestRequest
	if left > 0 && (left >= needed || d.Unread != "") {
		return Finding{}, false
	}
	f := Finding{Severity: MayLose, Prediction: cut(left), Evidence: []service.Evidence{period(t)}}
	if h := podspec.PreStop(c); h != nil {
		f.Evidence = append(f.Evidence, t.Of(c, "lifecycle.preStop."+podspec.HookKind(h), hookText(c)))
	}
	longest := quantity.Span(s.LongestRequest)
	least := fmt.Sprintf("%s (routes) + your longest request", quantity.Span(s.RouteLag.Most))
	if d.Lasts > 0 {
		both := max(d.Lasts, s.RouteLag.Most)
		least = fmt.Sprintf("%s (preStop and routes) + your longest request", quantity.Span(both))
	}
	if s.LongestRequest > 0 {
		least = fmt.Sprintf("%s: preStop and routes, and requests of up to %s", quantity.Span(d.Lasts+needed), longest)
		f.Evidence = append(f.Evidence, fact("requests", "longest", longest+", as --longest-request says"))
	}
	f.Fix = "terminationGracePeriodSeconds: more than " + least
	return f, true
}

// cut says what happens to requests if the hook leaves this much of the grace period.
// https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution
func cut(left time.Duration) string {
	const killed = "a server that goes on after SIGTERM is killed %s later (exit code 137): " +
		"requests that still run then are cut"
	if left <= 0 {
		return "preStop takes all of the grace period: the kubelet gives SIGTERM 2 s more, " +
			"then kills the container (exit code 137); requests that take longer are cut"
	}
	return fmt.Sprintf(killed, quantity.Span(left))
}
