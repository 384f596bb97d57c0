package preflight

import (
	"fmt"
	"strings"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var budgetBlocks = Rule{
	ID: "LP04", Name: "budget-blocks", Needs: []Fact{BudgetsFact, TemplatesFact},
	Doc: "A PodDisruptionBudget allows no eviction, two cover one Pod, or one covers no Pod.",
	Check: func(s *State) (found []Finding) {
		listed := map[string]bool{}
		for _, t := range s.running() {
			on := s.budgetsOn(t.meta.Labels)
			if len(on) > 1 {
				found = append(found, twoBudgets(&t, on))
			}
			for _, b := range on {
				if f, blocks := allowsNone(s, b); blocks && !listed[b.Name] {
					found, listed[b.Name] = append(found, f), true
				}
			}
		}
		if !s.covered() {
			found = append(found, missed(s)...)
		}
		return found
	},
}

func twoBudgets(t *template, on []*policyv1.PodDisruptionBudget) Finding {
	var names []string
	for _, b := range on {
		names = append(names, b.Name)
	}
	return Finding{
		Severity: WillBlock, When: timeline.EvictionAsked, Prediction: fmt.Sprintf("the API refuses every eviction of these Pods, for %d budgets cover them: a drain does not end", len(on)),
		Evidence: []Evidence{{t.object, "PodDisruptionBudgets", strings.Join(names, ", ")}}, Fix: "keep one of them",
	}
}

// allowsNone is about a budget that allows no eviction: by its spec, or at the moment.
func allowsNone(s *State, b *policyv1.PodDisruptionBudget) (Finding, bool) {
	object := "PodDisruptionBudget/" + b.Name
	expected := int(b.Status.ExpectedPods)
	live := expected > 0 && b.Status.ObservedGeneration >= b.Generation
	pods := quantity.Count(expected, "Pod")
	if !live {
		n, _ := s.coveredBy(b)
		expected, pods = n.least, quantity.Count(n.least, "Pod")
		if n.most > n.least {
			pods += ", which is what the autoscaler leaves at least"
		}
		if !n.known() { // what blocks very many Pods blocks any number
			expected, pods = 1_000_000, "any number of Pods"
		}
	}
	field, value, allowed, ok := allows(b, expected)
	switch {
	case ok && allowed <= 0:
		return Finding{
			Severity: WillBlock, When: timeline.EvictionAsked, Prediction: fmt.Sprintf("%s %s of %s: every eviction is refused, and kubectl drain of a node with one of them does not end, or takes all Pods once it is forced", strings.TrimPrefix(field, "spec."), value, pods),
			Evidence: []Evidence{{object, field, value}, {object, "covers", pods}}, Fix: "maxUnavailable: 1 with 2 replicas or more",
		}, true
	case live && b.Status.DisruptionsAllowed == 0:
		return Finding{
			Severity: WillBlock, When: timeline.EvictionAsked, Prediction: "at the moment no eviction is allowed: a drain waits until more Pods are healthy",
			Evidence: []Evidence{{object, "status.currentHealthy", fmt.Sprint(b.Status.CurrentHealthy)}, {object, "status.desiredHealthy", fmt.Sprint(b.Status.DesiredHealthy)}, {object, "status.disruptionsAllowed", "0"}},
			Fix:      "find out why Pods are not healthy before the drain; unhealthyPodEvictionPolicy: AlwaysAllow lets those be evicted",
		}, true
	}
	return Finding{}, false
}

// coveredBy is how many of the known Pods a budget covers, and whether there is anything that it covers. Pods of a Job
// do not count: the budget's controller does not know how many there are to be.
func (s *State) coveredBy(b *policyv1.PodDisruptionBudget) (n amount, some bool) {
	templates := s.selected()
	for i := range s.Others {
		templates = append(templates, s.template(&s.Others[i]))
	}
	for _, t := range templates {
		if covers(b, t.meta.Labels) {
			some = true
			if !t.ends() {
				n = n.plus(t.count)
			}
		}
	}
	return n, some
}

// allows is how many evictions a budget's spec allows where all of n Pods are healthy. Percentages are rounded up, as
// the disruption controller does.
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

// missed are budgets that cover no Pod at all, where the Service's Pods have none.
func missed(s *State) (found []Finding) {
	for i := range s.Budgets {
		b := &s.Budgets[i]
		if b.Status.ExpectedPods > 0 || b.Status.ObservedGeneration < b.Generation || b.Spec.Selector == nil {
			continue
		}
		if _, some := s.coveredBy(b); some || len(s.Unread) > 0 {
			continue
		}
		found = append(found, Finding{
			Severity: MayLose, Prediction: "this budget covers none of the Pods that are known, and the Service's Pods have no other: a drain may evict all of them together",
			Evidence: []Evidence{{"PodDisruptionBudget/" + b.Name, "spec.selector", selectorText(b)}, {"Service/" + s.Service.Name, "spec.selector", labelText(s.Service.Spec.Selector)}},
			Fix:      "make its selector match the Pods' labels, if it is meant for them",
		})
	}
	return found
}
