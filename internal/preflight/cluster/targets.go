package cluster

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/preflight/service"
)

// States returns what the cluster has of each target, each Service once. Without a target it returns all Services of
// the namespace. Each kind is listed once, however many Services there are.
func States(
	ctx context.Context, client kube.Client, namespace string, targets []service.Target, asking Asking,
) (states []*service.State, err error) {
	isWorkload := func(t service.Target) bool { return t.Kind != "service" }
	if len(targets) != 1 || isWorkload(targets[0]) { // of one Service only its own Pods are listed
		client = sharing(client)
	}
	known := map[string]bool{}
	add := func(name string) error {
		if known[name] {
			return nil
		}
		known[name] = true
		s, err := Read(ctx, client, namespace, name, asking)
		states = append(states, s)
		return err
	}
	var all []corev1.Service
	if len(targets) == 0 || slices.ContainsFunc(targets, isWorkload) {
		if all, err = listServices(ctx, client, namespace, asking); err != nil {
			return nil, err
		}
	}
	if len(targets) == 0 {
		for _, s := range all {
			targets = append(targets, service.Target{Kind: "service", Name: s.Name})
		}
		if targets == nil {
			return nil, hint.Errorf("name another with -n", "namespace %q has no Service", namespace)
		}
	}
	for _, t := range targets {
		if !isWorkload(t) {
			if err := add(t.Name); err != nil {
				return nil, err
			}
			continue
		}
		w, err := readWorkload(ctx, client, namespace, t, asking)
		if err != nil {
			return nil, err
		}
		routed := false
		for i := range all {
			if !w.Selected(&all[i]).Any() {
				continue
			}
			routed = true
			if err := add(all[i].Name); err != nil {
				return nil, err
			}
		}
		if !routed {
			s, err := Read(ctx, standInClient{client, service.StandIn(w)}, namespace, w.Meta.Name, asking)
			if err != nil {
				return nil, err
			}
			s.SetUnrouted(w)
			states = append(states, s)
		}
	}
	return states, nil
}

func listServices(ctx context.Context, client kube.Client, namespace string, asking Asking) ([]corev1.Service, error) {
	ctx, cancel := context.WithTimeout(ctx, asking.Timeout)
	defer cancel()
	list, err := client.Services(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		why := asking.unread(ctx, err, "list services", namespace)
		return nil, fmt.Errorf("list the Services of namespace %q: %s", namespace, why)
	}
	return list.Items, nil
}

// readWorkload reads a workload of the kinds that are read from a cluster.
func readWorkload(
	ctx context.Context, client kube.Client, namespace string, t service.Target, asking Asking,
) (*service.Workload, error) {
	const notTaken = "of a cluster preflight takes " +
		"Services, Deployments, StatefulSets, DaemonSets and ReplicaSets: not %s"
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
		return nil, hint.Errorf("name its Service: svc/NAME", notTaken, t)
	}
	switch {
	case apierrors.IsNotFound(err):
		list := "`kubectl get " + t.Kind + "s -n " + namespace + "` lists them"
		return nil, hint.Errorf(list, "there is no %s in namespace %q", t, namespace)
	case err != nil:
		return nil, fmt.Errorf("read %s: %s", t, asking.unread(ctx, err, "get "+t.Kind+"s", namespace))
	}
	return service.WorkloadOf(kind, o), nil
}

// A standInClient has one more Service, whatever its name.
type standInClient struct {
	kube.Client
	service *corev1.Service
}

type standInServices struct {
	kube.Services
	service *corev1.Service
}

func (c standInClient) Services(namespace string) kube.Services {
	return standInServices{c.Client.Services(namespace), c.service}
}

func (s standInServices) Get(context.Context, string, metav1.GetOptions) (*corev1.Service, error) {
	return s.service, nil
}
