package preflight

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
	"lapse/watcher"
)

// Asking says how the cluster is asked.
type Asking struct {
	Timeout time.Duration // of each request; all but the first are made at the same time
	Advise  bool          // say what to try where something was not read: to who runs `lapse preflight`
}

// FromCluster reads a Service and what is behind it. It only lists and gets. What may not be read, or does not come
// within the timeout, is in [State.Missing]; the error is of the Service itself.
func FromCluster(ctx context.Context, client kube.Client, namespace, service string, asking Asking) (*State, error) {
	get, cancel := context.WithTimeout(ctx, asking.Timeout)
	defer cancel()
	svc, err := client.Services(namespace).Get(get, service, metav1.GetOptions{})
	if late(get, err) {
		return nil, hint.Errorf("try a longer --request-timeout", "read Service %s/%s: the API server did not answer within %s", namespace, service, quantity.Span(asking.Timeout))
	}
	if err != nil {
		return nil, watcher.NoService(get, client, namespace, service, err)
	}
	svc = routing(svc)
	r := reading{missing: map[Fact][]string{}, state: &State{Service: svc, RouteLag: AssumedLag, Missing: map[Fact]string{}}, Asking: asking}
	s := r.state
	if len(svc.Spec.Selector) == 0 {
		why := "the Service has no selector: which Pods are behind it is not known"
		for _, f := range []Fact{PodsFact, WorkloadsFact, EndpointsFact} {
			s.Missing[f] = why
		}
		return s, nil
	}
	selected := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(svc.Spec.Selector).String()}
	read(ctx, &r, PodsFact, "pods", namespace, selected, client.Pods(namespace).List, func(l *corev1.PodList) {
		s.Pods = slices.DeleteFunc(l.Items, func(p corev1.Pod) bool { return ended(&p) })
	})
	ofService := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + service}
	read(ctx, &r, EndpointsFact, "endpointslices.discovery.k8s.io", namespace, ofService, client.EndpointSlices(namespace).List, func(l *discoveryv1.EndpointSliceList) { s.Endpoints = endpointsOf(l.Items) })
	keep := func(kind string, o metav1.Object) {
		if w := workloadOf(kind, o); w.selected(svc).any() {
			s.Workloads = append(s.Workloads, *w)
		} else {
			s.Others = append(s.Others, *w)
		}
	}
	read(ctx, &r, WorkloadsFact, "deployments.apps", namespace, metav1.ListOptions{}, client.Deployments(namespace).List, func(l *appsv1.DeploymentList) {
		for i := range l.Items {
			keep("Deployment", &l.Items[i])
		}
	})
	read(ctx, &r, WorkloadsFact, "statefulsets.apps", namespace, metav1.ListOptions{}, client.StatefulSets(namespace).List, func(l *appsv1.StatefulSetList) {
		for i := range l.Items {
			keep("StatefulSet", &l.Items[i])
		}
	})
	read(ctx, &r, BudgetsFact, "poddisruptionbudgets.policy", namespace, metav1.ListOptions{}, client.PodDisruptionBudgets(namespace).List, func(l *policyv1.PodDisruptionBudgetList) { s.Budgets = l.Items })
	read(ctx, &r, NodesFact, "nodes", "", metav1.ListOptions{}, client.Nodes().List, func(l *corev1.NodeList) { s.Nodes = l.Items })
	ask(ctx, &r, ProxyFact, "get configmaps", metav1.NamespaceSystem, func(ctx context.Context) (*corev1.ConfigMap, error) {
		return client.ConfigMaps(metav1.NamespaceSystem).Get(ctx, "kube-proxy", metav1.GetOptions{})
	}, func(c *corev1.ConfigMap) {
		if s.Proxy, err = proxyOf(c); err != nil {
			s.Missing[ProxyFact] = err.Error()
		}
	})
	r.all.Wait()
	for fact, why := range r.missing {
		slices.Sort(why)
		s.Missing[fact] = strings.Join(why, "; ")
	}
	return s, ctx.Err()
}

// A reading makes several requests at the same time.
type reading struct {
	Asking
	all sync.WaitGroup

	mu      sync.Mutex // guards what follows, and is held while keep is called
	state   *State
	missing map[Fact][]string
}

// read lists one kind, or notes why it could not. It returns at once.
func read[L any](ctx context.Context, r *reading, fact Fact, resource, namespace string, options metav1.ListOptions, list func(context.Context, metav1.ListOptions) (L, error), keep func(L)) {
	ask(ctx, r, fact, "list "+resource, namespace, func(ctx context.Context) (L, error) { return list(ctx, options) }, keep)
}

// ask asks for something that takes a right, such as "list pods", or notes why it could not. It returns at once.
func ask[T any](ctx context.Context, r *reading, fact Fact, right, namespace string, request func(context.Context) (T, error), keep func(T)) {
	r.all.Go(func() {
		ctx, cancel := context.WithTimeout(ctx, r.Timeout)
		defer cancel()
		got, err := request(ctx)
		r.mu.Lock()
		defer r.mu.Unlock()
		if err != nil {
			r.missing[fact] = append(r.missing[fact], r.unread(ctx, err, right, namespace))
			return
		}
		keep(got)
	})
}

// unread says why a request came to nothing.
func (a Asking) unread(ctx context.Context, err error, right, namespace string) string {
	var why, advice string
	switch {
	case late(ctx, err):
		why, advice = fmt.Sprintf("the API server did not answer within %s (%s)", quantity.Span(a.Timeout), right), "try a longer --request-timeout"
	case apierrors.IsForbidden(err):
		why, advice = "no right to "+right, "ask with `"+strings.TrimSuffix("kubectl auth can-i "+right+" -n "+namespace, " -n ")+"`"
	default:
		return fmt.Sprintf("%s: %v", right, err)
	}
	if !a.Advise {
		return why
	}
	return why + ": " + advice
}

// late reports whether an error came of a timeout.
func late(ctx context.Context, err error) bool {
	return err != nil && (ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded))
}

// endpointsOf takes each endpoint once: a Service has slices for each address family, and for each set of port numbers.
func endpointsOf(list []discoveryv1.EndpointSlice) (all []Endpoint) {
	known := map[string]bool{}
	for _, slice := range list {
		for _, e := range slice.Endpoints {
			if len(e.Addresses) == 0 {
				continue
			}
			is := Endpoint{Pod: e.Addresses[0], Ready: e.Conditions.Ready == nil || *e.Conditions.Ready}
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
				all = append(all, is)
			}
		}
	}
	return all
}

// CheckNode returns an error if the node to drain is surely none of the cluster, and notes it if the Service has no
// endpoint there.
func (s *State) CheckNode() error {
	if s.Node == "" {
		return nil
	}
	var names []string
	for _, n := range s.Nodes {
		names = append(names, n.Name)
	}
	slices.Sort(names)
	if s.knows(NodesFact) && !slices.Contains(names, s.Node) {
		return hint.Errorf("it has "+strings.Join(names, ", "), "the cluster has no node %q", s.Node)
	}
	if s.knows(EndpointsFact) && s.byNode()[s.Node] == 0 {
		s.Notes = append(s.Notes, fmt.Sprintf("no ready endpoint is on %s: a drain of it would not test the Service", s.Node))
	}
	return nil
}
