package rules

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

// slowRemoval is how long a readiness probe may take to fail. By default it takes as long: 3 times 10 s.
const slowRemoval = 30 * time.Second

var weakProbes = Rule{
	ID:   "LP09",
	Name: "weak-probes",
	Doc: "No readiness probe, a liveness probe that is the same check and fails no later, " +
		"or a readiness probe that takes more than 30 s to fail.",
	Needs:       []service.Fact{service.TemplatesFact},
	ConfirmedBy: []string{"startup-race"},
	Predicts:    []string{"startup-race", "pod-crashed/liveness", "no-ready-endpoint/liveness"},
	Check: func(s *service.State) (found []Finding) {
		for t, c := range s.Servers() {
			requests := oneOf(s.Sharing(t))
			if c.ReadinessProbe == nil {
				found = append(found, neverAsked(t, c, requests)...)
				continue
			}
			found = append(found, restartedInstead(t, c)...)
			found = append(found, removedLate(t, c, requests)...)
		}
		return found
	},
}

// neverAsked returns a finding about a container without a readiness probe.
func neverAsked(t *service.Template, c *corev1.Container, requests string) []Finding {
	const starts = "a new Pod is ready when its containers have started: %s may fail until the server listens"
	asked := func(o *corev1.Container) bool { return o.ReadinessProbe != nil || o.StartupProbe != nil }
	switch {
	case len(t.Spec.ReadinessGates) > 0: // a controller says when the Pod is ready
		return nil
	case slices.ContainsFunc(podspec.Lasting(&t.Spec), asked): // the Pod is not ready before that probe succeeds
		return nil
	}
	return []Finding{{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(starts, requests),
		Evidence:   []service.Evidence{t.Of(c, "readinessProbe", "none")},
		Fix:        "a readinessProbe that succeeds only once the server answers",
		When:       timeline.PodStarts,
	}}
}

// restartedInstead returns a finding about a liveness probe that restarts a Pod which readiness should only take out.
func restartedInstead(t *service.Template, c *corev1.Container) []Finding {
	const same = "liveness asks the same as readiness and fails no later (%s): " +
		"a Pod that is only slow is restarted instead of taken out of the Service, " +
		"and if what they all wait for is slow, all restart together"
	ready, alive := c.ReadinessProbe, c.LivenessProbe
	if alive == nil || !podspec.SameCheck(c, ready, alive) || podspec.FailsAfter(alive) > podspec.FailsAfter(ready) {
		return nil
	}
	restart, removal := quantity.Span(podspec.FailsAfter(alive)), quantity.Span(podspec.FailsAfter(ready))
	return []Finding{{
		Severity:   MayLose,
		Prediction: fmt.Sprintf(same, restart),
		Evidence: []service.Evidence{
			t.Of(c, "livenessProbe", "the same as readinessProbe, fails after "+restart),
			t.Of(c, "readinessProbe", "fails after "+removal),
		},
		Fix:         "a livenessProbe that asks less, or fails much later",
		ConfirmedBy: []string{"pod-crashed/liveness", "no-ready-endpoint/liveness"},
		When:        timeline.LivenessFails,
	}}
}

// removedLate returns a finding about a readiness probe that fails late.
func removedLate(t *service.Template, c *corev1.Container, requests string) []Finding {
	if podspec.FailsAfter(c.ReadinessProbe) <= slowRemoval {
		return nil
	}
	late := quantity.Span(podspec.FailsAfter(c.ReadinessProbe))
	return []Finding{{
		Severity:    MayLose,
		Prediction:  fmt.Sprintf("a Pod that hangs is sent %s for up to %s before it is taken out", requests, late),
		Evidence:    []service.Evidence{t.Of(c, "readinessProbe", "periodSeconds × failureThreshold = "+late)},
		Fix:         "periodSeconds × failureThreshold of 10 s or less",
		ConfirmedBy: []string{"pod-hung"},
	}}
}
