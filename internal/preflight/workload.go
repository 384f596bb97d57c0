package preflight

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

	like *reference // has the template, for an Argo Rollout without one
}

func (w *Workload) object() string { return w.Kind + "/" + w.Meta.Name }

// endsLike reports whether a Pod's containers start, serve and end as the template says: then it is the template that
// one edits. Something may have been injected into the Pod, or the template may have changed since.
func (w *Workload) endsLike(spec *corev1.PodSpec) bool {
	template := &w.Template.Spec
	if len(template.Containers) != len(spec.Containers) || grace(template) != grace(spec) {
		return false
	}
	for i := range spec.Containers {
		a, b := &template.Containers[i], &spec.Containers[i]
		if a.Name != b.Name || a.Image != b.Image || !slices.Equal(a.Command, b.Command) || !slices.Equal(a.Args, b.Args) ||
			!equality.Semantic.DeepEqual(a.Ports, b.Ports) || !equality.Semantic.DeepEqual(a.Lifecycle, b.Lifecycle) ||
			!equality.Semantic.DeepEqual(probes(a), probes(b)) {
			return false
		}
	}
	return true
}

// workloadOf returns what makes Pods as a Workload, nil for other objects and for Pods.
func workloadOf(kind string, o metav1.Object) *Workload {
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
		w.Meta, w.Template, w.Replicas, w.Asks = o.ObjectMeta, o.Spec.Template, o.Spec.Parallelism, "spec.parallelism"
	case *batchv1.CronJob:
		job := o.Spec.JobTemplate.Spec
		w.Meta, w.Template, w.Replicas = o.ObjectMeta, job.Template, job.Parallelism
		w.Field, w.Asks = "spec.jobTemplate.spec.template", "spec.jobTemplate.spec.parallelism"
	case *custom:
		w.Meta, w.Replicas, w.like = o.ObjectMeta, o.Spec.Replicas, o.Spec.WorkloadRef
		if o.Spec.Template != nil {
			w.Template = *o.Spec.Template
		}
		if kind != "Rollout" && w.Replicas == nil {
			w.Asks = ""
		}
	default:
		return nil
	}
	return w
}

// An Autoscaler sets the number of a workload's Pods.
type Autoscaler struct {
	Kind, Name string
	Target     reference
	Field      string // of the least number
	Min        *int32 // its value; nil if it is not set
	Max        int
}

func (a *Autoscaler) object() string { return a.Kind + "/" + a.Name }

// least is the number of Pods that the autoscaler leaves when nothing is to be done; 0 if that is not known.
func (a *Autoscaler) least() int {
	switch {
	case a.Min != nil:
		return int(*a.Min)
	case a.Kind == "HorizontalPodAutoscaler":
		return 1
	}
	return 0
}

func (a *Autoscaler) evidence() Evidence {
	if a.Min == nil {
		return Evidence{a.object(), a.Field, fmt.Sprintf("not set: %d", a.least())}
	}
	return Evidence{a.object(), a.Field, fmt.Sprint(*a.Min)}
}

// autoscalerOf returns nil for other objects.
func autoscalerOf(o metav1.Object) *Autoscaler {
	const hpa = "HorizontalPodAutoscaler"
	switch o := o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		target := reference{o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name}
		return &Autoscaler{hpa, o.Name, target, "spec.minReplicas", o.Spec.MinReplicas, int(o.Spec.MaxReplicas)}
	case *autoscalingv1.HorizontalPodAutoscaler:
		target := reference{o.Spec.ScaleTargetRef.Kind, o.Spec.ScaleTargetRef.Name}
		return &Autoscaler{hpa, o.Name, target, "spec.minReplicas", o.Spec.MinReplicas, int(o.Spec.MaxReplicas)}
	case *scaledObject:
		a := &Autoscaler{"ScaledObject", o.Name, o.Spec.ScaleTargetRef, "spec.minReplicaCount", o.Spec.MinReplicaCount, 100}
		if a.Target.Kind == "" {
			a.Target.Kind = "Deployment"
		}
		if o.Spec.MaxReplicaCount != nil {
			a.Max = int(*o.Spec.MaxReplicaCount)
		}
		return a
	}
	return nil
}

// scaler returns the autoscaler of a workload, nil if none is known.
func (s *State) scaler(w *Workload) *Autoscaler {
	i := slices.IndexFunc(s.Autoscalers, func(a Autoscaler) bool { return a.Target.Kind == w.Kind && a.Target.Name == w.Meta.Name })
	if i < 0 {
		return nil
	}
	return &s.Autoscalers[i]
}

// An amount is how many Pods there are at least and at most. Most is negative if it is not known.
type amount struct{ least, most int }

func exactly(n int) amount { return amount{n, n} }

var unknownAmount = amount{0, -1}

func (a amount) plus(b amount) amount {
	if a.most < 0 || b.most < 0 {
		return amount{a.least + b.least, -1}
	}
	return amount{a.least + b.least, a.most + b.most}
}

func (a amount) known() bool { return a.most >= 0 }

// asked returns how many Pods a workload makes, and what says so.
func (s *State) asked(w *Workload) (amount, Evidence) {
	a := s.scaler(w)
	switch {
	case w.Kind == "DaemonSet":
		return unknownAmount, Evidence{w.object(), "kind", "DaemonSet: one Pod on each node that it selects"}
	case w.Replicas != nil && *w.Replicas == 0 && (a == nil || a.Kind == "HorizontalPodAutoscaler"): // stops an HPA
		return exactly(0), Evidence{w.object(), w.Asks, "0"}
	case a != nil && a.least() == 0:
		return unknownAmount, Evidence{a.object(), a.Field, "not set, or 0"}
	case a != nil:
		return amount{a.least(), max(a.least(), a.Max)}, a.evidence()
	case w.Replicas != nil:
		return exactly(int(*w.Replicas)), Evidence{w.object(), w.Asks, fmt.Sprint(*w.Replicas)}
	case w.Asks == "":
		return unknownAmount, Evidence{w.object(), "spec.replicas", "not set"}
	}
	return exactly(1), Evidence{w.object(), w.Asks, "not set: 1"}
}

// A selection is what a Service selects of a workload's Pods.
type selection struct {
	all      bool     // all of them
	one      string   // the label that only one of them has, "" if it is not that
	revision string   // the label that changes with each change of the template, "" if it is not that
	beyond   string   // the label of a Pod that the workload does not make, "" if it is not that
	lacking  []string // labels that the template does not have, where it has others of the selector
}

func (s selection) any() bool { return s.all || s.one != "" }

// selected compares a Service's selector with a workload's template, and with the labels that controllers add.
// https://kubernetes.io/docs/reference/labels-annotations-taints/
func (w *Workload) selected(svc *corev1.Service) selection {
	var is selection
	same := 0
	for _, key := range sortedKeys(svc.Spec.Selector) {
		value := svc.Spec.Selector[key]
		has, ok := w.Template.Labels[key]
		switch {
		case ok && has == value:
			same++
		case ok:
			return selection{}
		case w.Kind == "StatefulSet" && (key == appsv1.StatefulSetPodNameLabel || key == appsv1.PodIndexLabel):
			if !w.numbers(key, value) {
				return selection{beyond: key + "=" + value}
			}
			is.one = key
		case w.revisionLabel() == key:
			is.revision = key
		case w.Kind == "Job" && (key == batchv1.JobNameLabel || key == "job-name"):
			if value != w.Meta.Name {
				return selection{}
			}
		default:
			is.lacking = append(is.lacking, key+"="+value)
		}
	}
	switch {
	case len(is.lacking) > 0 && same == 0 || len(svc.Spec.Selector) == 0:
		return selection{}
	case len(is.lacking) == 0 && is.one == "":
		is.all = true
	case len(is.lacking) > 0:
		return selection{lacking: is.lacking}
	}
	return is
}

// numbers reports whether one of the StatefulSet's Pods has a label that ends in its ordinal.
func (w *Workload) numbers(key, value string) bool {
	if key == appsv1.StatefulSetPodNameLabel {
		name, ordinal, ok := cutLast(value, "-")
		if !ok || name != w.Meta.Name {
			return false
		}
		value = ordinal
	}
	n, err := strconv.Atoi(value)
	return err == nil && n >= w.First && (w.Replicas == nil && n == w.First || w.Replicas != nil && n < w.First+int(*w.Replicas))
}

func cutLast(text, separator string) (before, after string, ok bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return text, "", false
	}
	return text[:i], text[i+len(separator):], true
}

// revisionLabel is the label by which the controller tells the Pods of one template from those of the next.
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
