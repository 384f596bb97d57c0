// Package kube asks a cluster's API about the few kinds of objects that Lapse deals with.
//
// For these it sends the very requests of client-go's clientset (k8s.io/client-go/kubernetes), through the same
// [rest.RESTClient], and gives the same errors. The clientset itself registers every kind of every API group when a
// program starts, also of one that never asks a cluster; here kinds are registered when a client is made.
// docs/decisions/0008-a-client-of-few-kinds.md has what that costs.
//
// For tests, lapse/internal/kube/kubetest makes a [Client] of the clientset or of its fake.
package kube

import (
	"context"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
)

// A Client reaches the objects of a cluster by their kind. Those that are in a namespace are of the one given, or of
// all namespaces if it is empty.
type Client interface {
	// Version asks for the API server's version. It needs no rights, and so tells whether there is a cluster at all.
	Version(context.Context) (*version.Info, error)

	ConfigMaps(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList]
	Events(namespace string) Objects[*corev1.Event, *corev1.EventList]
	Namespaces() Objects[*corev1.Namespace, *corev1.NamespaceList]
	Nodes() Objects[*corev1.Node, *corev1.NodeList]
	Pods(namespace string) Objects[*corev1.Pod, *corev1.PodList]
	// PodLog opens the log of a Pod's container.
	PodLog(ctx context.Context, namespace, pod string, options corev1.PodLogOptions) (io.ReadCloser, error)
	Secrets(namespace string) Writer[*corev1.Secret] // none is read
	ServiceAccounts(namespace string) Objects[*corev1.ServiceAccount, *corev1.ServiceAccountList]
	Services(namespace string) Objects[*corev1.Service, *corev1.ServiceList]

	EndpointSlices(namespace string) Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]

	DaemonSets(namespace string) Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList]
	Deployments(namespace string) Objects[*appsv1.Deployment, *appsv1.DeploymentList]
	ReplicaSets(namespace string) Objects[*appsv1.ReplicaSet, *appsv1.ReplicaSetList]
	StatefulSets(namespace string) Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList]

	Jobs(namespace string) Objects[*batchv1.Job, *batchv1.JobList]

	PodDisruptionBudgets(namespace string) Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList]

	ClusterRoleBindings() Objects[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]
	ClusterRoles() Objects[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList]
	RoleBindings(namespace string) Objects[*rbacv1.RoleBinding, *rbacv1.RoleBindingList]
	Roles(namespace string) Objects[*rbacv1.Role, *rbacv1.RoleList]

	SelfSubjectAccessReviews() Creator[*authv1.SelfSubjectAccessReview]
	SelfSubjectRulesReviews() Creator[*authv1.SelfSubjectRulesReview]
}

// Objects are the objects T of one kind, whose lists are L. What the API server refuses is an error of
// k8s.io/apimachinery/pkg/api/errors.
type Objects[T, L any] interface {
	Writer[T]
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// A Writer creates, changes and deletes objects of one kind.
type Writer[T any] interface {
	Creator[T]
	Patch(ctx context.Context, name string, kind types.PatchType, patch []byte, options metav1.PatchOptions, subresources ...string) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// A Creator creates objects of one kind, and returns them as the API server keeps or answers them.
type Creator[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}
