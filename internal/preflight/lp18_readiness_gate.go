package preflight

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

var readinessGate = Rule{
	ID: "LP18", Name: "readiness-gate", Needs: []Fact{PodsFact, EndpointsFact},
	Doc: "Pods have a readiness gate that nobody has set.",
	Check: func(s *State) (found []Finding) {
		unset := map[corev1.PodConditionType][]string{}
		for i := range s.Pods {
			p := &s.Pods[i]
			for _, gate := range p.Spec.ReadinessGates {
				if !slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool { return c.Type == gate.ConditionType }) {
					unset[gate.ConditionType] = append(unset[gate.ConditionType], p.Name)
				}
			}
		}
		for _, gate := range sortedKeys(unset) {
			found = append(found, Finding{
				Severity: WillBlock, Prediction: fmt.Sprintf("until somebody sets the condition %s, these Pods are not ready, and a rollout waits for them: %s", gate, strings.Join(unset[gate], ", ")),
				Evidence: []Evidence{{"Pod/" + unset[gate][0], "spec.readinessGates", string(gate)}, {"Pod/" + unset[gate][0], "status.conditions", "without " + string(gate)}},
				Fix:      "check the controller that is to set it (often that of a load balancer), or take the gate away",
			})
		}
		return found
	},
}
