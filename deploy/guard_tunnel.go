package deploy

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strings"

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

// guardPod returns the Pod of the guard that speaks; of the one that has measured for longest, if that is not known.
func guardPod(ctx context.Context, cluster Cluster, namespaces []string) (*corev1.Pod, error) {
	selector := metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: guardLabels()})
	for _, namespace := range namespaces {
		pods, err := cluster.Client.Pods(namespace).List(ctx, metav1.ListOptions{LabelSelector: selector})
		if err != nil {
			return nil, fmt.Errorf("find the guard: %w", err)
		}
		running := slices.DeleteFunc(pods.Items, func(p corev1.Pod) bool {
			return p.Status.Phase != corev1.PodRunning || p.DeletionTimestamp != nil
		})
		if len(running) == 0 {
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
	return nil, hint.Errorf("name another namespace with -n, or install one: see `lapse gen guard --help`",
		"no guard runs in namespace %s", strings.Join(namespaces, " or "))
}
