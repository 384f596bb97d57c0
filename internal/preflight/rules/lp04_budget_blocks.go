package rules

import (
	"fmt"
	"slices"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var budgetBlocks = Rule{
	ID:        "LP04",
	Name:      "budget-blocks",
	Doc:       "A PodDisruptionBudget allows no eviction, two cover one Pod, or one covers no Pod.",
	Needs:     []service.Fact{service.BudgetsFact, service.TemplatesFact},
	AboutPods: true,
	Check: func(s *service.State) (found []Finding) {
		listed, evicts := map[string]bool{}, false
		for _, t := range s.Running() {
			if t.Owner == "DaemonSet" { // kubectl drain leaves its Pods where they are
				continue
			}
			evicts = true
			on := s.BudgetsOn(t.Meta.Labels)
			if len(on) > 1 {
				found = append(found, twoBudgets(&t, on))
				continue // whatever each of them allows
			}
			for _, b := range on {
				if f, blocks := allowsNone(s, b); blocks && !listed[b.Name] {
					found, listed[b.Name] = append(found, f), true
				}
			}
		}
		if evicts && !s.Covered() {
			found = append(found, missed(s)...)
		}
		return found
	},
}

// twoBudgets returns a finding about Pods that several budgets cover. kubectl drain tries again after a 429 only.
// https://github.com/kubernetes/kubernetes/blob/master/pkg/registry/core/pod/storage/eviction.go
// https://github.com/kubernetes/kubectl/blob/master/pkg/drain/drain.go
func twoBudgets(t *service.Template, on []*policyv1.PodDisruptionBudget) Finding {
	const refused = "the API answers every eviction of these Pods with an error (500), " +
		"because %d budgets cover them: kubectl drain ends with that error, and they stay"
	var names []string
	for _, b := range on {
		names = append(names, b.Name)
	}
	return Finding{
		Severity:   WillBlock,
		Prediction: fmt.Sprintf(refused, len(on)),
		Evidence:   []service.Evidence{fact(t.Object, "PodDisruptionBudgets", strings.Join(names, ", "))},
		Fix: "keep one budget that allows an eviction; until then only kubectl drain --disable-eviction takes them, " +
			"which heeds no budget",
		When: timeline.EvictionAsked,
	}
}

// allowsNone returns a finding about a budget that allows no eviction: by its spec, or at the moment.
func allowsNone(s *service.State, b *policyv1.PodDisruptionBudget) (Finding, bool) {
	const never = "%s %s of %s: every eviction is refused, " +
		"and kubectl drain of a node with one of them does not end, or takes all Pods once it is forced"
	object := "PodDisruptionBudget/" + b.Name
	expected, pods, live := expectedPods(s, b)
	field, value, allowed, ok := allows(b, expected)
	uncounted := uncounted(s, b)
	switch {
	case b.Spec.MinAvailable == nil && b.Spec.MaxUnavailable == nil:
		return Finding{
			Severity:   WillBlock,
			Prediction: "the budget has neither minAvailable nor maxUnavailable: every eviction is refused",
			Evidence:   []service.Evidence{fact(object, "spec", "without both")},
			Fix:        "maxUnavailable: 1 with 2 replicas or more",
			When:       timeline.EvictionAsked,
		}, true
	case ok && allowed <= 0:
		return Finding{
			Severity:   WillBlock,
			Prediction: fmt.Sprintf(never, strings.TrimPrefix(field, "spec."), value, pods),
			Evidence:   []service.Evidence{fact(object, field, value), fact(object, "covers", pods)},
			Fix:        "maxUnavailable: 1 with 2 replicas or more",
			When:       timeline.EvictionAsked,
		}, true
	case uncounted != nil:
		return *uncounted, true
	case live && b.Status.DisruptionsAllowed == 0:
		return Finding{
			Severity:   WillBlock,
			Prediction: "at the moment no eviction is allowed: a drain waits until more Pods are healthy",
			Evidence: []service.Evidence{
				fact(object, "status.currentHealthy", b.Status.CurrentHealthy),
				fact(object, "status.desiredHealthy", b.Status.DesiredHealthy),
				fact(object, "status.disruptionsAllowed", "0"),
			},
			Fix: "find out why Pods are not healthy before the drain; " +
				"unhealthyPodEvictionPolicy: AlwaysAllow lets those be evicted",
			When: timeline.EvictionAsked,
		}, true
	}
	return Finding{}, false
}

// expectedPods returns how many Pods a budget covers, also in words. Live means that the budget's status says so.
func expectedPods(s *service.State, b *policyv1.PodDisruptionBudget) (n int, words string, live bool) {
	n = int(b.Status.ExpectedPods)
	if n > 0 && b.Status.ObservedGeneration >= b.Generation {
		return n, quantity.Count(n, "Pod"), true
	}
	var known service.Amount
	for _, t := range coveredBy(s, b) {
		if !t.Ends() {
			known = known.Plus(t.Count)
		}
	}
	switch words = quantity.Count(known.Least, "Pod"); {
	case !known.Known():
		return 1_000_000, "any number of Pods", false // what blocks very many Pods blocks any number
	case known.Most > known.Least:
		words += ", which is what the autoscaler leaves at least"
	}
	return known.Least, words, false
}

// coveredBy returns the templates of the known Pods that a budget covers.
func coveredBy(s *service.State, b *policyv1.PodDisruptionBudget) []service.Template {
	templates := s.Selected()
	for i := range s.Others {
		templates = append(templates, s.TemplateOf(&s.Others[i]))
	}
	missed := func(t service.Template) bool { return !service.Covers(b, t.Meta.Labels) }
	return slices.DeleteFunc(templates, missed)
}

// uncounted returns a finding about a budget whose Pods the disruption controller cannot count, nil if it can: it looks
// for the scale of all their controllers, and Jobs and DaemonSets have none. A minAvailable in numbers needs no count.
// https://kubernetes.io/docs/tasks/run-application/configure-pdb/#arbitrary-controllers-and-selectors
func uncounted(s *service.State, b *policyv1.PodDisruptionBudget) *Finding {
	const (
		refused = "the disruption controller cannot count this budget's Pods: every eviction is refused"
		while   = "the disruption controller cannot count the Pods of %s, which this budget covers too: " +
			"while there is one, even a completed one, every eviction is refused"
	)
	object := "PodDisruptionBudget/" + b.Name
	f := Finding{
		Severity: WillBlock,
		Fix:      "a selector that leaves Pods of Jobs and DaemonSets out, or a minAvailable that is a number of Pods",
		When:     timeline.EvictionAsked,
	}
	for _, c := range b.Status.Conditions {
		if c.Type == policyv1.DisruptionAllowedCondition && c.Reason == policyv1.SyncFailedReason {
			f.Prediction = refused
			f.Evidence = []service.Evidence{fact(object, "status.conditions["+c.Type+"]", c.Message)}
			return &f
		}
	}
	field, value, _, ok := allows(b, 0)
	if least := b.Spec.MinAvailable; !ok || least != nil && least.Type == intstr.Int {
		return nil
	}
	for _, t := range coveredBy(s, b) {
		if t.Owner == "Job" || t.Owner == "DaemonSet" {
			f.Prediction = fmt.Sprintf(while, maker(&t))
			f.Evidence = []service.Evidence{
				fact(object, field, value),
				fact(object, "spec.selector", metav1.FormatLabelSelector(b.Spec.Selector)),
				fact(maker(&t), "labels of its Pods", service.LabelText(t.Meta.Labels)),
			}
			return &f
		}
	}
	return nil
}

// allows returns how many evictions a budget's spec allows if all of n Pods are healthy. Percentages are rounded up,
// as the disruption controller does.
// https://kubernetes.io/docs/tasks/run-application/configure-pdb/#rounding-logic-when-specifying-percentages
func allows(b *policyv1.PodDisruptionBudget, n int) (field, value string, allowed int, ok bool) {
	switch {
	case b.Spec.MaxUnavailable != nil:
		most, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MaxUnavailable, n, true)
		return "spec.maxUnavailable", b.Spec.MaxUnavailable.String(), most, err == nil
	case b.Spec.MinAvailable != nil:
		least, err := intstr.GetScaledValueFromIntOrPercent(b.Spec.MinAvailable, n, true)
		return "spec.minAvailable", b.Spec.MinAvailable.String(), n - least, err == nil
	}
	return "", "", 0, false
}

// missed returns a finding about budgets that cover no Pod at all, if none covers the Service's Pods.
func missed(s *service.State) (found []Finding) {
	for i := range s.Budgets {
		b := &s.Budgets[i]
		if b.Status.ExpectedPods > 0 || b.Status.ObservedGeneration < b.Generation || b.Spec.Selector == nil {
			continue
		}
		if len(coveredBy(s, b)) > 0 || len(s.Unread) > 0 {
			continue
		}
		found = append(found, Finding{
			Severity: MayLose,
			Prediction: "this budget covers none of the Pods that are known, and the Service's Pods have no other: " +
				"a drain may evict all of them together",
			Evidence: []service.Evidence{
				fact("PodDisruptionBudget/"+b.Name, "spec.selector", metav1.FormatLabelSelector(b.Spec.Selector)),
				s.At("spec.selector", service.LabelText(s.Service.Spec.Selector)),
			},
			Fix: "make its selector match the Pods' labels, if it is meant for them",
		})
	}
	return found
}
