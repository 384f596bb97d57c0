package cluster

import (
	"context"
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"lapse/internal/kube"
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

// A listOf is a pointer to a list of objects.
type listOf[List any] interface {
	*List
	runtime.Object
}

// sharedObjects are the objects of one kind and namespace.
type sharedObjects[T any, L listOf[List], List any] struct {
	kube.Objects[T, L]
	of  *sharedClient
	key string
}

func share[T any, L listOf[List], List any](
	of *sharedClient, o kube.Objects[T, L], key string,
) sharedObjects[T, L, List] {
	return sharedObjects[T, L, List]{o, of, key}
}

func (o sharedObjects[T, L, List]) List(ctx context.Context, options metav1.ListOptions) (L, error) {
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
		return nil, err
	}
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return nil, err
	}
	var selected []runtime.Object
	err = meta.EachListItem(whole.(L), func(item runtime.Object) error {
		if selector.Matches(labels.Set(item.(metav1.Object).GetLabels())) {
			selected = append(selected, item)
		}
		return nil
	})
	list := L(new(List))
	return list, errors.Join(err, meta.SetList(list, selected))
}

func (c *sharedClient) Services(namespace string) kube.Services {
	return sharedServices{share(c, c.Client.Services(namespace), "services "+namespace)}
}

// sharedServices gets a Service from the list of all, if that can be read.
type sharedServices struct {
	sharedObjects[*corev1.Service, *corev1.ServiceList, corev1.ServiceList]
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

func (c *sharedClient) Pods(namespace string) kube.Pods {
	return share(c, c.Client.Pods(namespace), "pods "+namespace)
}

func (c *sharedClient) EndpointSlices(namespace string) kube.EndpointSlices {
	return share(c, c.Client.EndpointSlices(namespace), "endpointslices "+namespace)
}

func (c *sharedClient) Deployments(namespace string) kube.Deployments {
	return share(c, c.Client.Deployments(namespace), "deployments "+namespace)
}

func (c *sharedClient) StatefulSets(namespace string) kube.StatefulSets {
	return share(c, c.Client.StatefulSets(namespace), "statefulsets "+namespace)
}

func (c *sharedClient) PodDisruptionBudgets(namespace string) kube.PodDisruptionBudgets {
	return share(c, c.Client.PodDisruptionBudgets(namespace), "budgets "+namespace)
}

func (c *sharedClient) Nodes() kube.Nodes {
	return share(c, c.Client.Nodes(), "nodes")
}
