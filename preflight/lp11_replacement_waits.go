package preflight

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/correlate/quantity"
	"lapse/timeline"
)

var replacementWaits = Rule{
	ID: "LP11", Name: "replacement-waits", Needs: []Fact{WorkloadsFact},
	Doc:         "New Pods wait for old ones to be gone, or a rollout takes half of the Pods or more at once.",
	ConfirmedBy: []string{"replacement-waits"}, Predicts: []string{"replacement-waits", "no-ready-endpoint/rolled-out"},
	Check: func(s *State) (found []Finding) {
		alone := len(s.Deployments)+len(s.StatefulSets) == 1 && !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
			return controllerOf(&p) != "ReplicaSet" && controllerOf(&p) != "StatefulSet"
		})
		for i := range s.Deployments {
			found = append(found, ofDeployment(&s.Deployments[i], alone)...)
		}
		for i := range s.StatefulSets {
			found = append(found, ofStatefulSet(&s.StatefulSets[i], alone)...)
		}
		return found
	},
}

// sure is the severity of an outage of one workload: others may stand behind the Service.
func sure(alone bool) Severity {
	if alone {
		return WillLose
	}
	return MayLose
}

func ofDeployment(d *appsv1.Deployment, alone bool) []Finding {
	n, object := replicas(d.Spec.Replicas), "Deployment/"+d.Name
	if n == 0 {
		return nil
	}
	if d.Spec.Strategy.Type == appsv1.RecreateDeploymentStrategyType {
		return []Finding{{
			Severity: sure(alone), When: timeline.PodsReplaced,
			Prediction: fmt.Sprintf("a rollout ends all %s before it makes a new one: no endpoint from when the last old one stops (within %s) until the first new one is ready", quantity.Count(n, "Pod"), quantity.Span(grace(&d.Spec.Template.Spec))),
			Evidence:   []Evidence{{object, "spec.strategy.type", "Recreate"}, {object, "spec.replicas", fmt.Sprint(n)}}, Fix: "strategy RollingUpdate with maxUnavailable: 0, unless two versions must never run together",
		}}
	}
	most, text, err := unavailable(d, n)
	if err != nil || most == 0 || 2*most < n {
		return nil
	}
	confirmed := []string{} // with Pods left, that is no failure
	if most == n {
		confirmed = []string{"no-ready-endpoint/rolled-out", "no-ready-endpoint/one-replica"}
	}
	return []Finding{{
		Severity: MayLose, ConfirmedBy: confirmed, When: timeline.PodsReplaced, Prediction: fmt.Sprintf("a rollout may end %d of %s before new ones are ready, and leave %d", most, quantity.Count(n, "Pod"), n-most),
		Evidence: []Evidence{{object, "spec.strategy.rollingUpdate.maxUnavailable", text}, {object, "spec.replicas", fmt.Sprint(n)}}, Fix: "maxUnavailable: 0 and maxSurge: 1",
	}}
}

// unavailable is how many Pods a rolling update may do without. maxUnavailable is rounded down and maxSurge up; if
// both come to 0, one Pod may be missing. By default both are 25 %.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#max-unavailable
func unavailable(d *appsv1.Deployment, n int) (most int, text string, err error) {
	allowed, extra := intstr.FromString("25%"), intstr.FromString("25%")
	if r := d.Spec.Strategy.RollingUpdate; r != nil {
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

func ofStatefulSet(s *appsv1.StatefulSet, alone bool) []Finding {
	if replicas(s.Spec.Replicas) != 1 {
		return nil
	}
	return []Finding{{
		Severity: sure(alone), When: timeline.PodEnds,
		Prediction: fmt.Sprintf("when its Pod is evicted, deleted or rolled out, the new one is made only when the old one is gone: no endpoint from when the old one stops (within %s) until the new one is ready", quantity.Span(grace(&s.Spec.Template.Spec))),
		Evidence:   []Evidence{{"StatefulSet/" + s.Name, "spec.replicas", "1"}}, Fix: "2 replicas or more, if the application can; else a short end and a quick start",
	}}
}
