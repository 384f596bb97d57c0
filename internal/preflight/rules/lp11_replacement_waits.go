package rules

import (
	"cmp"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/internal/kube/podspec"
	"lapse/internal/preflight/service"
	"lapse/timeline"
)

var replacementWaits = Rule{
	ID:          "LP11",
	Name:        "replacement-waits",
	Doc:         "New Pods wait for old ones to be gone, or a rollout takes half of the Pods or more at once.",
	Needs:       []service.Fact{service.WorkloadsFact},
	ConfirmedBy: []string{"replacement-waits"},
	Predicts:    []string{"replacement-waits", "no-ready-endpoint/rolled-out"},
	Check: func(s *service.State) (found []Finding) {
		makers := s.Makers()
		alone := len(makers) == 1 && !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool { return ofAnother(s, &p) })
		for _, t := range makers {
			switch t.Workload.Kind {
			case "Deployment":
				found = append(found, ofDeployment(&t, alone)...)
			case "StatefulSet":
				found = append(found, ofStatefulSet(&t, alone)...)
			case "DaemonSet":
				found = append(found, ofDaemonSet(&t)...)
			}
		}
		return found
	},
}

// ofAnother reports whether a Pod belongs neither to a Deployment nor to a StatefulSet. A Pod in a manifest never does.
func ofAnother(s *service.State, p *corev1.Pod) bool {
	owner := service.ControllerOf(p)
	return s.Missing[service.EndpointsFact] != "" || owner != "ReplicaSet" && owner != "StatefulSet"
}

// outage returns the severity of an outage of one workload, and its effect in words. Alone means that no other workload
// serves the Service.
func outage(alone bool) (Severity, string) {
	if alone {
		return WillLose, "all requests fail"
	}
	return MayLose, "only the other Pods behind the Service answer, if they are ready"
}

// allPods names all n Pods of a workload; 0: nobody knows how many there will be.
func allPods(n int) string {
	switch n {
	case 0:
		return "every Pod"
	case 1:
		return "the only Pod"
	}
	return fmt.Sprintf("all %d Pods", n)
}

func ofDeployment(t *service.Template, alone bool) []Finding {
	n := t.Count.Least
	switch {
	case t.Count == service.Exactly(0):
		return nil
	case t.Workload.Rollout.Type == appsv1.RecreateDeploymentStrategyType:
		return []Finding{recreated(t, alone)}
	case n == 0:
		return nil
	}
	most, text, err := unavailable(t.Workload.Rollout.RollingUpdate, n)
	switch {
	case err != nil || most == 0 || 2*most < n:
		return nil
	case most == n:
		return []Finding{allAtOnce(t, text, alone)}
	}
	const leaves = "a rollout may end %d of %s of %s before new ones are ready, and leave %d"
	return []Finding{{
		Severity:    MayLose,
		Prediction:  fmt.Sprintf(leaves, most, quantity.Count(n, "Pod"), t.Object, n-most),
		Evidence:    []service.Evidence{maxUnavailable(t, text), t.Evidence},
		Fix:         surgeFirst(t),
		ConfirmedBy: []string{}, // with Pods left, that is no failure
		When:        timeline.PodsReplaced,
	}}
}

// surgeFirst says how a Deployment starts new Pods before it ends old ones.
func surgeFirst(t *service.Template) string {
	fix := "maxUnavailable: 0 and maxSurge: 1"
	if podspec.OnePerNode(&t.Spec, t.Meta.Labels) {
		fix += ", if there are more nodes than replicas: no two of its Pods may be on one, and else no rollout ends"
	}
	return fix
}

func maxUnavailable(t *service.Template, text string) service.Evidence {
	return fact(t.Object, "spec.strategy.rollingUpdate.maxUnavailable", text)
}

// recreated returns a finding about a rollout that ends all Pods first.
func recreated(t *service.Template, alone bool) Finding {
	const stops = "each rollout stops %s of %s (within %s), and only then starts new ones: " +
		"until the first new one is ready, %s"
	severity, until := outage(alone)
	return Finding{
		Severity:   severity,
		Prediction: fmt.Sprintf(stops, allPods(t.Count.Least), t.Object, quantity.Span(podspec.Grace(&t.Spec)), until),
		Evidence:   []service.Evidence{fact(t.Object, "spec.strategy.type", "Recreate"), t.Evidence},
		Fix:        "strategy RollingUpdate with maxUnavailable: 0, unless two versions must never run together",
		When:       timeline.PodsReplaced,
	}
}

// allAtOnce returns a finding about a rolling update that may do without any Pod.
func allAtOnce(t *service.Template, text string, alone bool) Finding {
	const takes = "maxUnavailable comes to %d of %d: each rollout takes %s of %s away before a new one is ready. " +
		"Until then %s, unless the old ones serve on after SIGTERM"
	severity, until := outage(alone)
	n := t.Count.Least
	return Finding{
		Severity:    severity,
		Prediction:  fmt.Sprintf(takes, n, n, allPods(n), t.Object, until),
		Evidence:    []service.Evidence{maxUnavailable(t, text), t.Evidence},
		Fix:         surgeFirst(t),
		ConfirmedBy: []string{"no-ready-endpoint/rolled-out", "no-ready-endpoint/one-replica"},
		When:        timeline.PodsReplaced,
	}
}

// unavailable returns how many Pods a rolling update may do without. maxUnavailable is rounded down and maxSurge up; if
// both come to 0, one Pod may be missing. By default both are 25 %.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable
func unavailable(r *appsv1.RollingUpdateDeployment, n int) (most int, text string, err error) {
	allowed, extra := intstr.FromString("25%"), intstr.FromString("25%")
	if r != nil {
		allowed, extra = *intstr.ValueOrDefault(r.MaxUnavailable, allowed), *intstr.ValueOrDefault(r.MaxSurge, extra)
	}
	if most, err = intstr.GetScaledValueFromIntOrPercent(&allowed, n, false); err != nil {
		return 0, "", err
	}
	surge, err := intstr.GetScaledValueFromIntOrPercent(&extra, n, true)
	if err != nil {
		return 0, "", err
	}
	if most == 0 && surge == 0 {
		most = 1
	}
	return min(most, n), allowed.String(), nil
}

func ofStatefulSet(t *service.Template, alone bool) []Finding {
	const gap = "when its Pod is evicted, deleted or rolled out, the new one is made only when the old one is gone " +
		"(within %s): until the new one is ready, %s"
	if t.Count != service.Exactly(1) {
		return nil
	}
	severity, until := outage(alone)
	return []Finding{{
		Severity:   severity,
		Prediction: fmt.Sprintf(gap, quantity.Span(podspec.Grace(&t.Spec)), until),
		Evidence:   []service.Evidence{cmp.Or(t.Evidence, fact(t.Object, "Pods", "1"))},
		Fix:        "2 replicas or more, if the application can; else a quick shutdown and a quick start",
		When:       timeline.PodEnds,
	}}
}

// ofDaemonSet returns a finding about updates of half of the Pods or more at once. By default it is one Pod at a time.
// https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/
func ofDaemonSet(t *service.Template) []Finding {
	const field = "spec.updateStrategy.rollingUpdate.maxUnavailable"
	r := t.Workload.Update.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return nil
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, 100, true)
	if err != nil || r.MaxUnavailable.Type == intstr.Int || most < 50 {
		return nil
	}
	part := r.MaxUnavailable.String()
	return []Finding{{
		Severity:    MayLose,
		Prediction:  fmt.Sprintf("a rollout may end %s of the Pods of %s before new ones are ready", part, t.Object),
		Evidence:    []service.Evidence{fact(t.Object, field, part)},
		Fix:         "maxUnavailable: 1, or maxSurge",
		ConfirmedBy: []string{},
		When:        timeline.PodsReplaced,
	}}
}
