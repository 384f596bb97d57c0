// Package shared is a [kube.Client] for many watchers of a process: one watch of each kind brings all of them what they
// ask for, and equal questions that are asked at once are one request.
//
//	API server ── one watch ──> stream: its last events ──> each watcher: those of its namespace, after its version
//
// A watcher notices no difference but one: it gets all objects of its namespace, whatever its selectors say, and has to
// choose among them itself. When the watch breaks, that of each watcher breaks.
package shared

import (
	"context"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	lifecyclev1alpha1 "k8s.io/api/lifecycle/v1alpha1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"

	"lapse/internal/kube"
)

// A Client shares what its watchers ask of a cluster. All else it passes on.
type Client struct {
	kube.Client
	scope   string          // the namespace that is watched; empty: all
	ctx     context.Context // of the watches
	streams sync.Map        // *stream by kind
	asked   sync.Map        // *question by what is asked
}

// New returns a client of many watchers, all of them of one namespace, or of any if it is empty: the user then needs
// the right to watch all of them. Its watches end with ctx.
func New(ctx context.Context, client kube.Client, namespace string) *Client {
	return &Client{Client: client, scope: namespace, ctx: ctx}
}

func (c *Client) Events(ns string) kube.Events {
	return share[*corev1.Event, *corev1.EventList](c, "events", ns, c.Client.Events)
}

func (c *Client) Nodes() kube.Nodes {
	of := func(string) kube.Nodes { return c.Client.Nodes() }
	return share[*corev1.Node, *corev1.NodeList](c, "nodes", c.scope, of)
}

func (c *Client) Pods(ns string) kube.Pods {
	return share[*corev1.Pod, *corev1.PodList](c, "pods", ns, c.Client.Pods)
}

func (c *Client) Services(ns string) kube.Services {
	return share[*corev1.Service, *corev1.ServiceList](c, "services", ns, c.Client.Services)
}

func (c *Client) EndpointSlices(ns string) kube.EndpointSlices {
	return share[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList](c, "slices", ns, c.Client.EndpointSlices)
}

func (c *Client) DaemonSets(ns string) kube.DaemonSets {
	return share[*appsv1.DaemonSet, *appsv1.DaemonSetList](c, "daemonsets", ns, c.Client.DaemonSets)
}

func (c *Client) Deployments(ns string) kube.Deployments {
	return share[*appsv1.Deployment, *appsv1.DeploymentList](c, "deployments", ns, c.Client.Deployments)
}

func (c *Client) ReplicaSets(ns string) kube.ReplicaSets {
	return share[*appsv1.ReplicaSet, *appsv1.ReplicaSetList](c, "replicasets", ns, c.Client.ReplicaSets)
}

func (c *Client) StatefulSets(ns string) kube.StatefulSets {
	return share[*appsv1.StatefulSet, *appsv1.StatefulSetList](c, "statefulsets", ns, c.Client.StatefulSets)
}

func (c *Client) EvictionRequests(ns string) kube.EvictionRequests {
	return share[*lifecyclev1alpha1.EvictionRequest, *lifecyclev1alpha1.EvictionRequestList](
		c, "evictionrequests", ns, c.Client.EvictionRequests)
}

func (c *Client) PodDisruptionBudgets(ns string) kube.PodDisruptionBudgets {
	return share[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList](
		c, "budgets", ns, c.Client.PodDisruptionBudgets)
}

// objects are those of a kind in a namespace.
type objects[T, L any] struct {
	kube.Objects[T, L]
	client    *Client
	kind      string
	namespace string
	stream    *stream
}

func share[T, L any](
	c *Client, kind, namespace string, of func(namespace string) kube.Objects[T, L],
) kube.Objects[T, L] {
	if c.scope != "" && namespace != c.scope { // another right is needed for it
		return of(namespace)
	}
	one, _ := c.streams.LoadOrStore(kind, &stream{open: func(from string) (watch.Interface, error) {
		return of(c.scope).Watch(c.ctx, metav1.ListOptions{
			ResourceVersion: from, AllowWatchBookmarks: true, TimeoutSeconds: new(int64(watchFor)),
		})
	}})
	return objects[T, L]{of(namespace), c, kind, namespace, one.(*stream)}
}

// watchFor is how long the API server is asked to keep a watch open, in seconds: a day.
const watchFor = 24 * 60 * 60

// Watch returns what happens to the objects of the namespace after a version. Selectors are not applied. Where the
// version is older than what is known of the shared watch, the watch is one of its own.
func (o objects[T, L]) Watch(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	after, err := strconv.ParseUint(options.ResourceVersion, 10, 64)
	if err != nil {
		return o.Objects.Watch(ctx, options)
	}
	f, err := o.stream.follow(ctx, after, o.namespace)
	if f == nil && err == nil {
		return o.Objects.Watch(ctx, options)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// atOnce is how long a request waits for others that ask for the same.
const atOnce = 50 * time.Millisecond

// List returns the answer to a request that is sent after the call. Others may get the same objects: nobody may change
// them.
func (o objects[T, L]) List(ctx context.Context, options metav1.ListOptions) (answer L, err error) {
	text, err := json.Marshal(options)
	if err != nil {
		return answer, err
	}
	return together(ctx, o.client, o.kind+" "+o.namespace+" "+string(text), func(ctx context.Context) (L, error) {
		return o.Objects.List(ctx, options)
	})
}

// Resources returns the answer to a request that is sent after the call. Nobody may change it.
func (c *Client) Resources(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	return together(ctx, c, groupVersion, func(ctx context.Context) (*metav1.APIResourceList, error) {
		return c.Client.Resources(ctx, groupVersion)
	})
}

// A question is one request whose answer several get, all of whom asked before it was sent.
type question[T any] struct {
	done   chan struct{}
	answer T
	err    error
}

// together returns the answer to a request, which is the same for all who ask for the key at once.
func together[T any](
	ctx context.Context, c *Client, key string, ask func(context.Context) (T, error),
) (answer T, err error) {
	mine := &question[T]{done: make(chan struct{})}
	found, joined := c.asked.LoadOrStore(key, mine)
	if !joined {
		go func() {
			time.Sleep(atOnce) // others may join until then
			c.asked.Delete(key)
			mine.answer, mine.err = ask(c.ctx)
			close(mine.done)
		}()
	}
	asked := found.(*question[T])
	select {
	case <-asked.done:
		return asked.answer, asked.err
	case <-ctx.Done():
		return answer, ctx.Err()
	}
}
