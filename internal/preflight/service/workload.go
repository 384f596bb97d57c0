package service

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/kube/podspec"
)

// A Workload is an object that makes Pods, of any kind.
type Workload struct {
	Kind     string
	Meta     metav1.ObjectMeta
	Field    string // where its template is
	Template corev1.PodTemplateSpec
	Asks     string // the field with the number of Pods; "" if that is not known of the kind
	Replicas *int32 // its value; nil if it is not set
	First    int    // ordinal of a StatefulSet's Pods

	Rollout appsv1.DeploymentStrategy      // of a Deployment
	Update  appsv1.DaemonSetUpdateStrategy // of a DaemonSet

	Like *Reference // the workload that has the template, of an Argo Rollout without one
}

// A Reference names an object of the same namespace.
type Reference struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Object returns KIND/NAME.
func (w *Workload) Object() string { return w.Kind + "/" + w.Meta.Name }

// endsLike reports whether a Pod's containers start, serve and end as the template says. Then evidence names the
// template, which people edit. Otherwise something was injected into the Pod, or the template has changed since.
func (w *Workload) endsLike(spec *corev1.PodSpec) bool {
	template := &w.Template.Spec
	if len(template.Containers) != len(spec.Containers) || podspec.Grace(template) != podspec.Grace(spec) {
		return false
	}
	for i := range spec.Containers {
		if !alike(&template.Containers[i], &spec.Containers[i]) {
			return false
		}
	}
	return true
}

// alike reports whether two containers start, serve and end in the same way.
func alike(a, b *corev1.Container) bool {
	return a.Name == b.Name && a.Image == b.Image &&
		slices.Equal(a.Command, b.Command) && slices.Equal(a.Args, b.Args) &&
		equality.Semantic.DeepEqual(a.Ports, b.Ports) &&
		equality.Semantic.DeepEqual(a.Lifecycle, b.Lifecycle) &&
		equality.Semantic.DeepEqual(podspec.Probes(a), podspec.Probes(b))
}

// WorkloadOf returns a Workload for each object of Kubernetes that makes Pods, nil for other objects and for Pods.
func WorkloadOf(kind string, o metav1.Object) *Workload {
	w := &Workload{Kind: kind, Field: "spec.template", Asks: "spec.replicas"}
	switch o := o.(type) {
	case *appsv1.Deployment:
		w.Meta, w.Template, w.Replicas, w.Rollout = o.ObjectMeta, o.Spec.Template, o.Spec.Replicas, o.Spec.Strategy
	case *appsv1.StatefulSet:
		w.Meta, w.Template, w.Replicas = o.ObjectMeta, o.Spec.Template, o.Spec.Replicas
		if o.Spec.Ordinals != nil {
			w.First = int(o.Spec.Ordinals.Start)
		}
	case *appsv1.ReplicaSet:
		w.Meta, w.Template, w.Replicas = o.ObjectMeta, o.Spec.Template, o.Spec.Replicas
	case *corev1.ReplicationController:
		w.Meta, w.Replicas = o.ObjectMeta, o.Spec.Replicas
		if o.Spec.Template != nil {
			w.Template = *o.Spec.Template
		}
	case *appsv1.DaemonSet:
		w.Meta, w.Template, w.Update, w.Asks = o.ObjectMeta, o.Spec.Template, o.Spec.UpdateStrategy, ""
	case *batchv1.Job:
		w.Meta, w.Template = o.ObjectMeta, o.Spec.Template
		w.Replicas, w.Asks = o.Spec.Parallelism, "spec.parallelism"
	case *batchv1.CronJob:
		job := o.Spec.JobTemplate.Spec
		w.Meta, w.Template, w.Replicas = o.ObjectMeta, job.Template, job.Parallelism
		w.Field, w.Asks = "spec.jobTemplate.spec.template", "spec.jobTemplate.spec.parallelism"
	default:
		return nil
	}
	return w
}

// OwnerIn returns the workload of made, by KIND/NAME, that controls an object; nil if none does. A ReplicaSet that is
// not in made has the name of its Deployment and a hash.
func OwnerIn(o metav1.Object, made map[string]*Workload) *Workload {
	c := metav1.GetControllerOf(o)
	if c == nil {
		return nil
	}
	if w := made[c.Kind+"/"+c.Name]; w != nil {
		of := metav1.GetControllerOf(&w.Meta)
		if of != nil && of.Kind != w.Kind { // a ReplicaSet or a Job may have one
			return cmp.Or(made[of.Kind+"/"+of.Name], w)
		}
		return w
	}
	name, _, ok := cutLast(c.Name, "-")
	if !ok || c.Kind != "ReplicaSet" {
		return nil
	}
	return cmp.Or(made["Deployment/"+name], made["Rollout/"+name])
}

// A Selection is what a Service selects of a workload's Pods.
type Selection struct {
	One      string // a label in the selector that only one of the Pods has; "" if there is none
	Revision string // a label in the selector that changes with each rollout; "" if there is none

	all     bool     // all Pods are selected
	beyond  string   // a label in the selector that only a Pod with a higher ordinal would have; "" if there is none
	lacking []string // labels in the selector that the template lacks, if it has others of the selector
}

// Any reports whether the Service selects any of the Pods.
func (s Selection) Any() bool { return s.all || s.One != "" }

// Selected compares a Service's selector with a workload's template, and with the labels that controllers add.
// https://kubernetes.io/docs/reference/labels-annotations-taints/
func (w *Workload) Selected(svc *corev1.Service) Selection {
	var is Selection
	same := 0
	for _, key := range slices.Sorted(maps.Keys(svc.Spec.Selector)) {
		value := svc.Spec.Selector[key]
		has, ok := w.Template.Labels[key]
		switch {
		case ok && has == value:
			same++
		case ok:
			return Selection{}
		case w.Kind == "StatefulSet" && (key == appsv1.StatefulSetPodNameLabel || key == appsv1.PodIndexLabel):
			if !w.numbers(key, value) {
				return Selection{beyond: key + "=" + value}
			}
			is.One = key
		case w.revisionLabel() == key:
			is.Revision = key
		case w.Kind == "Job" && (key == batchv1.JobNameLabel || key == "job-name"):
			if value != w.Meta.Name {
				return Selection{}
			}
		default:
			is.lacking = append(is.lacking, key+"="+value)
		}
	}
	switch {
	case len(is.lacking) > 0 && same == 0 || len(svc.Spec.Selector) == 0:
		return Selection{}
	case len(is.lacking) == 0 && is.One == "":
		is.all = true
	case len(is.lacking) > 0:
		return Selection{lacking: is.lacking}
	}
	return is
}

// numbers reports whether one of the StatefulSet's Pods has this label, which holds the Pod's ordinal.
func (w *Workload) numbers(key, value string) bool {
	if key == appsv1.StatefulSetPodNameLabel {
		name, ordinal, ok := cutLast(value, "-")
		if !ok || name != w.Meta.Name {
			return false
		}
		value = ordinal
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < w.First {
		return false
	}
	if w.Replicas == nil {
		return n == w.First
	}
	return n < w.First+int(*w.Replicas)
}

func cutLast(text, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// revisionLabel returns the label that the controller gives Pods to tell the revisions of a template apart.
func (w *Workload) revisionLabel() string {
	switch w.Kind {
	case "Deployment", "ReplicaSet":
		return appsv1.DefaultDeploymentUniqueLabelKey
	case "StatefulSet", "DaemonSet":
		return appsv1.ControllerRevisionHashLabelKey
	case "Rollout":
		return "rollouts-pod-template-hash"
	}
	return ""
}
