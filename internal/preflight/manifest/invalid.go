package manifest

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"

	"lapse/internal/kube/podspec"
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
		errs = append(errs, invalidStrategy(&is.Spec.Strategy)...)
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
	case *corev1.Pod:
		errs = append(errs, invalidPod("spec", &is.Spec)...)
	}
	if w := workloadOf(o.kind.name, o.Object); w != nil {
		errs = append(errs, invalidPod(w.Field+".spec", &w.Template.Spec)...)
	}
	return append(errs, quotedNumbers(reflect.ValueOf(o.Object).Elem().FieldByName("Spec"), "spec")...)
}

// quotedNumbers returns an error for each number in quotes where a text is the name of a port, or a percentage.
func quotedNumbers(v reflect.Value, field string) (errs []error) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return quotedNumbers(v.Elem(), field)
		}
	case reflect.Slice:
		for i := range v.Len() {
			errs = append(errs, quotedNumbers(v.Index(i), fmt.Sprintf("%s[%d]", field, i))...)
		}
	case reflect.Struct:
		if n, ok := v.Interface().(intstr.IntOrString); ok {
			if _, err := strconv.Atoi(n.StrVal); err == nil {
				errs = append(errs, &fieldError{
					field: field, text: fmt.Sprintf("%s is the text %q: a number takes no quotes", field, n.StrVal),
				})
			}
			return errs
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case f.Anonymous:
				errs = append(errs, quotedNumbers(v.Field(i), field)...)
			case f.IsExported():
				errs = append(errs, quotedNumbers(v.Field(i), field+"."+name)...)
			}
		}
	}
	return errs
}

// invalidStrategy returns why API servers refuse the strategy of a Deployment.
func invalidStrategy(s *appsv1.DeploymentStrategy) []error {
	none := func(n *intstr.IntOrString) bool { return n != nil && (n.String() == "0" || n.String() == "0%") }
	is := &fieldError{field: "spec.strategy.rollingUpdate"}
	switch r := s.RollingUpdate; {
	case r != nil && s.Type == appsv1.RecreateDeploymentStrategyType:
		is.text = is.field + " is set beside type Recreate, which has none"
	case r != nil && none(r.MaxUnavailable) && none(r.MaxSurge):
		is.text = is.field + " has 0 for maxUnavailable and for maxSurge: one of them must be more"
	default:
		return nil
	}
	return []error{is}
}

// invalidPod returns why API servers refuse the hooks and probes of a Pod's containers. Merged values and overlays
// often have two actions where one was to replace the other.
func invalidPod(field string, spec *corev1.PodSpec) (errs []error) {
	refuse := func(field, text string) {
		errs = append(errs, &fieldError{field: field, text: field + text})
	}
	one := func(field string, actions any) {
		if has := setFields(actions); len(has) > 1 {
			refuse(field, fmt.Sprintf(" has %s: only one may be set", strings.Join(has, " and ")))
		}
	}
	probe := func(field string, p *corev1.Probe) {
		if p != nil {
			one(field, p.ProbeHandler)
		}
	}
	check := func(field string, c *corev1.Container) {
		probe(field+".readinessProbe", c.ReadinessProbe)
		probe(field+".livenessProbe", c.LivenessProbe)
		probe(field+".startupProbe", c.StartupProbe)
		h := podspec.PreStop(c)
		if h == nil {
			return
		}
		hook, grace := field+".lifecycle.preStop", podspec.Grace(spec)
		one(hook, *h)
		if h.Sleep != nil && podspec.Seconds(h.Sleep.Seconds) > grace {
			const tooLong = " is %d: it must be no more than terminationGracePeriodSeconds (%.0f)"
			refuse(hook+".sleep.seconds", fmt.Sprintf(tooLong, h.Sleep.Seconds, grace.Seconds()))
		}
	}
	for i := range spec.Containers {
		check(field+".containers["+spec.Containers[i].Name+"]", &spec.Containers[i])
	}
	for i := range spec.InitContainers {
		check(field+".initContainers["+spec.InitContainers[i].Name+"]", &spec.InitContainers[i])
	}
	return errs
}

// setFields returns the names of the fields of a struct of the API that are not nil.
func setFields(of any) (names []string) {
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if !v.Field(i).IsNil() {
			name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
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
