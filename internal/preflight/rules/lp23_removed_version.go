package rules

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"

	"lapse/internal/preflight/service"
)

var removedVersion = Rule{
	ID:          "LP23",
	Name:        "removed-version",
	Doc:         "A workload, a budget or an autoscaler has an apiVersion that Kubernetes has removed.",
	ConfirmedBy: []string{},
	Check: func(s *service.State) (found []Finding) {
		const refused = "API servers since Kubernetes %s refuse this object: it is not there, %s"
		for _, r := range s.Refused {
			severity, effect := withoutIt(s, &r)
			if effect == "" {
				continue
			}
			found = append(found, Finding{
				Severity:   severity,
				Prediction: fmt.Sprintf(refused, r.Since, effect),
				Evidence:   []service.Evidence{fact(r.Kind+"/"+r.Name, "apiVersion", r.APIVersion)},
				Fix:        "today's apiVersion of the kind (kubectl convert writes it)",
			})
		}
		return found
	},
}

// withoutIt says what happens to the Service's Pods without an object; "" if it has nothing to do with them.
func withoutIt(s *service.State, r *service.Refused) (Severity, string) {
	switch r.Kind {
	case "PodDisruptionBudget":
		isRefused := func(b *policyv1.PodDisruptionBudget) bool { return b.Name == r.Name }
		covered := func(t service.Template) bool { return slices.ContainsFunc(s.BudgetsOn(t.Meta.Labels), isRefused) }
		if slices.ContainsFunc(s.Running(), covered) {
			return MayLose, "and a drain may evict all Pods together"
		}
	case "HorizontalPodAutoscaler":
		scaled := func(w service.Workload) bool { a := s.Scaler(&w); return a != nil && a.Name == r.Name }
		if slices.ContainsFunc(s.Workloads, scaled) {
			return MayLose, "and nothing scales the Pods"
		}
	default:
		isRefused := func(w service.Workload) bool { return w.Object() == r.Kind+"/"+r.Name }
		if slices.ContainsFunc(s.Workloads, isRefused) {
			return WillBlock, "and no rollout begins"
		}
	}
	return "", ""
}
