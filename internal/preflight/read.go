package preflight

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// sortedKeys are a map's keys in order.
func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }

func orNone(text string) string { return cmp.Or(text, "none") }

func controllerOf(p *corev1.Pod) string {
	if c := metav1.GetControllerOf(p); c != nil {
		return c.Kind
	}
	return ""
}

func zoneOf(n *corev1.Node) string { return n.Labels[corev1.LabelTopologyZone] }

func selectorText(b *policyv1.PodDisruptionBudget) string {
	return metav1.FormatLabelSelector(b.Spec.Selector)
}

func labelText(set map[string]string) string {
	var all []string
	for _, key := range sortedKeys(set) {
		all = append(all, key+"="+set[key])
	}
	return strings.Join(all, ",")
}

func ended(p *corev1.Pod) bool {
	return p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed || p.DeletionTimestamp != nil
}
