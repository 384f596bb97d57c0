// Package kube asks a cluster's API about the few kinds of objects that Lapse deals with.
//
// For these it sends the same requests as client-go's clientset (k8s.io/client-go/kubernetes), through the same
// [rest.RESTClient], and returns the same errors. The clientset registers every kind of every API group when a program
// starts, even if the program never asks a cluster, and the linker keeps all of it. Its typed clients do the same.
// Here kinds are registered when a client is made, in a scheme of nine API groups. With client-go v0.37.2 and go1.26.8
// on linux/amd64:
//
//	                                              clientset          kube
//	packages linked                               766                393
//	the program (go build -trimpath)              87 MB              35 MB
//	lapse --version: resident at most, CPU        33 MB, 12.7 ms     18 MB, 6.4 ms
//	lapse run, 20 s at 2000/s: resident           45 to 51 MB        30 to 31 MB
//
// Not the dynamic client: it returns maps instead of types. Not client-go/gentype: its package holds its fakes, and
// these bring OpenAPI. Tests compare requests with the clientset's byte for byte, and fail if the clientset is linked.
//
// For tests, lapse/internal/kube/kubetest makes a [Client] of the clientset or of its fake.
package kube

import (
	"context"
	"io"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apimachinery/pkg/watch"
)

// A Client reaches the objects of a cluster by their kind, in one namespace, or in all namespaces if the name is empty.
type Client interface {
	// Version asks for the API server's version. It needs no rights, and so says whether there is a cluster at all.
	Version(context.Context) (*version.Info, error)
	// Resources asks for the resources that the API server serves of a group's version, such as apps/v1. Every user may
	// ask. If it serves none, the error is one of NotFound.
	Resources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error)
	// PodLog opens the log of a Pod's container.
	PodLog(ctx context.Context, namespace, pod string, options corev1.PodLogOptions) (io.ReadCloser, error)

	ConfigMaps(namespace string) ConfigMaps
	Events(namespace string) Events
	Namespaces() Namespaces
	Nodes() Nodes
	Pods(namespace string) Pods
	Secrets(namespace string) Secrets
	ServiceAccounts(namespace string) ServiceAccounts
	Services(namespace string) Services

	EndpointSlices(namespace string) EndpointSlices

	DaemonSets(namespace string) DaemonSets
	Deployments(namespace string) Deployments
	ReplicaSets(namespace string) ReplicaSets
	StatefulSets(namespace string) StatefulSets

	Jobs(namespace string) Jobs

	Leases(namespace string) Leases

	EvictionRequests(namespace string) EvictionRequests // since Kubernetes 1.37, and only if the cluster enables them

	PodDisruptionBudgets(namespace string) PodDisruptionBudgets

	ClusterRoleBindings() ClusterRoleBindings
	ClusterRoles() ClusterRoles
	RoleBindings(namespace string) RoleBindings
	Roles(namespace string) Roles

	SelfSubjectAccessReviews() Creator[*authv1.SelfSubjectAccessReview]
	SelfSubjectRulesReviews() Creator[*authv1.SelfSubjectRulesReview]
}

// The objects of each kind.
type (
	ConfigMaps           = Objects[*corev1.ConfigMap, *corev1.ConfigMapList]
	Events               = Objects[*corev1.Event, *corev1.EventList]
	Namespaces           = Objects[*corev1.Namespace, *corev1.NamespaceList]
	Nodes                = Objects[*corev1.Node, *corev1.NodeList]
	Pods                 = Objects[*corev1.Pod, *corev1.PodList]
	ServiceAccounts      = Objects[*corev1.ServiceAccount, *corev1.ServiceAccountList]
	Services             = Objects[*corev1.Service, *corev1.ServiceList]
	EndpointSlices       = Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	DaemonSets           = Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList]
	Deployments          = Objects[*appsv1.Deployment, *appsv1.DeploymentList]
	ReplicaSets          = Objects[*appsv1.ReplicaSet, *appsv1.ReplicaSetList]
	StatefulSets         = Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList]
	Jobs                 = Objects[*batchv1.Job, *batchv1.JobList]
	Leases               = Objects[*coordinationv1.Lease, *coordinationv1.LeaseList]
	EvictionRequests     = Objects[*lifecyclev1alpha1.EvictionRequest, *lifecyclev1alpha1.EvictionRequestList]
	PodDisruptionBudgets = Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList]
	ClusterRoleBindings  = Objects[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList]
	ClusterRoles         = Objects[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList]
	RoleBindings         = Objects[*rbacv1.RoleBinding, *rbacv1.RoleBindingList]
	Roles                = Objects[*rbacv1.Role, *rbacv1.RoleList]
)

// Objects are the objects T of one kind, whose lists are L. A refusal of the API server is an error of
// k8s.io/apimachinery/pkg/api/errors.
type Objects[T, L any] interface {
	Writer[T]
	Get(ctx context.Context, name string, options metav1.GetOptions) (T, error)
	List(ctx context.Context, options metav1.ListOptions) (L, error)
	Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
}

// Secrets are read by name only.
type Secrets interface {
	Writer[*corev1.Secret]
	Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Secret, error)
}

// A Writer creates, changes and deletes objects of one kind.
type Writer[T any] interface {
	Creator[T]
	Patch(
		ctx context.Context, name string, kind types.PatchType, patch []byte,
		options metav1.PatchOptions, subresources ...string,
	) (T, error)
	Delete(ctx context.Context, name string, options metav1.DeleteOptions) error
}

// A Creator creates objects of one kind, and returns them as the API server answers.
type Creator[T any] interface {
	Create(ctx context.Context, object T, options metav1.CreateOptions) (T, error)
}
