package deploy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"lapse/deploy/agent"
	"lapse/internal/hint"
)

// Ports of a guard's Pod.
const (
	GatePort   = 7117 // of all addresses: the gate
	StatusPort = 7118 // of 127.0.0.1: its status and its page
)

// DialGuard returns a function that connects to a port of the guard in the first of the namespaces that has one, as
// `kubectl port-forward` does: of its Pods, to the one that speaks. It looks for it each time, for that may change.
func DialGuard(
	cluster Cluster, port int, namespaces ...string,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		pod, err := guardPod(ctx, cluster, namespaces)
		if err != nil {
			return nil, err
		}
		tunnel, err := agent.NewTunnel(cluster.REST, pod, port, func(context.Context) error { return nil })
		if err != nil {
			return nil, err
		}
		return tunnel.DialContext(ctx, network, address)
	}
}

// guardPod returns the Pod of the guard that speaks; of the one that has measured for longest, if that is not known. If
// none runs, the error says why.
func guardPod(ctx context.Context, cluster Cluster, namespaces []string) (*corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: guardLabels()})
	var trouble, unseen error
	for _, namespace := range namespaces {
		pods, err := cluster.Client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil { // it may be in the next one
			unseen = cmp.Or(unseen, fmt.Errorf("look for the guard in namespace %s: %w", namespace, err))
			continue
		}
		staying := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
			ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
			return ended || p.DeletionTimestamp != nil
		})
		running := slices.DeleteFunc(slices.Clone(staying), func(p corev1.Pod) bool { return !isRunning(&p) })
		if len(running) == 0 {
			trouble = cmp.Or(trouble, guardTrouble(ctx, cluster, namespace, staying))
			continue
		}
		lease, err := cluster.Client.Leases(namespace).Get(ctx, GuardName, metav1.GetOptions{})
		if err == nil && lease.Spec.HolderIdentity != nil { // without the right, or a Lease, it is not known
			leads := func(p corev1.Pod) bool { return p.Name == *lease.Spec.HolderIdentity }
			if i := slices.IndexFunc(running, leads); i >= 0 {
				return &running[i], nil
			}
		}
		oldest := slices.MinFunc(running, func(a, b corev1.Pod) int {
			return a.CreationTimestamp.Compare(b.CreationTimestamp.Time)
		})
		return &oldest, nil
	}
	if trouble = cmp.Or(trouble, unseen); trouble != nil {
		return nil, trouble
	}
	return nil, hint.Errorf("name its namespace with -n, for `lapse gate` and `lapse guard arm` with "+
		"--guard-namespace, or install one: see `lapse gen guard --help`",
		"no guard runs in namespace %s", strings.Join(namespaces, " or "))
}

// guardTrouble returns why none of a guard's Pods runs; nil if there is no guard.
func guardTrouble(ctx context.Context, cluster Cluster, namespace string, pods []corev1.Pod) error {
	for i := range pods {
		if why, ok := errors.AsType[*StartError](judgePod(&pods[i])); ok {
			name := pods[i].Name
			advice := "see `kubectl -n " + namespace + " describe pod " + name + "`; its flags are in the ConfigMap " +
				GuardName
			return hint.Errorf(advice, "the guard's Pod %s does not run: %s: %s", name, why.Reason, why.Message)
		}
	}
	if len(pods) > 0 {
		const text = "the guard in namespace %s does not run yet: it waits for %s"
		return fmt.Errorf(text, namespace, situation(&pods[0]))
	}
	deployment, err := cluster.Client.Deployments(namespace).Get(ctx, GuardName, metav1.GetOptions{})
	if err != nil { // there is none, or it may not be read
		return nil
	}
	for _, c := range deployment.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return fmt.Errorf("the guard in namespace %s has no Pods: %s", namespace, c.Message)
		}
	}
	return fmt.Errorf("the guard in namespace %s has no Pods yet", namespace)
}
