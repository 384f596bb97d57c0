package preflight

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
)

// A kind is one that manifests are read for.
type kind struct {
	apiVersion, name string

	refused string               // the version of Kubernetes that removed the apiVersion; "" if it is served today
	partial bool                 // the Go type has only some of the fields: others are no mistake
	object  func() metav1.Object // a new one to decode into
}

// kinds lists them. Versions that Kubernetes has removed are read as those that replaced them.
// https://kubernetes.io/docs/reference/using-api/deprecation-guide/
var kinds = []kind{
	{apiVersion: "v1", name: "Service", object: of[corev1.Service]},
	{apiVersion: "v1", name: "Pod", object: of[corev1.Pod]},
	{apiVersion: "v1", name: "ReplicationController", object: of[corev1.ReplicationController]},
	{apiVersion: "apps/v1", name: "Deployment", object: of[appsv1.Deployment]},
	{apiVersion: "apps/v1", name: "StatefulSet", object: of[appsv1.StatefulSet]},
	{apiVersion: "apps/v1", name: "DaemonSet", object: of[appsv1.DaemonSet]},
	{apiVersion: "apps/v1", name: "ReplicaSet", object: of[appsv1.ReplicaSet]},
	{apiVersion: "batch/v1", name: "Job", object: of[batchv1.Job]},
	{apiVersion: "batch/v1", name: "CronJob", object: of[batchv1.CronJob]},
	{apiVersion: "policy/v1", name: "PodDisruptionBudget", object: of[policyv1.PodDisruptionBudget]},
	{apiVersion: "autoscaling/v2", name: "HorizontalPodAutoscaler", object: of[autoscalingv2.HorizontalPodAutoscaler]},
	{apiVersion: "autoscaling/v1", name: "HorizontalPodAutoscaler", object: of[autoscalingv1.HorizontalPodAutoscaler]},
	{apiVersion: "keda.sh/v1alpha1", name: "ScaledObject", partial: true, object: of[scaledObject]},

	{apiVersion: "extensions/v1beta1", name: "Deployment", refused: "1.16", partial: true, object: of[appsv1.Deployment]},
	{apiVersion: "extensions/v1beta1", name: "DaemonSet", refused: "1.16", partial: true, object: of[appsv1.DaemonSet]},
	{apiVersion: "extensions/v1beta1", name: "ReplicaSet", refused: "1.16", partial: true, object: of[appsv1.ReplicaSet]},
	{apiVersion: "apps/v1beta1", name: "Deployment", refused: "1.16", partial: true, object: of[appsv1.Deployment]},
	{apiVersion: "apps/v1beta1", name: "StatefulSet", refused: "1.16", partial: true, object: of[appsv1.StatefulSet]},
	{apiVersion: "apps/v1beta2", name: "Deployment", refused: "1.16", partial: true, object: of[appsv1.Deployment]},
	{apiVersion: "apps/v1beta2", name: "StatefulSet", refused: "1.16", partial: true, object: of[appsv1.StatefulSet]},
	{apiVersion: "apps/v1beta2", name: "DaemonSet", refused: "1.16", partial: true, object: of[appsv1.DaemonSet]},
	{apiVersion: "apps/v1beta2", name: "ReplicaSet", refused: "1.16", partial: true, object: of[appsv1.ReplicaSet]},
	{apiVersion: "batch/v2alpha1", name: "CronJob", refused: "1.21", partial: true, object: of[batchv1.CronJob]},
	{apiVersion: "batch/v1beta1", name: "CronJob", refused: "1.25", partial: true, object: of[batchv1.CronJob]},
	{apiVersion: "policy/v1beta1", name: "PodDisruptionBudget", refused: "1.25", partial: true, object: of[policyv1.PodDisruptionBudget]},
	{apiVersion: "autoscaling/v2beta1", name: "HorizontalPodAutoscaler", refused: "1.25", partial: true, object: of[autoscalingv1.HorizontalPodAutoscaler]},
	{apiVersion: "autoscaling/v2beta2", name: "HorizontalPodAutoscaler", refused: "1.26", partial: true, object: of[autoscalingv1.HorizontalPodAutoscaler]},
}

func of[T any, P interface {
	*T
	metav1.Object
}]() metav1.Object {
	return P(new(T))
}

// kindNamed returns the kind of a document. Any other kind whose spec has a template of Pods is read for these: an
// Argo Rollout, an OpenShift DeploymentConfig. It returns nil for all others.
func kindNamed(apiVersion, name string, document json.RawMessage) *kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.apiVersion == apiVersion && k.name == name }); i >= 0 {
		return &kinds[i]
	}
	var is custom
	if json.Unmarshal(document, &is) != nil || is.Spec.WorkloadRef == nil && (is.Spec.Template == nil || len(is.Spec.Template.Spec.Containers) == 0) {
		return nil
	}
	return &kind{apiVersion: apiVersion, name: name, partial: true, object: of[custom]}
}

// custom is an object of another kind that has a template of Pods as Deployments have it.
type custom struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		Replicas    *int32                  `json:"replicas"`
		Template    *corev1.PodTemplateSpec `json:"template"`
		WorkloadRef *reference              `json:"workloadRef"` // of an Argo Rollout, instead of a template
	} `json:"spec"`
}

// scaledObject is KEDA's.
// https://keda.sh/docs/latest/reference/scaledobject-spec/
type scaledObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata"`
	Spec              struct {
		ScaleTargetRef  reference `json:"scaleTargetRef"`
		MinReplicaCount *int32    `json:"minReplicaCount"`
		MaxReplicaCount *int32    `json:"maxReplicaCount"`
	} `json:"spec"`
}

// A reference names an object of the same namespace.
type reference struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}
