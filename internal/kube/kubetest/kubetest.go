// Package kubetest lets tests give client-go's clientset, most often its fake one, where a [kube.Client] is asked for.
// The program itself must not import it: it would get all that lapse/internal/kube spares it.
package kubetest

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
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/watchlist"

	"lapse/internal/kube"
)

// Client is the clientset as a [kube.Client].
func Client(clientset kubernetes.Interface) kube.Client { return client{clientset} }

type client struct{ set kubernetes.Interface }

// IsWatchListSemanticsUnSupported passes on to client-go's informers that a fake clientset cannot stream a list.
func (c client) IsWatchListSemanticsUnSupported() bool {
	return watchlist.DoesClientNotSupportWatchListSemantics(c.set)
}

func (c client) Version(context.Context) (*version.Info, error) {
	return c.set.Discovery().ServerVersion()
}

func (c client) ConfigMaps(namespace string) kube.Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return c.set.CoreV1().ConfigMaps(namespace)
}

func (c client) Events(namespace string) kube.Objects[*corev1.Event, *corev1.EventList] {
	return c.set.CoreV1().Events(namespace)
}

func (c client) Namespaces() kube.Objects[*corev1.Namespace, *corev1.NamespaceList] {
	return c.set.CoreV1().Namespaces()
}

func (c client) Nodes() kube.Objects[*corev1.Node, *corev1.NodeList] { return c.set.CoreV1().Nodes() }

func (c client) Pods(namespace string) kube.Objects[*corev1.Pod, *corev1.PodList] {
	return c.set.CoreV1().Pods(namespace)
}

func (c client) PodLog(ctx context.Context, namespace, pod string, options corev1.PodLogOptions) (io.ReadCloser, error) {
	return c.set.CoreV1().Pods(namespace).GetLogs(pod, &options).Stream(ctx)
}

func (c client) Secrets(namespace string) kube.Writer[*corev1.Secret] {
	return c.set.CoreV1().Secrets(namespace)
}

func (c client) ServiceAccounts(namespace string) kube.Objects[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
	return c.set.CoreV1().ServiceAccounts(namespace)
}

func (c client) Services(namespace string) kube.Objects[*corev1.Service, *corev1.ServiceList] {
	return c.set.CoreV1().Services(namespace)
}

func (c client) EndpointSlices(namespace string) kube.Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return c.set.DiscoveryV1().EndpointSlices(namespace)
}

func (c client) DaemonSets(namespace string) kube.Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return c.set.AppsV1().DaemonSets(namespace)
}

func (c client) Deployments(namespace string) kube.Objects[*appsv1.Deployment, *appsv1.DeploymentList] {
	return c.set.AppsV1().Deployments(namespace)
}

func (c client) ReplicaSets(namespace string) kube.Objects[*appsv1.ReplicaSet, *appsv1.ReplicaSetList] {
	return c.set.AppsV1().ReplicaSets(namespace)
}

func (c client) StatefulSets(namespace string) kube.Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return c.set.AppsV1().StatefulSets(namespace)
}

func (c client) PodDisruptionBudgets(namespace string) kube.Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
	return c.set.PolicyV1().PodDisruptionBudgets(namespace)
}

func (c client) Jobs(namespace string) kube.Objects[*batchv1.Job, *batchv1.JobList] {
	return c.set.BatchV1().Jobs(namespace)
}

func (c client) ClusterRoleBindings() kube.Objects[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList] {
	return c.set.RbacV1().ClusterRoleBindings()
}

func (c client) ClusterRoles() kube.Objects[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList] {
	return c.set.RbacV1().ClusterRoles()
}

func (c client) RoleBindings(namespace string) kube.Objects[*rbacv1.RoleBinding, *rbacv1.RoleBindingList] {
	return c.set.RbacV1().RoleBindings(namespace)
}

func (c client) Roles(namespace string) kube.Objects[*rbacv1.Role, *rbacv1.RoleList] {
	return c.set.RbacV1().Roles(namespace)
}

func (c client) SelfSubjectAccessReviews() kube.Creator[*authv1.SelfSubjectAccessReview] {
	return c.set.AuthorizationV1().SelfSubjectAccessReviews()
}

func (c client) SelfSubjectRulesReviews() kube.Creator[*authv1.SelfSubjectRulesReview] {
	return c.set.AuthorizationV1().SelfSubjectRulesReviews()
}
