package manifest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/internal/preflight/service"
)

// invalid returns why API servers refuse an object although each field has a value of its type.
func invalid(o object) (errs []error) {
	refuse := func(field, text string, args ...any) {
		errs = append(errs, &fieldError{field: field, text: fmt.Sprintf(text, args...)})
	}
	workload := func(replicas *int32, selector *metav1.LabelSelector, made map[string]string) {
		if replicas != nil && *replicas < 0 {
			refuse("spec.replicas", "spec.replicas is %d: it must be 0 or more", *replicas)
		}
		s, err := metav1.LabelSelectorAsSelector(selector)
		if selector != nil && err == nil && !s.Matches(labels.Set(made)) {
			has := cmp.Or(service.LabelText(made), "none")
			refuse("spec.selector", "spec.selector does not match the labels of spec.template: %s", has)
		}
	}
	switch is := o.Object.(type) {
	case *appsv1.Deployment:
		workload(is.Spec.Replicas, is.Spec.Selector, is.Spec.Template.Labels)
	case *appsv1.StatefulSet:
		workload(is.Spec.Replicas, is.Spec.Selector, is.Spec.Template.Labels)
	case *appsv1.ReplicaSet:
		workload(is.Spec.Replicas, is.Spec.Selector, is.Spec.Template.Labels)
	case *appsv1.DaemonSet:
		workload(nil, is.Spec.Selector, is.Spec.Template.Labels)
	case *policyv1.PodDisruptionBudget:
		if is.Spec.MinAvailable != nil && is.Spec.MaxUnavailable != nil {
			refuse("spec.maxUnavailable", "spec.minAvailable and spec.maxUnavailable are both set: only one may be")
		}
	}
	return errs
}

// misspelt returns an error if a kind is written with the wrong upper and lower case.
func misspelt(apiVersion, name string) []error {
	i := slices.IndexFunc(kinds, func(k kind) bool {
		return k.apiVersion == apiVersion && strings.EqualFold(k.name, name)
	})
	if i < 0 || kinds[i].name == name {
		return nil
	}
	text := fmt.Sprintf("there is no kind %s in %s: did you mean %s?", name, apiVersion, kinds[i].name)
	return []error{&fieldError{field: "kind", text: text}}
}
