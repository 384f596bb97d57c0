package manifest

import (
	"encoding/json"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/preflight/service"
)

// A kind is a kind of object that is read from manifests.
type kind struct {
	apiVersion, name string

	object  func() metav1.Object // a new one to decode into
	refused string               // the version of Kubernetes that removed the apiVersion; "" if it is served today
	partial bool                 // the Go type has only some of the fields: others are no mistake
}

// kinds lists the kinds that are read. A version that Kubernetes has removed is read as the one that replaced it.
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var kinds = []kind{
	served("v1", "Service", of[corev1.Service]),
	served("v1", "Pod", of[corev1.Pod]),
	served("v1", "ReplicationController", of[corev1.ReplicationController]),
	served("apps/v1", "Deployment", of[appsv1.Deployment]),
	served("apps/v1", "StatefulSet", of[appsv1.StatefulSet]),
	served("apps/v1", "DaemonSet", of[appsv1.DaemonSet]),
	served("apps/v1", "ReplicaSet", of[appsv1.ReplicaSet]),
	served("batch/v1", "Job", of[batchv1.Job]),
	served("batch/v1", "CronJob", of[batchv1.CronJob]),
	served("policy/v1", "PodDisruptionBudget", of[policyv1.PodDisruptionBudget]),
	served("autoscaling/v2", "HorizontalPodAutoscaler", of[autoscalingv2.HorizontalPodAutoscaler]),
	served("autoscaling/v1", "HorizontalPodAutoscaler", of[autoscalingv1.HorizontalPodAutoscaler]),
	{apiVersion: "keda.sh/v1alpha1", name: "ScaledObject", partial: true, object: of[scaledObject]},

	removed("1.16", "extensions/v1beta1", "Deployment", of[appsv1.Deployment]),
	removed("1.16", "extensions/v1beta1", "DaemonSet", of[appsv1.DaemonSet]),
	removed("1.16", "extensions/v1beta1", "ReplicaSet", of[appsv1.ReplicaSet]),
	removed("1.16", "apps/v1beta1", "Deployment", of[appsv1.Deployment]),
	removed("1.16", "apps/v1beta1", "StatefulSet", of[appsv1.StatefulSet]),
	removed("1.16", "apps/v1beta2", "Deployment", of[appsv1.Deployment]),
	removed("1.16", "apps/v1beta2", "StatefulSet", of[appsv1.StatefulSet]),
	removed("1.16", "apps/v1beta2", "DaemonSet", of[appsv1.DaemonSet]),
	removed("1.16", "apps/v1beta2", "ReplicaSet", of[appsv1.ReplicaSet]),
	removed("1.21", "batch/v2alpha1", "CronJob", of[batchv1.CronJob]),
	removed("1.25", "batch/v1beta1", "CronJob", of[batchv1.CronJob]),
	removed("1.25", "policy/v1beta1", "PodDisruptionBudget", of[policyv1.PodDisruptionBudget]),
	removed("1.25", "autoscaling/v2beta1", "HorizontalPodAutoscaler", of[autoscalingv1.HorizontalPodAutoscaler]),
	removed("1.26", "autoscaling/v2beta2", "HorizontalPodAutoscaler", of[autoscalingv1.HorizontalPodAutoscaler]),
}

func served(apiVersion, name string, object func() metav1.Object) kind {
	return kind{apiVersion: apiVersion, name: name, object: object}
}

func removed(since, apiVersion, name string, object func() metav1.Object) kind {
	return kind{apiVersion: apiVersion, name: name, object: object, refused: since, partial: true}
}

func of[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}

// kindNamed returns the kind of a document: one that is listed, or any other whose spec has a template of Pods, such as
// an Argo Rollout or an OpenShift DeploymentConfig. It returns nil for all others.
func kindNamed(apiVersion, name string, document json.RawMessage) *kind {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.apiVersion == apiVersion && k.name == name })
	if i >= 0 {
		return &kinds[i]
	}
	var is custom
	if json.Unmarshal(document, &is) != nil || !is.makesPods() {
		return nil
	}
	return &kind{apiVersion: apiVersion, name: name, partial: true, object: of[custom]}
}

// custom is an object of a kind that is not listed, with a template of Pods where Deployments have it.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas    *int32                  `json:"replicas"`
		Template    *corev1.PodTemplateSpec `json:"template"`
		WorkloadRef *service.Reference      `json:"workloadRef"` // of an Argo Rollout, instead of a template
	} `json:"spec"`
}

func (c *custom) makesPods() bool {
	return c.Spec.WorkloadRef != nil || c.Spec.Template != nil && len(c.Spec.Template.Spec.Containers) > 0
}

// workloadOf returns what makes Pods as a Workload, nil for other objects and for Pods.
func workloadOf(kind string, o metav1.Object) *service.Workload {
	c, ok := o.(*custom)
	if !ok {
		return service.WorkloadOf(kind, o)
	}
	w := &service.Workload{
		Kind:     kind,
		Meta:     c.ObjectMeta,
		Field:    "spec.template",
		Asks:     "spec.replicas",
		Replicas: c.Spec.Replicas,
		Like:     c.Spec.WorkloadRef,
	}
	if c.Spec.Template != nil {
		w.Template = *c.Spec.Template
	}
	if kind != "Rollout" && w.Replicas == nil {
		w.Asks = ""
	}
	return w
}

// scaledObject is an autoscaler of KEDA.
// https://keda.sh/docs/latest/reference/scaledobject-spec/
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef   service.Reference `json:"scaleTargetRef"`
		IdleReplicaCount *int32            `json:"idleReplicaCount"`
		MinReplicaCount  *int32            `json:"minReplicaCount"`
		MaxReplicaCount  *int32            `json:"maxReplicaCount"`
		Triggers         []struct {
			Type string `json:"type"`
		} `json:"triggers"`
	} `json:"spec"`
}

// alwaysActive reports whether all triggers are of CPU and memory, which a workload without Pods does not have: then
// one Pod is kept.
func (o *scaledObject) alwaysActive() bool {
	for _, t := range o.Spec.Triggers {
		if t.Type != "cpu" && t.Type != "memory" {
			return false
		}
	}
	return len(o.Spec.Triggers) > 0
}

// autoscalerOf returns an object as an autoscaler, nil if it is none.
func autoscalerOf(o metav1.Object) *service.Autoscaler {
	switch o := o.(type) {
	case *autoscalingv2.HorizontalPodAutoscaler:
		target := service.Reference{Kind: o.Spec.ScaleTargetRef.Kind, Name: o.Spec.ScaleTargetRef.Name}
		return horizontal(o.Name, target, o.Spec.MinReplicas, o.Spec.MaxReplicas)
	case *autoscalingv1.HorizontalPodAutoscaler:
		target := service.Reference{Kind: o.Spec.ScaleTargetRef.Kind, Name: o.Spec.ScaleTargetRef.Name}
		return horizontal(o.Name, target, o.Spec.MinReplicas, o.Spec.MaxReplicas)
	case *scaledObject:
		a := &service.Autoscaler{
			Kind:   "ScaledObject",
			Name:   o.Name,
			Target: o.Spec.ScaleTargetRef,
			Field:  "spec.minReplicaCount",
			Min:    o.Spec.MinReplicaCount,
			Max:    100,
		}
		if a.Target.Kind == "" {
			a.Target.Kind = "Deployment"
		}
		if o.Spec.MaxReplicaCount != nil {
			a.Max = int(*o.Spec.MaxReplicaCount)
		}
		switch {
		case o.alwaysActive():
			a.Default = 1
		case o.Spec.IdleReplicaCount != nil:
			a.Field, a.Min = "spec.idleReplicaCount", o.Spec.IdleReplicaCount
		}
		return a
	}
	return nil
}

func horizontal(name string, target service.Reference, least *int32, most int32) *service.Autoscaler {
	return &service.Autoscaler{
		Kind:    "HorizontalPodAutoscaler",
		Name:    name,
		Target:  target,
		Field:   "spec.minReplicas",
		Min:     least,
		Default: 1,
		Max:     int(most),
	}
}
