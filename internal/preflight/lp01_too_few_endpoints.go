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
		case n.least > 1:
			return nil
		case n.most == 0:
			return s.noEndpoint(evidence)
		case n.most > n.least:
			return []Finding{{
				Severity: MayLose, Prediction: "the autoscaler may leave 1 Pod: if that crashes or its node fails, all requests fail until it is back or a new Pod is ready",
				Evidence: evidence, Fix: "minReplicas: 2 or more, with a PodDisruptionBudget of maxUnavailable: 1",
			}}
		}
		fix := "2 replicas or more on different nodes, with a PodDisruptionBudget of maxUnavailable: 1"
		templates := s.templates()
		one := len(templates) == 1 && templates[0].workload != nil && templates[0].workload.selected(s.Service).one != ""
		if one {
			fix = "nothing, if clients mean this very Pod and wait for it; else a selector that takes all Pods of the StatefulSet"
		}
		text := ""
		if one {
			text = "the selector takes one Pod only, so nobody takes over: "
		}
		requests := "all requests"
		if _, port := s.rarest(s.Service.Spec.Ports); port != nil && s.Missing[EndpointsFact] != "" {
			requests = fmt.Sprintf("all requests to port %d", port.Port)
		}
		text += "if its Pod crashes or its node fails, " + requests + " fail until it is back or a new Pod is ready. In a drain they do too, unless the old Pod serves on after SIGTERM until then"
		if t, e := s.startTime(); t > 0 {
			text += fmt.Sprintf(". This Pod was ready at most %s after it was created", quantity.Span(t))
			evidence = append(evidence, e)
		}
		return []Finding{{Severity: WillLose, Prediction: text, Evidence: evidence, Fix: fix}}
	},
}

// noEndpoint is about a Service without a Pod that serves. What is wrong with the ports is LP21's.
func (s *State) noEndpoint(evidence []Evidence) []Finding {
	if len(s.templates()) == 0 && len(s.selected()) > 0 {
		return nil
	}
	f := Finding{
		Severity: WillLose, ConfirmedBy: []string{"no-ready-endpoint"}, Prediction: "no endpoint is ready: all requests fail",
		Evidence: evidence, Fix: "run Pods that the Service selects and that become ready",
	}
	if s.Missing[EndpointsFact] != "" {
		f.Prediction, f.Fix = "no Pod is asked for: all requests fail until somebody scales it up", "2 replicas or more, or remove the Service"
	}
	return []Finding{f}
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
