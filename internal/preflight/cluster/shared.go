package cluster

import (
	"context"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/internal/kube"
)

// What a sharedClient has of each kind.
type (
	services       = kube.Objects[*corev1.Service, *corev1.ServiceList]
	pods           = kube.Objects[*corev1.Pod, *corev1.PodList]
	nodes          = kube.Objects[*corev1.Node, *corev1.NodeList]
	endpointSlices = kube.Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]
	deployments    = kube.Objects[*appsv1.Deployment, *appsv1.DeploymentList]
	statefulSets   = kube.Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList]
	budgets        = kube.Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList]
)

// A sharedClient asks the API server once for each list. It applies selectors itself.
type sharedClient struct {
	kube.Client
	mu    sync.Mutex
	lists map[string]func() (any, error)
}

func sharing(client kube.Client) *sharedClient {
	return &sharedClient{Client: client, lists: map[string]func() (any, error){}}
}

// A matcher reports whether an object is selected.
type matcher func(metav1.Object) bool

// sharedObjects are the objects of one kind and namespace.
type sharedObjects[T, L any] struct {
	kube.Objects[T, L]
	of   *sharedClient
	key  string
	pick func(list L, is matcher) L // of the list those that match
}

func share[T, L any](of *sharedClient, o kube.Objects[T, L], key string, pick func(L, matcher) L) sharedObjects[T, L] {
	return sharedObjects[T, L]{o, of, key, pick}
}

func (o sharedObjects[T, L]) List(ctx context.Context, options metav1.ListOptions) (list L, err error) {
	if options.FieldSelector != "" || options.Limit > 0 {
		return o.Objects.List(ctx, options)
	}
	o.of.mu.Lock()
	ask := o.of.lists[o.key]
	if ask == nil {
		ask = sync.OnceValues(func() (any, error) { return o.Objects.List(ctx, metav1.ListOptions{}) })
		o.of.lists[o.key] = ask
	}
	o.of.mu.Unlock()
	whole, err := ask()
	if err != nil {
		return list, err
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return list, err
	}
	selected := func(object metav1.Object) bool { return selector.Matches(labels.Set(object.GetLabels())) }
	return o.pick(whole.(L), selected), nil
}

// items returns the items of a list that match.
func items[T any, P interface {
	*T
	metav1.Object
}](all []T, is matcher) (some []T) {
	for i := range all {
		if is(P(&all[i])) {
			some = append(some, all[i])
		}
	}
	return some
}

func (c *sharedClient) Services(namespace string) services {
	pick := func(l *corev1.ServiceList, is matcher) *corev1.ServiceList {
		return &corev1.ServiceList{Items: items(l.Items, is)}
	}
	return sharedServices{share(c, c.Client.Services(namespace), "services "+namespace, pick)}
}

// sharedServices gets a Service from the list of all, if that can be read.
type sharedServices struct {
	sharedObjects[*corev1.Service, *corev1.ServiceList]
}

func (s sharedServices) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Service, error) {
	if list, err := s.List(ctx, metav1.ListOptions{}); err == nil {
		i := slices.IndexFunc(list.Items, func(o corev1.Service) bool { return o.Name == name })
		if i >= 0 {
			return &list.Items[i], nil
		}
	}
	return s.Objects.Get(ctx, name, options)
}

func (c *sharedClient) Pods(namespace string) pods {
	pick := func(l *corev1.PodList, is matcher) *corev1.PodList {
		return &corev1.PodList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.Pods(namespace), "pods "+namespace, pick)
}

func (c *sharedClient) EndpointSlices(namespace string) endpointSlices {
	pick := func(l *discoveryv1.EndpointSliceList, is matcher) *discoveryv1.EndpointSliceList {
		return &discoveryv1.EndpointSliceList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.EndpointSlices(namespace), "endpointslices "+namespace, pick)
}

func (c *sharedClient) Deployments(namespace string) deployments {
	pick := func(l *appsv1.DeploymentList, is matcher) *appsv1.DeploymentList {
		return &appsv1.DeploymentList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.Deployments(namespace), "deployments "+namespace, pick)
}

func (c *sharedClient) StatefulSets(namespace string) statefulSets {
	pick := func(l *appsv1.StatefulSetList, is matcher) *appsv1.StatefulSetList {
		return &appsv1.StatefulSetList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.StatefulSets(namespace), "statefulsets "+namespace, pick)
}

func (c *sharedClient) PodDisruptionBudgets(namespace string) budgets {
	pick := func(l *policyv1.PodDisruptionBudgetList, is matcher) *policyv1.PodDisruptionBudgetList {
		return &policyv1.PodDisruptionBudgetList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.PodDisruptionBudgets(namespace), "budgets "+namespace, pick)
}

func (c *sharedClient) Nodes() nodes {
	pick := func(l *corev1.NodeList, is matcher) *corev1.NodeList {
		return &corev1.NodeList{Items: items(l.Items, is)}
	}
	return share(c, c.Client.Nodes(), "nodes", pick)
}
