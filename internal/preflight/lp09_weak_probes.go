package preflight

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

// slowRemoval is from when on a Pod that hangs counts as removed late: after more than by Kubernetes' defaults.
const slowRemoval = 30 * time.Second

var weakProbes = Rule{
	ID: "LP09", Name: "weak-probes", Needs: []Fact{TemplatesFact},
	Doc:         "No readiness probe, a liveness probe that is the same check and fails no later, or a readiness probe that takes more than 30 s to fail.",
	ConfirmedBy: []string{"startup-race"}, Predicts: []string{"startup-race", "pod-crashed/liveness", "no-ready-endpoint/liveness"},
	Check: func(s *State) (found []Finding) {
		for t, c := range s.servers() {
			found = append(found, weak(t, c, s.beside(t))...)
		}
		return found
	},
}

func weak(t *template, c *corev1.Container, n amount) (found []Finding) {
	ready, alive := c.ReadinessProbe, c.LivenessProbe
	if ready == nil {
		if len(t.spec.ReadinessGates) > 0 { // somebody else says when the Pod is ready
			return nil
		}
		if slices.ContainsFunc(lasting(&t.spec), func(o *corev1.Container) bool { return o.ReadinessProbe != nil || o.StartupProbe != nil }) {
			return nil // the Pod is not ready before that one succeeds
		}
		return []Finding{{
			Severity: MayLose, When: timeline.PodStarts, Prediction: fmt.Sprintf("a new Pod is ready when its containers have started: %s may fail until the server listens", oneOf(n)),
			Evidence: []Evidence{t.of(c, "readinessProbe", "none")}, Fix: "a readinessProbe that succeeds only once the server answers",
		}}
	}
	if alive != nil && sameCheck(c, ready, alive) && failsAfter(alive) <= failsAfter(ready) {
		found = append(found, Finding{
			Severity: MayLose, ConfirmedBy: []string{"pod-crashed/liveness", "no-ready-endpoint/liveness"}, When: timeline.LivenessFails,
			Prediction: fmt.Sprintf("liveness asks the same as readiness and fails no later (%s): a Pod that is only slow is restarted instead of taken out of the Service, and if what they all wait for is slow, all restart together", quantity.Span(failsAfter(alive))),
			Evidence:   []Evidence{t.of(c, "livenessProbe", fmt.Sprintf("the same as readinessProbe, fails after %s", quantity.Span(failsAfter(alive)))), t.of(c, "readinessProbe", fmt.Sprintf("fails after %s", quantity.Span(failsAfter(ready))))},
			Fix:        "a livenessProbe that asks less, or fails much later",
		})
	}
	if late := failsAfter(ready); late > slowRemoval {
		found = append(found, Finding{
			Severity: MayLose, ConfirmedBy: []string{"pod-hung"}, Prediction: fmt.Sprintf("a Pod that hangs is sent %s for up to %s before it is taken out", oneOf(n), quantity.Span(late)),
			Evidence: []Evidence{t.of(c, "readinessProbe", fmt.Sprintf("periodSeconds × failureThreshold = %s", quantity.Span(late)))},
			Fix:      "periodSeconds × failureThreshold of 10 s or less",
		})
	}
	return found
}
