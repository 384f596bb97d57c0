// Package kubetest is Kubernetes for tests: a [kube.Client] of client-go's clientset, most often of its fake one, and
// parts of an API server over HTTP. The program itself must not import it: it would link all that lapse/internal/kube
// avoids.
package kubetest

import (
	"context"
	"io"

	authv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"lapse/internal/kube"
)

// Client returns the clientset as a [kube.Client].
func Client(clientset kubernetes.Interface) kube.Client { return client{clientset} }

type client struct{ set kubernetes.Interface }

// IsWatchListSemanticsUnSupported tells client-go's informers that a fake clientset cannot stream a list.
func (c client) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.set)
}

func (c client) Version(context.Context) (*version.Info, error) {
	return c.set.Discovery().ServerVersion()
}

func (c client) Resources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	return c.set.Discovery().ServerResourcesForGroupVersion(groupVersion)
}

func (c client) PodLog(
	ctx context.Context, namespace, pod string, options corev1.PodLogOptions,
) (io.ReadCloser, error) {
	return c.set.CoreV1().Pods(namespace).GetLogs(pod, &options).Stream(ctx)
}

func (c client) ConfigMaps(ns string) kube.ConfigMaps { return c.set.CoreV1().ConfigMaps(ns) }
func (c client) Events(ns string) kube.Events         { return c.set.CoreV1().Events(ns) }
func (c client) Namespaces() kube.Namespaces          { return c.set.CoreV1().Namespaces() }
func (c client) Nodes() kube.Nodes                    { return c.set.CoreV1().Nodes() }
func (c client) Pods(ns string) kube.Pods             { return c.set.CoreV1().Pods(ns) }
func (c client) Secrets(ns string) kube.Secrets       { return c.set.CoreV1().Secrets(ns) }
func (c client) ServiceAccounts(ns string) kube.ServiceAccounts {
	return c.set.CoreV1().ServiceAccounts(ns)
}
func (c client) Services(ns string) kube.Services { return c.set.CoreV1().Services(ns) }

func (c client) EndpointSlices(ns string) kube.EndpointSlices {
	return c.set.DiscoveryV1().EndpointSlices(ns)
}

func (c client) DaemonSets(ns string) kube.DaemonSets     { return c.set.AppsV1().DaemonSets(ns) }
func (c client) Deployments(ns string) kube.Deployments   { return c.set.AppsV1().Deployments(ns) }
func (c client) ReplicaSets(ns string) kube.ReplicaSets   { return c.set.AppsV1().ReplicaSets(ns) }
func (c client) StatefulSets(ns string) kube.StatefulSets { return c.set.AppsV1().StatefulSets(ns) }

func (c client) Jobs(ns string) kube.Jobs { return c.set.BatchV1().Jobs(ns) }

func (c client) Leases(ns string) kube.Leases { return c.set.CoordinationV1().Leases(ns) }

func (c client) EvictionRequests(ns string) kube.EvictionRequests {
	return c.set.LifecycleV1alpha1().EvictionRequests(ns)
}

func (c client) PodDisruptionBudgets(ns string) kube.PodDisruptionBudgets {
	return c.set.PolicyV1().PodDisruptionBudgets(ns)
}

func (c client) ClusterRoleBindings() kube.ClusterRoleBindings {
	return c.set.RbacV1().ClusterRoleBindings()
}
func (c client) ClusterRoles() kube.ClusterRoles          { return c.set.RbacV1().ClusterRoles() }
func (c client) RoleBindings(ns string) kube.RoleBindings { return c.set.RbacV1().RoleBindings(ns) }
func (c client) Roles(ns string) kube.Roles               { return c.set.RbacV1().Roles(ns) }

func (c client) SelfSubjectAccessReviews() kube.Creator[*authv1.SelfSubjectAccessReview] {
	return c.set.AuthorizationV1().SelfSubjectAccessReviews()
}
func (c client) SelfSubjectRulesReviews() kube.Creator[*authv1.SelfSubjectRulesReview] {
	return c.set.AuthorizationV1().SelfSubjectRulesReviews()
}
