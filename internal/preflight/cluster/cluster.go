// Package cluster reads what a cluster has of a Service, from its API. It only lists and gets.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/correlate/quantity"
	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/preflight/service"
	"lapse/watcher"
)

// Asking says how the cluster is asked.
type Asking struct {
	Timeout time.Duration // of each request; all but the first are made at the same time
	Advise  bool          // say what to try about what was not read, to whoever runs `lapse preflight`
}

const tryLonger = "try a longer --request-timeout"

// Read reads a Service and what is behind it. What may not be read, or does not come within the timeout, is in
// [service.State.Missing]; the error is of the Service itself.
func Read(ctx context.Context, client kube.Client, namespace, name string, asking Asking) (*service.State, error) {
	const noAnswer = "read Service %s/%s: the API server did not answer within %s"
	get, cancel := context.WithTimeout(ctx, asking.Timeout)
	defer cancel()
	svc, err := client.Services(namespace).Get(get, name, metav1.GetOptions{})
	if late(get, err) {
		return nil, hint.Errorf(tryLonger, noAnswer, namespace, name, quantity.Span(asking.Timeout))
	}
	if err != nil {
		return nil, watcher.NoService(get, client, namespace, name, err)
	}
	svc = service.Routing(svc)
	s := &service.State{Service: svc, RouteLag: service.AssumedLag, Missing: map[service.Fact]string{}}
	if len(svc.Spec.Selector) == 0 {
		for _, f := range []service.Fact{service.PodsFact, service.WorkloadsFact, service.EndpointsFact} {
			s.Missing[f] = "the Service has no selector: which Pods are behind it is not known"
		}
		return s, nil
	}
	r := reading{Asking: asking, namespace: namespace, missing: map[service.Fact][]string{}}
	r.readPods(ctx, client, s)
	r.readWorkloads(ctx, client, s)
	r.readNodes(ctx, client, s)
	r.all.Wait()
	for fact, why := range r.missing {
		slices.Sort(why)
		s.Missing[fact] = strings.Join(why, "; ")
	}
	return s, ctx.Err()
}

// readPods asks for the Pods, the endpoints and the budgets.
func (r *reading) readPods(ctx context.Context, client kube.Client, s *service.State) {
	namespace := r.namespace
	selected := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(s.Service.Spec.Selector).String()}
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + s.Service.Name}

	wanted := want{service.PodsFact, "list pods", namespace}
	list(ctx, r, wanted, client.Pods(namespace), selected, func(l *corev1.PodList) {
		s.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return service.Ended(&p) })
	})
	wanted = want{service.EndpointsFact, "list endpointslices.discovery.k8s.io", namespace}
	list(ctx, r, wanted, client.EndpointSlices(namespace), ofService, func(l *discoveryv1.EndpointSliceList) {
		s.Endpoints = endpointsOf(l.Items)
	})
	wanted = want{service.BudgetsFact, "list poddisruptionbudgets.policy", namespace}
	list(ctx, r, wanted, client.PodDisruptionBudgets(namespace), all, func(l *policyv1.PodDisruptionBudgetList) {
		s.Budgets = l.Items
	})
}

// readWorkloads asks for the Deployments and the StatefulSets.
func (r *reading) readWorkloads(ctx context.Context, client kube.Client, s *service.State) {
	namespace := r.namespace
	keep := func(kind string, o metav1.Object) {
		if w := service.WorkloadOf(kind, o); w.Selected(s.Service).Any() {
			s.Workloads = append(s.Workloads, *w)
		} else {
			s.Others = append(s.Others, *w)
		}
	}
	wanted := want{service.WorkloadsFact, "list deployments.apps", namespace}
	list(ctx, r, wanted, client.Deployments(namespace), all, func(l *appsv1.DeploymentList) {
		for i := range l.Items {
			keep("Deployment", &l.Items[i])
		}
	})
	wanted = want{service.WorkloadsFact, "list statefulsets.apps", namespace}
	list(ctx, r, wanted, client.StatefulSets(namespace), all, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			keep("StatefulSet", &l.Items[i])
		}
	})
}

// readNodes asks for the nodes, and for the configuration of their proxies.
func (r *reading) readNodes(ctx context.Context, client kube.Client, s *service.State) {
	list(ctx, r, want{service.NodesFact, "list nodes", ""}, client.Nodes(), all, func(l *corev1.NodeList) {
		s.Nodes = l.Items
	})
	config := func(ctx context.Context) (*corev1.ConfigMap, error) { return watcher.ProxyConfig(ctx, client) }
	wanted := want{service.ProxyFact, "get configmaps/kube-proxy", metav1.NamespaceSystem}
	ask(ctx, r, wanted, config, func(c *corev1.ConfigMap) {
		proxy, err := watcher.ReadProxy(c)
		s.Proxy = service.Proxy{ConfigMap: c.Name, Mode: proxy.ProxyMode, MinSyncPeriod: proxy.MinSyncPeriod}
		if err != nil {
			s.Missing[service.ProxyFact] = err.Error()
		}
	})
}

// all selects every object.
var all metav1.ListOptions

// A reading makes several requests at the same time.
type reading struct {
	Asking
	namespace string // of the Service
	all       sync.WaitGroup

	mu      sync.Mutex // guards what follows, and is held while keep is called
	missing map[service.Fact][]string
}

// A want is a fact, and the right that reading it takes, such as "list pods".
type want struct {
	fact             service.Fact
	right, namespace string
}

// list lists one kind, or notes why it could not. It returns at once.
func list[T, L any](
	ctx context.Context, r *reading, w want, objects kube.Objects[T, L], options metav1.ListOptions, keep func(L),
) {
	ask(ctx, r, w, func(ctx context.Context) (L, error) { return objects.List(ctx, options) }, keep)
}

// ask makes a request, or notes why it could not. It returns at once.
func ask[T any](ctx context.Context, r *reading, w want, request func(context.Context) (T, error), keep func(T)) {
	r.all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		got, err := request(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.missing[w.fact] = append(r.missing[w.fact], r.unread(ctx, err, w.right, w.namespace))
			return
		}
		keep(got)
	})
}

// unread says why a request failed.
func (a Asking) unread(ctx context.Context, err error, right, namespace string) string {
	var why, advice string
	switch {
	case late(ctx, err):
		why = fmt.Sprintf("the API server did not answer within %s (%s)", quantity.Span(a.Timeout), right)
		advice = tryLonger
	case apierrors.IsForbidden(err):
		why = "no right to " + right
		advice = "ask with `kubectl auth can-i " + right + "`"
		if namespace != "" {
			advice = "ask with `kubectl auth can-i " + right + " -n " + namespace + "`"
		}
	default:
		return fmt.Sprintf("%s: %v", right, err)
	}
	if !a.Advise {
		return why
	}
	return why + ": " + advice
}

// late reports whether an error is a timeout.
func late(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded))
}

// endpointsOf returns each endpoint once: a Service has slices for each address family, and for each set of port
// numbers.
func endpointsOf(list []discoveryv1.EndpointSlice) (endpoints []service.Endpoint) {
	known := map[string]bool{}
	for _, slice := range list {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			is := service.Endpoint{Pod: e.Addresses[0], Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
			if e.TargetRef != nil && e.TargetRef.Name != "" {
				is.Pod = e.TargetRef.Name
			}
			if e.NodeName != nil {
				is.Node = *e.NodeName
			}
			if e.Zone != nil {
				is.Zone = *e.Zone
			}
			if !known[is.Pod] {
				known[is.Pod] = true
				endpoints = append(endpoints, is)
			}
		}
	}
	return endpoints
}
