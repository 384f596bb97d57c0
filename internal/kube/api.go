package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"

	appsv1 "k8s.io/api/apps/v1"
	authv1 "k8s.io/api/authorization/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// An API is the [Client] of a real cluster.
type API struct {
	core, apps, discovery, batch, policy, rbac, authorization *rest.RESTClient
	parameters                                                runtime.ParameterCodec
}

// New returns a client of the cluster that config names. It does not ask the cluster anything yet: the error is of the
// configuration.
func New(config *rest.Config) (*API, error) {
	shared := rest.CopyConfig(config)
	shared.UserAgent = cmp.Or(shared.UserAgent, rest.DefaultKubernetesUserAgent())
	if shared.RateLimiter == nil && shared.QPS > 0 {
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, cmp.Or(shared.Burst, rest.DefaultBurst))
	}
	connections, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	api := &API{parameters: runtime.NewParameterCodec(scheme)}
	codecs := rest.CodecFactoryForGeneratedClient(scheme, serializer.NewCodecFactory(scheme)).WithoutConversion()
	for _, group := range []struct {
		client  **rest.RESTClient
		path    string
		version schema.GroupVersion
	}{
		{&api.core, "/api", corev1.SchemeGroupVersion},
		{&api.apps, "/apis", appsv1.SchemeGroupVersion},
		{&api.discovery, "/apis", discoveryv1.SchemeGroupVersion},
		{&api.batch, "/apis", batchv1.SchemeGroupVersion},
		{&api.policy, "/apis", policyv1.SchemeGroupVersion},
		{&api.rbac, "/apis", rbacv1.SchemeGroupVersion},
		{&api.authorization, "/apis", authv1.SchemeGroupVersion},
	} {
		if *group.client, err = newGroup(shared, connections, codecs, group.path, group.version); err != nil {
			return nil, err
		}
	}
	return api, nil
}

// newGroup returns a client of one API group, over connections that it shares with the others.
func newGroup(shared *rest.Config, connections *http.Client, codecs runtime.NegotiatedSerializer, path string, version schema.GroupVersion) (*rest.RESTClient, error) {
	config := rest.CopyConfig(shared)
	config.APIPath, config.GroupVersion, config.NegotiatedSerializer = path, &version, codecs
	client, err := rest.RESTClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, fmt.Errorf("client of %s: %w", version, err)
	}
	return client, nil
}

// newScheme knows the kinds of the groups in [API], to encode and decode them.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	groups := runtime.NewSchemeBuilder(corev1.AddToScheme, appsv1.AddToScheme, discoveryv1.AddToScheme, batchv1.AddToScheme, policyv1.AddToScheme, rbacv1.AddToScheme, authv1.AddToScheme)
	if err := groups.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("register the kinds of objects: %w", err)
	}
	return scheme, nil
}

func (a *API) Version(ctx context.Context) (*version.Info, error) {
	answer, err := a.core.Get().AbsPath("/version").DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	info := new(version.Info)
	if err := json.Unmarshal(answer, info); err != nil {
		return nil, fmt.Errorf("read the API server's version: %w", err)
	}
	return info, nil
}

// PortForward is the address at which a Pod's ports are forwarded.
func (a *API) PortForward(namespace, pod string) *url.URL {
	return a.core.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
}

func (a *API) ConfigMaps(namespace string) Objects[*corev1.ConfigMap, *corev1.ConfigMapList] {
	return objects[corev1.ConfigMap, corev1.ConfigMapList](a, a.core, "configmaps", namespace)
}

func (a *API) Events(namespace string) Objects[*corev1.Event, *corev1.EventList] {
	return objects[corev1.Event, corev1.EventList](a, a.core, "events", namespace)
}

func (a *API) Namespaces() Objects[*corev1.Namespace, *corev1.NamespaceList] {
	return objects[corev1.Namespace, corev1.NamespaceList](a, a.core, "namespaces", "")
}

func (a *API) Nodes() Objects[*corev1.Node, *corev1.NodeList] {
	return objects[corev1.Node, corev1.NodeList](a, a.core, "nodes", "")
}

func (a *API) Pods(namespace string) Objects[*corev1.Pod, *corev1.PodList] {
	return objects[corev1.Pod, corev1.PodList](a, a.core, "pods", namespace)
}

func (a *API) PodLog(ctx context.Context, namespace, pod string, options corev1.PodLogOptions) (io.ReadCloser, error) {
	return a.core.Get().Resource("pods").Namespace(namespace).Name(pod).SubResource("log").VersionedParams(&options, a.parameters).Stream(ctx)
}

func (a *API) Secrets(namespace string) Writer[*corev1.Secret] {
	return objects[corev1.Secret, corev1.SecretList](a, a.core, "secrets", namespace)
}

func (a *API) ServiceAccounts(namespace string) Objects[*corev1.ServiceAccount, *corev1.ServiceAccountList] {
	return objects[corev1.ServiceAccount, corev1.ServiceAccountList](a, a.core, "serviceaccounts", namespace)
}

func (a *API) Services(namespace string) Objects[*corev1.Service, *corev1.ServiceList] {
	return objects[corev1.Service, corev1.ServiceList](a, a.core, "services", namespace)
}

func (a *API) EndpointSlices(namespace string) Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return objects[discoveryv1.EndpointSlice, discoveryv1.EndpointSliceList](a, a.discovery, "endpointslices", namespace)
}

func (a *API) DaemonSets(namespace string) Objects[*appsv1.DaemonSet, *appsv1.DaemonSetList] {
	return objects[appsv1.DaemonSet, appsv1.DaemonSetList](a, a.apps, "daemonsets", namespace)
}

func (a *API) Deployments(namespace string) Objects[*appsv1.Deployment, *appsv1.DeploymentList] {
	return objects[appsv1.Deployment, appsv1.DeploymentList](a, a.apps, "deployments", namespace)
}

func (a *API) ReplicaSets(namespace string) Objects[*appsv1.ReplicaSet, *appsv1.ReplicaSetList] {
	return objects[appsv1.ReplicaSet, appsv1.ReplicaSetList](a, a.apps, "replicasets", namespace)
}

func (a *API) StatefulSets(namespace string) Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return objects[appsv1.StatefulSet, appsv1.StatefulSetList](a, a.apps, "statefulsets", namespace)
}

func (a *API) PodDisruptionBudgets(namespace string) Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
	return objects[policyv1.PodDisruptionBudget, policyv1.PodDisruptionBudgetList](a, a.policy, "poddisruptionbudgets", namespace)
}

func (a *API) Jobs(namespace string) Objects[*batchv1.Job, *batchv1.JobList] {
	return objects[batchv1.Job, batchv1.JobList](a, a.batch, "jobs", namespace)
}

func (a *API) ClusterRoleBindings() Objects[*rbacv1.ClusterRoleBinding, *rbacv1.ClusterRoleBindingList] {
	return objects[rbacv1.ClusterRoleBinding, rbacv1.ClusterRoleBindingList](a, a.rbac, "clusterrolebindings", "")
}

func (a *API) ClusterRoles() Objects[*rbacv1.ClusterRole, *rbacv1.ClusterRoleList] {
	return objects[rbacv1.ClusterRole, rbacv1.ClusterRoleList](a, a.rbac, "clusterroles", "")
}

func (a *API) RoleBindings(namespace string) Objects[*rbacv1.RoleBinding, *rbacv1.RoleBindingList] {
	return objects[rbacv1.RoleBinding, rbacv1.RoleBindingList](a, a.rbac, "rolebindings", namespace)
}

func (a *API) Roles(namespace string) Objects[*rbacv1.Role, *rbacv1.RoleList] {
	return objects[rbacv1.Role, rbacv1.RoleList](a, a.rbac, "roles", namespace)
}

func (a *API) SelfSubjectAccessReviews() Creator[*authv1.SelfSubjectAccessReview] {
	return creator[authv1.SelfSubjectAccessReview](a, a.authorization, "selfsubjectaccessreviews", "")
}

func (a *API) SelfSubjectRulesReviews() Creator[*authv1.SelfSubjectRulesReview] {
	return creator[authv1.SelfSubjectRulesReview](a, a.authorization, "selfsubjectrulesreviews", "")
}
