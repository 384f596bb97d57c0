package preflight

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var tooFewEndpoints = Rule{
	ID: "LP01", Name: "too-few-endpoints", Needs: []Fact{ReplicasFact},
	Doc: "Fewer than 2 endpoints are ready: when the last one goes, nobody takes over.",
	ConfirmedBy: []string{
		"no-ready-endpoint/one-replica", "no-ready-endpoint/ended-by-itself", "no-ready-endpoint/readiness", "no-ready-endpoint/liveness",
		"replacement-waits", "pod-crashed", "node-unreachable", "node-presumed-dead",
	},
	When: timeline.LastEndpointGoes, Predicts: []string{"no-ready-endpoint/one-replica"},
	Check: func(s *State) []Finding {
		if len(s.Service.Spec.Selector) == 0 {
			return nil
		}
		n, evidence := s.count()
		switch {
		case n > 1:
			return nil
		case n == 0:
			return []Finding{{Severity: WillLose, ConfirmedBy: []string{"no-ready-endpoint"}, Prediction: "no endpoint is ready: all requests fail", Evidence: evidence, Fix: "run Pods that the Service selects and that become ready"}}
		}
		text := "if its Pod crashes or its node fails, all requests fail until it is back or a new Pod is ready. In a drain they do too, unless the old Pod serves on after SIGTERM until then"
		if t, e := s.startTime(); t > 0 {
			text += fmt.Sprintf(". This Pod was ready at most %s after it was created", quantity.Span(t))
			evidence = append(evidence, e)
		}
		return []Finding{{Severity: WillLose, Prediction: text, Evidence: evidence, Fix: "2 replicas or more on different nodes, with a PodDisruptionBudget of maxUnavailable: 1"}}
	},
}

// startTime is the longest that one of the Pods that were never restarted took from its creation until it was ready,
// which a Pod that was unready since makes longer than it was.
func (s *State) startTime() (longest time.Duration, e Evidence) {
	for i := range s.Pods {
		p := &s.Pods[i]
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue || restarted(p) {
				continue
			}
			if t := c.LastTransitionTime.Sub(p.CreationTimestamp.Time); t > longest {
				longest, e = t, Evidence{"Pod/" + p.Name, "creationTimestamp → status.conditions[Ready]", quantity.Span(t)}
			}
		}
	}
	return longest, e
}

func restarted(p *corev1.Pod) bool {
	for _, c := range p.Status.ContainerStatuses {
		if c.RestartCount > 0 {
			return true
		}
	}
	return false
}
