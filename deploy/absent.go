package deploy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/internal/hint"
	"lapse/internal/kube"
)

// Waiting returns what a prober's Pod that does not measure yet waits for, or what keeps it from running and how to
// change that.
func Waiting(pod *corev1.Pod) string {
	err := judgePod(pod)
	start, ok := errors.AsType[*StartError](err)
	if !ok {
		return "waits for " + situation(pod)
	}
	advice := hint.Of(err)
	switch {
	case start.Reason == corev1.PodReasonUnschedulable:
		advice = "--cpu lets it ask for less, and --from can leave this node out"
	case pod.Status.Phase == corev1.PodFailed && agentEnding(pod) == nil:
		advice = "" // no container has run, so the message is the kubelet's
	}
	return withAdvice(fmt.Sprintf("Pod %s does not start: %s: %s", pod.Name, start.Reason, start.Message), advice)
}

// Uncreated returns why nodes have no Pod of the run's probers, as far as the API says, or "". unattended: the run may
// read its DaemonSet.
func Uncreated(ctx context.Context, client kube.Client, namespace, run string, unattended bool) string {
	name, uid := probersName(run), types.UID("")
	if unattended {
		set, err := client.DaemonSets(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			return fmt.Sprintf("there is no DaemonSet %s: was it refused when the run was applied?", name)
		}
		if err != nil {
			return ""
		}
		uid = set.UID
	}
	about := "involvedObject.kind=DaemonSet,involvedObject.name=" + name
	events, err := client.Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: about})
	if err != nil {
		return ""
	}
	for _, e := range slices.Backward(events.Items) {
		of := e.InvolvedObject
		ours := of.Kind == "DaemonSet" && of.Name == name && (uid == "" || of.UID == uid)
		if ours && e.Reason == creationFailed {
			return withAdvice("its Pod cannot be created: "+e.Message, hint.Of(judgeEvent(&e)))
		}
	}
	return ""
}

func withAdvice(text, advice string) string { return strings.TrimSuffix(text+"; "+advice, "; ") }
