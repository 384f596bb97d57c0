package preflight

import (
	"cmp"
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
		makers := s.makers()
		alone := len(makers) == 1 && !slices.ContainsFunc(s.Pods, func(p corev1.Pod) bool {
			return s.Missing[EndpointsFact] != "" || controllerOf(&p) != "ReplicaSet" && controllerOf(&p) != "StatefulSet"
		})
		for _, t := range makers {
			switch t.workload.Kind {
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

// outage is the severity of an outage of one workload, and how to say it: others may stand behind the Service.
func outage(alone bool) (Severity, string) {
	if alone {
		return WillLose, "all requests fail"
	}
	return MayLose, "only the other Pods behind the Service answer, if they are ready"
}

// pods says of how many Pods of a workload something is true.
func pods(n int) string {
	if n == 1 {
		return "the only Pod"
	}
	return fmt.Sprintf("all %d Pods", n)
}

func ofDeployment(t *template, alone bool) []Finding {
	n, object := t.count.least, t.object
	if n == 0 {
		return nil
	}
	severity, until := outage(alone)
	if t.workload.Rollout.Type == appsv1.RecreateDeploymentStrategyType {
		return []Finding{{
			Severity: severity, When: timeline.PodsReplaced,
			Prediction: fmt.Sprintf("each rollout stops %s of %s (within %s), and only then starts new ones: until the first new one is ready, %s", pods(n), object, quantity.Span(grace(&t.spec)), until),
			Evidence:   []Evidence{{object, "spec.strategy.type", "Recreate"}, t.evidence}, Fix: "strategy RollingUpdate with maxUnavailable: 0, unless two versions must never run together",
		}}
	}
	most, text, err := unavailable(t.workload.Rollout.RollingUpdate, n)
	if err != nil || most == 0 || 2*most < n {
		return nil
	}
	f := Finding{
		Severity: MayLose, ConfirmedBy: []string{}, When: timeline.PodsReplaced, // with Pods left, that is no failure
		Prediction: fmt.Sprintf("a rollout may end %d of %s of %s before new ones are ready, and leave %d", most, quantity.Count(n, "Pod"), object, n-most),
		Evidence:   []Evidence{{object, "spec.strategy.rollingUpdate.maxUnavailable", text}, t.evidence}, Fix: "maxUnavailable: 0 and maxSurge: 1",
	}
	if most == n {
		f.Severity, f.ConfirmedBy = severity, []string{"no-ready-endpoint/rolled-out", "no-ready-endpoint/one-replica"}
		f.Prediction = fmt.Sprintf("maxUnavailable comes to %d of %d: each rollout takes %s of %s away before a new one is ready. Until then %s, unless the old ones serve on after SIGTERM", most, n, pods(n), object, until)
	}
	return []Finding{f}
}

// unavailable is how many Pods a rolling update may do without. maxUnavailable is rounded down and maxSurge up; if
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

func ofStatefulSet(t *template, alone bool) []Finding {
	if t.count != exactly(1) {
		return nil
	}
	severity, until := outage(alone)
	return []Finding{{
		Severity: severity, When: timeline.PodEnds,
		Prediction: fmt.Sprintf("when its Pod is evicted, deleted or rolled out, the new one is made only when the old one is gone (within %s): until the new one is ready, %s", quantity.Span(grace(&t.spec)), until),
		Evidence:   []Evidence{cmp.Or(t.evidence, Evidence{t.object, "Pods", "1"})}, Fix: "2 replicas or more, if the application can; else a short end and a quick start",
	}}
}

// ofDaemonSet is about updates of half of the Pods or more at once. By default it is one Pod at a time.
// https://kubernetes.io/docs/tasks/manage-daemon/update-daemon-set/
func ofDaemonSet(t *template) []Finding {
	r := t.workload.Update.RollingUpdate
	if r == nil || r.MaxUnavailable == nil {
		return nil
	}
	most, err := intstr.GetScaledValueFromIntOrPercent(r.MaxUnavailable, 100, true)
	if err != nil || r.MaxUnavailable.Type == intstr.Int || most < 50 {
		return nil
	}
	return []Finding{{
		Severity: MayLose, ConfirmedBy: []string{}, When: timeline.PodsReplaced,
		Prediction: fmt.Sprintf("a rollout may end %s of the Pods of %s before new ones are ready", r.MaxUnavailable, t.object),
		Evidence:   []Evidence{{t.object, "spec.updateStrategy.rollingUpdate.maxUnavailable", r.MaxUnavailable.String()}}, Fix: "maxUnavailable: 1, or maxSurge",
	}}
}
