package deploy

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

func failedReason(pod *corev1.Pod) string {
	if ended := agentEnding(pod); ended != nil {
		return ended.Reason
	}
	return cmp.Or(pod.Status.Reason, "Failed")
}

// lastWords returns why a Pod ended, in the Pod's words.
func lastWords(pod *corev1.Pod) string {
	if ended := agentEnding(pod); ended != nil {
		return terminated(ended)
	}
	return strings.TrimSpace(cmp.Or(pod.Status.Reason, string(pod.Status.Phase)) + " " + pod.Status.Message)
}

// unknownExit is the exit code that containerd reports if it does not know the container's, as when the container's
// shim was killed (UnknownExitStatus,
// https://pkg.go.dev/github.com/containerd/containerd/v2/client#pkg-constants). No signal has the number 127.
const unknownExit = 255

// ending returns how a Pod ended, or is about to end: "was evicted from node2 (…)", "ended with exit code 0".
func ending(pod *corev1.Pod) string {
	if removed := Removal(pod); removed != "" {
		return removed
	}
	ended := agentEnding(pod)
	switch {
	case ended == nil:
		return "ended: " + lastWords(pod)
	case ended.Reason == "OOMKilled":
		const killed = "ran out of memory and was killed (OOMKilled, limit %s, exit code %d)"
		return fmt.Sprintf(killed, memoryLimit, ended.ExitCode)
	case ended.Signal != 0:
		return fmt.Sprintf("was killed by signal %d", ended.Signal)
	case ended.ExitCode == unknownExit:
		return fmt.Sprintf("ended, but its node's container runtime does not know how (exit code %d)", unknownExit)
	case ended.ExitCode > 128:
		return fmt.Sprintf("was killed by signal %d (exit code %d)", ended.ExitCode-128, ended.ExitCode)
	}
	return fmt.Sprintf("ended with exit code %d", ended.ExitCode)
}

// Removal returns who removed a Pod, as far as the API says: "was evicted from node2 (…)". It returns "" if the Pod
// was not removed.
func Removal(pod *corev1.Pod) string {
	from := ""
	if pod.Spec.NodeName != "" {
		from = " from " + pod.Spec.NodeName
	}
	// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
	for _, condition := range pod.Status.Conditions {
		if condition.Type != corev1.DisruptionTarget || condition.Status != corev1.ConditionTrue {
			continue
		}
		verb := "was removed" + from
		switch condition.Reason {
		case "EvictionByEvictionAPI":
			verb = "was evicted" + from + ", as a drain does"
		case corev1.PodReasonPreemptionByScheduler:
			verb = "was preempted" + from
		}
		return verb + because(condition.Reason, condition.Message)
	}
	switch {
	case pod.Status.Reason != "": // the kubelet's Evicted, the Job's DeadlineExceeded
		return "was ended" + strings.Replace(from, " from ", " on ", 1) + because(pod.Status.Reason, pod.Status.Message)
	case pod.DeletionTimestamp != nil:
		return "was deleted" + from
	}
	return ""
}

// because returns Kubernetes' reason in parentheses, with its message if there is one.
func because(reason, message string) string {
	return " (" + strings.TrimSuffix(reason+": "+message, ": ") + ")"
}

func terminated(state *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit code %d", state.ExitCode)
	if message := strings.TrimSpace(state.Message); message != "" {
		text += ": " + message
	}
	return text
}

// agentEnding returns the terminated state of the agent's container, or nil.
func agentEnding(pod *corev1.Pod) *corev1.ContainerStateTerminated {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName {
			return status.State.Terminated
		}
	}
	return nil
}
