package watcher

import (
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// budgets watches the PodDisruptionBudgets of the Services' Pods.
func (n *namespace) budgets() restartable {
	s := &snapshots[*policyv1.PodDisruptionBudget]{
		kind:     "PodDisruptionBudget",
		take:     budgetOf,
		ours:     func(b *policyv1.PodDisruptionBudget) bool { return n.coversOurs(b.Namespace, b.Spec.Selector) },
		words:    budgetWords,
		changed:  budgetChanges,
		recorded: map[types.UID]timeline.Snapshot{},
	}
	return &reflector[*policyv1.PodDisruptionBudget]{
		kind:     s.kind,
		resource: "poddisruptionbudgets.policy",
		source:   from(n.Client.PodDisruptionBudgets(n.name)),
		services: n.keys(),
		in:       n.name,
		change:   s.change,
		w:        n.watcher,
	}
}

func budgetOf(b *policyv1.PodDisruptionBudget) timeline.Snapshot {
	return timeline.Snapshot{Budget: &timeline.Budget{
		MinAvailable:   snapshot.Either(b.Spec.MinAvailable),
		MaxUnavailable: snapshot.Either(b.Spec.MaxUnavailable),
		EvictUnhealthy: text(b.Spec.UnhealthyPodEvictionPolicy),
		Healthy:        int(b.Status.CurrentHealthy),
		Desired:        int(b.Status.DesiredHealthy),
		Expected:       int(b.Status.ExpectedPods),
		Allowed:        int(b.Status.DisruptionsAllowed),
	}}
}

func budgetWords(s timeline.Snapshot) string {
	b := s.Budget
	const state = "%d of %d Pods are healthy, %d must be: %d may be evicted"
	return fmt.Sprintf(state, b.Healthy, b.Expected, b.Desired, b.Allowed)
}

func budgetChanges(before, after timeline.Snapshot) []string {
	var all edits
	all.add("minAvailable", before.Budget.MinAvailable, after.Budget.MinAvailable)
	all.add("maxUnavailable", before.Budget.MaxUnavailable, after.Budget.MaxUnavailable)
	all.add("unhealthyPodEvictionPolicy", before.Budget.EvictUnhealthy, after.Budget.EvictUnhealthy)
	return all
}
