package preflight

import (
	"context"
	"fmt"
	"slices"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// ClusterStates returns what the cluster has of each target, each Service once. Without a target they are all Services
// of the namespace. Each kind is listed once, however many Services there are.
func ClusterStates(ctx context.Context, client kube.Client, namespace string, targets []Target, asking Asking) (states []*State, err error) {
	one := len(targets) == 1 && targets[0].Kind == "service"
	if !one { // of one Service only its own Pods are listed
		client = sharing(client)
	}
	known := map[string]bool{}
	add := func(service string) error {
		if known[service] {
			return nil
		}
		known[service] = true
		s, err := FromCluster(ctx, client, namespace, service, asking)
		states = append(states, s)
		return err
	}
	var services []corev1.Service
	if len(targets) == 0 || slices.ContainsFunc(targets, func(t Target) bool { return t.Kind != "service" }) {
		if services, err = listServices(ctx, client, namespace, asking); err != nil {
			return nil, err
		}
	}
	if len(targets) == 0 {
		for _, s := range services {
			targets = append(targets, Target{"service", s.Name})
		}
		if targets == nil {
			return nil, hint.Errorf("name another with -n", "namespace %q has no Service", namespace)
		}
	}
	for _, t := range targets {
		if t.Kind == "service" {
			if err := add(t.Name); err != nil {
				return nil, err
			}
			continue
		}
		w, err := readWorkload(ctx, client, namespace, t, asking)
		if err != nil {
			return nil, err
		}
		selecting := 0
		for i := range services {
			if w.selected(&services[i]).any() {
				selecting++
				if err := add(services[i].Name); err != nil {
					return nil, err
				}
			}
		}
		if selecting == 0 {
			s, err := FromCluster(ctx, standInClient{client, standIn(w)}, namespace, w.Meta.Name, asking)
			if err != nil {
				return nil, err
			}
			states = append(states, s.unrouted(w))
		}
	}
	return states, nil
}

func listServices(ctx context.Context, client kube.Client, namespace string, asking Asking) ([]corev1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, asking.Timeout)
	defer cancel()
	list, err := client.Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("list the Services of namespace %q: %s", namespace, asking.unread(ctx, err, "list services", namespace))
	}
	return list.Items, nil
}

// readWorkload reads a workload of the kinds that are read from a cluster.
func readWorkload(ctx context.Context, client kube.Client, namespace string, t Target, asking Asking) (*Workload, error) {
	ctx, cancel := context.WithTimeout(ctx, asking.Timeout)
	defer cancel()
	var o metav1.Object
	var err error
	kind := ""
	switch t.Kind {
	case "deployment":
		kind = "Deployment"
		o, err = client.Deployments(namespace).Get(ctx, t.Name, metav1.GetOptions{})
	case "statefulset":
		kind = "StatefulSet"
		o, err = client.StatefulSets(namespace).Get(ctx, t.Name, metav1.GetOptions{})
	case "daemonset":
		kind = "DaemonSet"
		o, err = client.DaemonSets(namespace).Get(ctx, t.Name, metav1.GetOptions{})
	case "replicaset":
		kind = "ReplicaSet"
		o, err = client.ReplicaSets(namespace).Get(ctx, t.Name, metav1.GetOptions{})
	default:
		return nil, hint.Errorf("name its Service: svc/NAME", "of a cluster preflight takes Services, Deployments, StatefulSets, DaemonSets and ReplicaSets: not %s", t)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, hint.Errorf("`kubectl get "+t.Kind+"s -n "+namespace+"` lists them", "there is no %s in namespace %q", t, namespace)
	case err != nil:
		return nil, fmt.Errorf("read %s: %s", t, asking.unread(ctx, err, "get "+t.Kind+"s", namespace))
	}
	return workloadOf(kind, o), nil
}

// A standInClient has one more Service.
type standInClient struct {
	kube.Client
	service *corev1.Service
}

type standInServices struct {
	kube.Objects[*corev1.Service, *corev1.ServiceList]
	service *corev1.Service
}

func (c standInClient) Services(namespace string) kube.Objects[*corev1.Service, *corev1.ServiceList] {
	return standInServices{c.Client.Services(namespace), c.service}
}

func (s standInServices) Get(context.Context, string, metav1.GetOptions) (*corev1.Service, error) {
	return s.service, nil
}

// A sharedClient asks the API server once for each list. Selectors are applied here.
type sharedClient struct {
	kube.Client
	mu    sync.Mutex
	lists map[string]func() (any, error)
}

func sharing(client kube.Client) *sharedClient {
	return &sharedClient{Client: client, lists: map[string]func() (any, error){}}
}

// sharedObjects are those of one kind and namespace.
type sharedObjects[T, L any] struct {
	kube.Objects[T, L]
	of   *sharedClient
	key  string
	pick func(list L, matches func(metav1.Object) bool) L // of the list those that match
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
	list = whole.(L)
	selector, err := labels.Parse(options.LabelSelector)
	if err != nil {
		return list, err
	}
	return o.pick(list, func(object metav1.Object) bool { return selector.Matches(labels.Set(object.GetLabels())) }), nil
}

// items keeps those items of a list that match.
func items[T any, P interface {
	*T
	metav1.Object
}](all []T, matches func(metav1.Object) bool) (some []T) {
	for i := range all {
		if matches(P(&all[i])) {
			some = append(some, all[i])
		}
	}
	return some
}

func (c *sharedClient) Services(namespace string) kube.Objects[*corev1.Service, *corev1.ServiceList] {
	return sharedServices{sharedObjects[*corev1.Service, *corev1.ServiceList]{c.Client.Services(namespace), c, "services " + namespace, func(l *corev1.ServiceList, matches func(metav1.Object) bool) *corev1.ServiceList {
		return &corev1.ServiceList{Items: items(l.Items, matches)}
	}}}
}

// sharedServices are also got from their list, if that may be read.
type sharedServices struct {
	sharedObjects[*corev1.Service, *corev1.ServiceList]
}

func (s sharedServices) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Service, error) {
	if list, err := s.List(ctx, metav1.ListOptions{}); err == nil {
		if i := slices.IndexFunc(list.Items, func(o corev1.Service) bool { return o.Name == name }); i >= 0 {
			return &list.Items[i], nil
		}
	}
	return s.Objects.Get(ctx, name, options)
}

func (c *sharedClient) Pods(namespace string) kube.Objects[*corev1.Pod, *corev1.PodList] {
	return sharedObjects[*corev1.Pod, *corev1.PodList]{c.Client.Pods(namespace), c, "pods " + namespace, func(l *corev1.PodList, matches func(metav1.Object) bool) *corev1.PodList {
		return &corev1.PodList{Items: items(l.Items, matches)}
	}}
}

func (c *sharedClient) EndpointSlices(namespace string) kube.Objects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList] {
	return sharedObjects[*discoveryv1.EndpointSlice, *discoveryv1.EndpointSliceList]{c.Client.EndpointSlices(namespace), c, "endpointslices " + namespace, func(l *discoveryv1.EndpointSliceList, matches func(metav1.Object) bool) *discoveryv1.EndpointSliceList {
		return &discoveryv1.EndpointSliceList{Items: items(l.Items, matches)}
	}}
}

func (c *sharedClient) Deployments(namespace string) kube.Objects[*appsv1.Deployment, *appsv1.DeploymentList] {
	return sharedObjects[*appsv1.Deployment, *appsv1.DeploymentList]{c.Client.Deployments(namespace), c, "deployments " + namespace, func(l *appsv1.DeploymentList, matches func(metav1.Object) bool) *appsv1.DeploymentList {
		return &appsv1.DeploymentList{Items: items(l.Items, matches)}
	}}
}

func (c *sharedClient) StatefulSets(namespace string) kube.Objects[*appsv1.StatefulSet, *appsv1.StatefulSetList] {
	return sharedObjects[*appsv1.StatefulSet, *appsv1.StatefulSetList]{c.Client.StatefulSets(namespace), c, "statefulsets " + namespace, func(l *appsv1.StatefulSetList, matches func(metav1.Object) bool) *appsv1.StatefulSetList {
		return &appsv1.StatefulSetList{Items: items(l.Items, matches)}
	}}
}

func (c *sharedClient) PodDisruptionBudgets(namespace string) kube.Objects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList] {
	return sharedObjects[*policyv1.PodDisruptionBudget, *policyv1.PodDisruptionBudgetList]{c.Client.PodDisruptionBudgets(namespace), c, "budgets " + namespace, func(l *policyv1.PodDisruptionBudgetList, matches func(metav1.Object) bool) *policyv1.PodDisruptionBudgetList {
		return &policyv1.PodDisruptionBudgetList{Items: items(l.Items, matches)}
	}}
}

func (c *sharedClient) Nodes() kube.Objects[*corev1.Node, *corev1.NodeList] {
	return sharedObjects[*corev1.Node, *corev1.NodeList]{c.Client.Nodes(), c, "nodes", func(l *corev1.NodeList, matches func(metav1.Object) bool) *corev1.NodeList {
		return &corev1.NodeList{Items: items(l.Items, matches)}
	}}
}
