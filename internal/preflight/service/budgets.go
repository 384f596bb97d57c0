package service

import (
	"slices"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// BudgetsOn returns the budgets that cover Pods with these labels.
func (s *State) BudgetsOn(set map[string]string) (on []*policyv1.PodDisruptionBudget) {
	for i := range s.Budgets {
		if Covers(&s.Budgets[i], set) {
			on = append(on, &s.Budgets[i])
		}
	}
	return on
}

// Covers reports whether a budget is about Pods with these labels: with an empty selector always, without one never.
// https://kubernetes.io/docs/reference/kubernetes-api/policy-resources/pod-disruption-budget-v1/
func Covers(b *policyv1.PodDisruptionBudget, set map[string]string) bool {
	selector, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	return err == nil && selector.Matches(labels.Set(set))
}

// Covered reports whether a budget is about any of the Service's Pods.
func (s *State) Covered() bool {
	return slices.ContainsFunc(s.Running(), func(t Template) bool { return len(s.BudgetsOn(t.Meta.Labels)) > 0 })
}
