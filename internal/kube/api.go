package kube

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"

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
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// An API is the [Client] of a real cluster.
type API struct{ core, apps, discovery, batch, coordination, lifecycle, policy, rbac, authorization group }

// A group is an API group.
type group struct {
	*rest.RESTClient
	parameters runtime.ParameterCodec
}

// New returns a client of the cluster that config names. It sends no request: an error is about the configuration.
func New(config *rest.Config) (*API, error) {
	shared := rest.CopyConfig(config)
	shared.UserAgent = cmp.Or(shared.UserAgent, rest.DefaultKubernetesUserAgent())
	if shared.RateLimiter == nil && shared.QPS > 0 {
		burst := cmp.Or(shared.Burst, rest.DefaultBurst)
		shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(shared.QPS, burst)
	}
	connections, err := rest.HTTPClientFor(shared)
	if err != nil {
		return nil, fmt.Errorf("reach the API server: %w", err)
	}
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	api := new(API)
	for _, g := range api.groups() {
		if err := g.register(scheme); err != nil {
			return nil, fmt.Errorf("register the kinds of %s: %w", g.version, err)
		}
	}
	codecs := serializer.NewCodecFactory(scheme)
	shared.NegotiatedSerializer = rest.CodecFactoryForGeneratedClient(scheme, codecs).WithoutConversion()
	parameters := runtime.NewParameterCodec(scheme)
	for _, g := range api.groups() {
		of := rest.CopyConfig(shared)
		of.APIPath, of.GroupVersion = g.path, &g.version
		client, err := rest.RESTClientForConfigAndClient(of, connections)
		if err != nil {
			return nil, fmt.Errorf("client of %s: %w", g.version, err)
		}
		*g.group = group{client, parameters}
	}
	return api, nil
}

// A place is where the API has a group, and how to register its kinds.
type place struct {
	group    *group
	path     string
	version  schema.GroupVersion
	register func(*runtime.Scheme) error
}

func (a *API) groups() []place {
	return []place{
		{&a.core, "/api", corev1.SchemeGroupVersion, corev1.AddToScheme},
		{&a.apps, "/apis", appsv1.SchemeGroupVersion, appsv1.AddToScheme},
		{&a.discovery, "/apis", discoveryv1.SchemeGroupVersion, discoveryv1.AddToScheme},
		{&a.batch, "/apis", batchv1.SchemeGroupVersion, batchv1.AddToScheme},
		{&a.coordination, "/apis", coordinationv1.SchemeGroupVersion, coordinationv1.AddToScheme},
		{&a.lifecycle, "/apis", lifecyclev1alpha1.SchemeGroupVersion, lifecyclev1alpha1.AddToScheme},
		{&a.policy, "/apis", policyv1.SchemeGroupVersion, policyv1.AddToScheme},
		{&a.rbac, "/apis", rbacv1.SchemeGroupVersion, rbacv1.AddToScheme},
		{&a.authorization, "/apis", authv1.SchemeGroupVersion, authv1.AddToScheme},
	}
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

func (a *API) Resources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	list := new(metav1.APIResourceList)
	return list, a.core.Get().AbsPath("/apis", groupVersion).Do(ctx).Into(list)
}

// PortForward returns the URL at which the API server forwards a Pod's ports.
func (a *API) PortForward(namespace, pod string) *url.URL {
	return a.core.Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
}

func (a *API) PodLog(
	ctx context.Context, namespace, pod string, options corev1.PodLogOptions,
) (io.ReadCloser, error) {
	log := a.core.Get().Resource("pods").Namespace(namespace).Name(pod).SubResource("log")
	return log.VersionedParams(&options, a.core.parameters).Stream(ctx)
}

func (a *API) ConfigMaps(ns string) ConfigMaps { return of[ConfigMaps](a.core, "configmaps", ns) }
func (a *API) Events(ns string) Events         { return of[Events](a.core, "events", ns) }
func (a *API) Namespaces() Namespaces          { return of[Namespaces](a.core, "namespaces", "") }
func (a *API) Nodes() Nodes                    { return of[Nodes](a.core, "nodes", "") }
func (a *API) Pods(ns string) Pods             { return of[Pods](a.core, "pods", ns) }
func (a *API) Secrets(ns string) Secrets       { return of[secrets](a.core, "secrets", ns) }
func (a *API) ServiceAccounts(ns string) ServiceAccounts {
	return of[ServiceAccounts](a.core, "serviceaccounts", ns)
}
func (a *API) Services(ns string) Services { return of[Services](a.core, "services", ns) }

func (a *API) EndpointSlices(ns string) EndpointSlices {
	return of[EndpointSlices](a.discovery, "endpointslices", ns)
}

func (a *API) DaemonSets(ns string) DaemonSets   { return of[DaemonSets](a.apps, "daemonsets", ns) }
func (a *API) Deployments(ns string) Deployments { return of[Deployments](a.apps, "deployments", ns) }
func (a *API) ReplicaSets(ns string) ReplicaSets { return of[ReplicaSets](a.apps, "replicasets", ns) }
func (a *API) StatefulSets(ns string) StatefulSets {
	return of[StatefulSets](a.apps, "statefulsets", ns)
}

func (a *API) Jobs(ns string) Jobs { return of[Jobs](a.batch, "jobs", ns) }

func (a *API) Leases(ns string) Leases { return of[Leases](a.coordination, "leases", ns) }

func (a *API) EvictionRequests(ns string) EvictionRequests {
	return of[EvictionRequests](a.lifecycle, "evictionrequests", ns)
}

func (a *API) PodDisruptionBudgets(ns string) PodDisruptionBudgets {
	return of[PodDisruptionBudgets](a.policy, "poddisruptionbudgets", ns)
}

func (a *API) ClusterRoleBindings() ClusterRoleBindings {
	return of[ClusterRoleBindings](a.rbac, "clusterrolebindings", "")
}
func (a *API) ClusterRoles() ClusterRoles { return of[ClusterRoles](a.rbac, "clusterroles", "") }
func (a *API) RoleBindings(ns string) RoleBindings {
	return of[RoleBindings](a.rbac, "rolebindings", ns)
}
func (a *API) Roles(ns string) Roles { return of[Roles](a.rbac, "roles", ns) }

type secrets = Objects[*corev1.Secret, *corev1.SecretList]

func (a *API) SelfSubjectAccessReviews() Creator[*authv1.SelfSubjectAccessReview] {
	return creator[authv1.SelfSubjectAccessReview](a.authorization, "selfsubjectaccessreviews")
}
func (a *API) SelfSubjectRulesReviews() Creator[*authv1.SelfSubjectRulesReview] {
	return creator[authv1.SelfSubjectRulesReview](a.authorization, "selfsubjectrulesreviews")
}
