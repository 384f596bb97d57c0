package watcher

import (
	"context"
	"fmt"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/timeline"
)

// budgets watches the PodDisruptionBudgets that are about the Services' Pods.
func (n *namespace) budgets() restartable {
	client := n.Client.PodDisruptionBudgets(n.name)
	s := &snapshots[*policyv1.PodDisruptionBudget]{
		kind: "PodDisruptionBudget", recorded: map[types.UID]timeline.Snapshot{}, take: budgetOf, words: budgetWords, changed: budgetChanges,
		ours: func(b *policyv1.PodDisruptionBudget) bool { return n.coversOurs(b.Namespace, b.Spec.Selector) },
	}
	return &reflector[*policyv1.PodDisruptionBudget]{
		kind: s.kind, resource: "poddisruptionbudgets.policy", in: n.name, services: n.keys(), w: n.watcher, change: s.change,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return client.Watch(ctx, o) },
	}
}

func budgetOf(b *policyv1.PodDisruptionBudget) timeline.Snapshot {
	is := &timeline.Budget{
		MinAvailable: orNil(b.Spec.MinAvailable), MaxUnavailable: orNil(b.Spec.MaxUnavailable), EvictUnhealthy: text(b.Spec.UnhealthyPodEvictionPolicy),
		Healthy: int(b.Status.CurrentHealthy), Desired: int(b.Status.DesiredHealthy), Expected: int(b.Status.ExpectedPods), Allowed: int(b.Status.DisruptionsAllowed),
	}
	return timeline.Snapshot{Budget: is}
}

func budgetWords(s timeline.Snapshot) string {
	b := s.Budget
	return fmt.Sprintf("%d of %d Pods are healthy, %d must be: %d may be evicted", b.Healthy, b.Expected, b.Desired, b.Allowed)
}

func budgetChanges(before, after timeline.Snapshot) []string {
	var all edits
	all.add("minAvailable", before.Budget.MinAvailable, after.Budget.MinAvailable)
	all.add("maxUnavailable", before.Budget.MaxUnavailable, after.Budget.MaxUnavailable)
	all.add("unhealthyPodEvictionPolicy", before.Budget.EvictUnhealthy, after.Budget.EvictUnhealthy)
	return all
}
