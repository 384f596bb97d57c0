package preflight

import (
	"fmt"
	"time"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var shortGrace = Rule{
	ID: "LP07", Name: "short-grace", Needs: []Fact{TemplatesFact},
	ConfirmedBy: []string{"grace-too-short"}, When: timeline.PodEnds, Predicts: []string{"grace-too-short"},
	Doc:    "The grace period leaves no time to finish after the preStop hook, or is 0.",
	Unread: unreadHooks,
	Check: func(s *State) (found []Finding) {
		for _, t := range s.running() {
			whole := grace(&t.spec)
			evidence := []Evidence{t.at("terminationGracePeriodSeconds", whole)}
			if whole == 0 {
				found = append(found, Finding{
					Severity: MayLose, Prediction: "a Pod that is deleted is gone from the API at once, and its containers have no more than about 2 s to end: requests that take longer are cut, and new ones may fail until routes are gone", Evidence: evidence, Fix: "leave terminationGracePeriodSeconds out (30 s), or set what the longest request needs",
				})
				continue
			}
			for _, c := range serving(s.Service, &t.spec) {
				d := delayOf(c)
				left, needed := whole-d.Lasts, max(0, s.RouteLag.Most-d.Serves)+s.LongestRequest
				if left > 0 && (left >= needed || d.Unread != "") {
					continue
				}
				with, fix := evidence, fmt.Sprintf("%s (routes) + your longest request", quantity.Span(s.RouteLag.Most))
				if h := preStop(c); h != nil {
					with = append(with, t.of(c, "lifecycle.preStop."+kindOf(h), hookText(c)))
				}
				if d.Lasts > 0 {
					fix = fmt.Sprintf("%s (preStop and routes) + your longest request", quantity.Span(max(d.Lasts, s.RouteLag.Most)))
				}
				if s.LongestRequest > 0 {
					fix = fmt.Sprintf("%s: preStop and routes, and requests of up to %s", quantity.Span(d.Lasts+needed), quantity.Span(s.LongestRequest))
					with = append(with, Evidence{"requests", "longest", fmt.Sprintf("%s, as --longest-request says", quantity.Span(s.LongestRequest))})
				}
				found = append(found, Finding{
					Severity: MayLose, Prediction: cut(left), Evidence: with,
					Fix: "terminationGracePeriodSeconds: more than " + fix,
				})
			}
		}
		return found
	},
}

// cut says what happens to requests where so much time is left after the hook.
// https://kubernetes.io/docs/concepts/containers/container-lifecycle-hooks/#hook-handler-execution
func cut(left time.Duration) string {
	if left <= 0 {
		return "preStop takes all of the grace period: the kubelet gives SIGTERM 2 s more, then kills the container (exit code 137); requests that take longer are cut"
	}
	return fmt.Sprintf("a server that goes on after SIGTERM is killed %s later (exit code 137): requests that still run then are cut", quantity.Span(left))
}
