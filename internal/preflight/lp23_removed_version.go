package preflight

import (
	"fmt"
	"slices"

	policyv1 "k8s.io/api/policy/v1"
)

var removedVersion = Rule{
	ID: "LP23", Name: "removed-version",
	Doc:         "A workload, a budget or an autoscaler has an apiVersion that Kubernetes has removed.",
	ConfirmedBy: []string{},
	Check: func(s *State) (found []Finding) {
		for _, r := range s.Refused {
			f := Finding{Evidence: []Evidence{{r.Kind + "/" + r.Name, "apiVersion", r.APIVersion}}, Fix: "today's apiVersion of the kind (kubectl convert writes it)"}
			switch r.Kind {
			case "PodDisruptionBudget":
				if !slices.ContainsFunc(s.running(), func(t template) bool {
					return slices.ContainsFunc(s.budgetsOn(t.meta.Labels), func(b *policyv1.PodDisruptionBudget) bool { return b.Name == r.Name })
				}) {
					continue
				}
				f.Severity, f.Prediction = MayLose, "and a drain may evict all Pods together"
			case "HorizontalPodAutoscaler":
				if !slices.ContainsFunc(s.Workloads, func(w Workload) bool { a := s.scaler(&w); return a != nil && a.Name == r.Name }) {
					continue
				}
				f.Severity, f.Prediction = MayLose, "and nothing scales the Pods"
			default:
				if !slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.object() == r.Kind+"/"+r.Name }) {
					continue
				}
				f.Severity, f.Prediction = WillBlock, "and no rollout begins"
			}
			f.Prediction = fmt.Sprintf("API servers since Kubernetes %s refuse this object: it is not there, %s", r.Since, f.Prediction)
			found = append(found, f)
		}
		return found
	},
}
