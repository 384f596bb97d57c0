package rules

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/correlate/quantity"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var tooFewEndpoints = Rule{
	ID:   "LP01",
	Name: "too-few-endpoints",
	Doc:  "Fewer than 2 endpoints are ready: when the last one goes, nobody takes over.",
	ConfirmedBy: []string{
		"no-ready-endpoint/one-replica", "no-ready-endpoint/ended-by-itself",
		"no-ready-endpoint/readiness", "no-ready-endpoint/liveness",
		"replacement-waits", "pod-crashed", "node-unreachable", "node-presumed-dead",
	},
	When:     timeline.LastEndpointGoes,
	Predicts: []string{"no-ready-endpoint/one-replica"},
	Lacks: func(s *service.State) string {
		if len(scaledToNone(s)) > 0 {
			return ""
		}
		return s.Lacks(service.ReplicasFact)
	},
	Check: func(s *service.State) []Finding {
		if len(s.Service.Spec.Selector) == 0 {
			return nil
		}
		if found := scaledToNone(s); len(found) > 0 {
			return found
		}
		switch n, evidence := s.Count(); {
		case n.Least > 1:
			return nil
		case n.Most == 0:
			return noEndpoint(s, evidence)
		case n.Most > n.Least:
			return scaledToOne(evidence)
		default:
			return oneEndpoint(s, evidence)
		}
	},
}

// noEndpoint returns a finding about a Service without a Pod that serves. Wrong ports are found by LP21.
func noEndpoint(s *service.State, evidence []service.Evidence) []Finding {
	if len(s.Templates()) == 0 && len(s.Selected()) > 0 {
		return nil
	}
	f := Finding{
		Severity:    WillLose,
		Prediction:  "no endpoint is ready: all requests fail",
		Evidence:    evidence,
		Fix:         "run Pods that the Service selects and that become ready",
		ConfirmedBy: []string{"no-ready-endpoint"},
	}
	if s.Missing[service.EndpointsFact] != "" {
		f.Prediction = "0 Pods are asked for: all requests fail until somebody scales up"
		f.Fix = "2 replicas or more, or remove the Service"
	}
	return []Finding{f}
}

// scaledToNone returns a finding about autoscalers that leave no Pod while there is nothing to do.
func scaledToNone(s *service.State) []Finding {
	var evidence []service.Evidence
	for _, t := range s.Templates() {
		if t.Workload == nil {
			return nil
		}
		a := s.Scaler(t.Workload)
		if a == nil || a.Least() > 0 {
			return nil
		}
		evidence = append(evidence, a.Evidence())
	}
	if evidence == nil {
		return nil
	}
	return []Finding{{
		Severity: MayLose,
		Prediction: "the autoscaler leaves no Pod while none of its triggers is active: " +
			"all requests fail from then on until a new Pod is ready",
		Evidence:    evidence,
		Fix:         "keep 2 Pods or more, unless what sends the requests holds them until a Pod is ready",
		ConfirmedBy: []string{"no-ready-endpoint"},
	}}
}

// scaledToOne returns a finding about an autoscaler that may leave one Pod.
func scaledToOne(evidence []service.Evidence) []Finding {
	return []Finding{{
		Severity: MayLose,
		Prediction: "the autoscaler may leave 1 Pod: if that crashes or its node fails, all requests fail " +
			"until it is back or a new Pod is ready",
		Evidence: evidence,
		Fix:      "minReplicas: 2 or more, with a PodDisruptionBudget of maxUnavailable: 1",
	}}
}

// oneEndpoint returns a finding about a Service with a single Pod.
func oneEndpoint(s *service.State, evidence []service.Evidence) []Finding {
	const goes = "if its Pod crashes or its node fails, %s fail until it is back or a new Pod is ready. " +
		"In a drain they do too, unless the old Pod serves on after SIGTERM until then"
	requests := "all requests"
	if _, port := s.Rarest(s.Service.Spec.Ports); port != nil && s.Missing[service.EndpointsFact] != "" {
		requests = fmt.Sprintf("all requests to port %d", port.Port)
	}
	f := Finding{
		Severity:   WillLose,
		Prediction: fmt.Sprintf(goes, requests),
		Evidence:   evidence,
		Fix:        "2 replicas or more on different nodes, with a PodDisruptionBudget of maxUnavailable: 1",
	}
	if selectsOnePod(s) {
		f.Prediction = "the selector takes one Pod only, so nobody takes over: " + f.Prediction
		f.Fix = "nothing, if clients mean this very Pod and wait for it; " +
			"else a selector that takes all Pods of the StatefulSet"
	}
	if t, e := startTime(s); t > 0 {
		f.Prediction += fmt.Sprintf(". This Pod was ready at most %s after it was created", quantity.Span(t))
		f.Evidence = append(f.Evidence, e)
	}
	return []Finding{f}
}

// selectsOnePod reports whether the selector has a label that only one Pod of a StatefulSet has.
func selectsOnePod(s *service.State) bool {
	templates := s.Templates()
	if len(templates) != 1 || templates[0].Workload == nil {
		return false
	}
	return templates[0].Workload.Selected(s.Service).One != ""
}

// startTime returns the longest time from a Pod's creation until it was ready, or was ready again: it is an upper
// bound. Pods that were restarted are left out.
func startTime(s *service.State) (longest time.Duration, e service.Evidence) {
	for i := range s.Pods {
		p := &s.Pods[i]
		for _, c := range p.Status.Conditions {
			if c.Type != corev1.PodReady || c.Status != corev1.ConditionTrue || restarted(p) {
				continue
			}
			if t := c.LastTransitionTime.Sub(p.CreationTimestamp.Time); t > longest {
				longest = t
				e = fact("Pod/"+p.Name, "creationTimestamp → status.conditions[Ready]", quantity.Span(t))
			}
		}
	}
	return longest, e
}

func restarted(p *corev1.Pod) bool {
	again := func(c corev1.ContainerStatus) bool { return c.RestartCount > 0 }
	return slices.ContainsFunc(p.Status.ContainerStatuses, again)
}
