package rules

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"lapse/internal/preflight/service"
)

var readinessGate = Rule{
	ID:    "LP18",
	Name:  "readiness-gate",
	Doc:   "Pods have a readiness gate that nobody has set.",
	Needs: []service.Fact{service.PodsFact, service.EndpointsFact},
	Check: func(s *service.State) (found []Finding) {
		unset := map[corev1.PodConditionType][]string{}
		for i := range s.Pods {
			p := &s.Pods[i]
			for _, gate := range p.Spec.ReadinessGates {
				isGate := func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType }
				if !slices.ContainsFunc(p.Status.Conditions, isGate) {
					unset[gate.ConditionType] = append(unset[gate.ConditionType], p.Name)
				}
			}
		}
		for _, gate := range slices.Sorted(maps.Keys(unset)) {
			found = append(found, waitsForGate(string(gate), unset[gate]))
		}
		return found
	},
}

func waitsForGate(gate string, pods []string) Finding {
	const waits = "until somebody sets the condition %s, these Pods are not ready, and a rollout waits for them: %s"
	first := "Pod/" + pods[0]
	return Finding{
		Severity:   WillBlock,
		Prediction: fmt.Sprintf(waits, gate, strings.Join(pods, ", ")),
		Evidence: []service.Evidence{
			fact(first, "spec.readinessGates", gate),
			fact(first, "status.conditions", "without "+gate),
		},
		Fix: "check the controller that is to set it (often that of a load balancer), or take the gate away",
	}
}
