package deploy

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"lapse/deploy/agent"
	"lapse/internal/hint"
	"lapse/internal/kube"
)

// tunnelTo returns a tunnel to the agent in pod.
func tunnelTo(config *rest.Config, pod *corev1.Pod) (*agent.Tunnel, error) {
	api, err := kube.New(config)
	if err != nil {
		return nil, fmt.Errorf("tunnel to Pod %s: %w", pod.Name, err)
	}
	return agent.NewTunnel(config, pod, 0, func(ctx context.Context) error { return goneFrom(ctx, api, pod) })
}

// goneFrom returns an [agent.GoneError] if the Pod surely does not run any more.
func goneFrom(ctx context.Context, api *kube.API, was *corev1.Pod) error {
	pod, err := api.Pods(was.Namespace).Get(ctx, was.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return goneError(was, "was deleted", false)
	}
	if err != nil {
		return nil
	}
	if pod.UID != was.UID {
		return goneError(was, "was replaced", false)
	}
	if pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
		return goneError(was, ending(pod), true)
	}
	return nil
}

// goneError returns a GoneError with a hint where the result may still be.
func goneError(pod *corev1.Pod, detail string, ended bool) error {
	where := "its result is lost, except what was fetched before"
	if ended {
		retrieve := "lapse retrieve -n " + pod.Namespace + " " + pod.Labels[RunLabel]
		where = "its log may still have the result: `" + retrieve + "`"
	}
	return hint.Add(where, &agent.GoneError{Pod: pod.Name, Detail: detail, Ended: ended})
}
