package deploy

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"lapse/internal/hint"
)

// A StartError says why a run in the cluster does not begin, in Kubernetes' words.
type StartError struct {
	Reason  string // Kubernetes' reason: "ErrImagePull", "Unschedulable", "FailedCreate"
	Message string
	Image   string // the image, if the nodes cannot pull or run it
	refused bool   // the cluster does not accept the Pod as it is
}

func (e *StartError) Error() string {
	return fmt.Sprintf("the run does not start: %s: %s", e.Reason, e.Message)
}

// Refused reports whether err says that the cluster does not accept a run as it is (the image, the namespace and its
// quotas and policies, the nodes to avoid, a right). Then nothing has run, and another configuration may help.
func Refused(err error) bool {
	if start, ok := errors.AsType[*StartError](err); ok {
		return start.refused
	}
	return admissionDenied(err) ||
		apierrors.IsForbidden(err) ||
		apierrors.IsNotFound(err) ||
		apierrors.IsAlreadyExists(err) ||
		apierrors.IsInvalid(err)
}

// judgePod returns what keeps the Pod from running, or nil.
func judgePod(pod *corev1.Pod) error {
	if err := judgeStart(pod); err != nil {
		return err
	}
	if c := unscheduled(pod); c != nil && c.Reason == corev1.PodReasonUnschedulable {
		return refusal(c.Reason, c.Message, nodesHint)
	}
	return nil
}

// judgeStart returns what keeps the Pod from running even on a node that is added for it, or nil.
func judgeStart(pod *corev1.Pod) error {
	if err := judgePlatform(pod); err != nil {
		return err
	}
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return startError("Completed", "the agent has ended already", "`lapse retrieve` has its result")
	case pod.Status.Phase == corev1.PodFailed:
		return startError(failedReason(pod), lastWords(pod), crashHint)
	case pod.DeletionTimestamp != nil:
		return startError("Deleted", fmt.Sprintf("Pod %s was deleted", pod.Name), "")
	}
	for _, status := range pod.Status.ContainerStatuses {
		if err := judgeContainer(status, pod.Namespace); err != nil {
			return err
		}
	}
	return nil
}

// unscheduled returns why the Pod is on no node yet, or nil.
func unscheduled(pod *corev1.Pod) *corev1.PodCondition {
	for i, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func judgeContainer(status corev1.ContainerStatus, namespace string) error {
	if ended := status.State.Terminated; ended != nil {
		return startError(ended.Reason, terminated(ended), crashHint)
	}
	waiting := status.State.Waiting
	if waiting == nil {
		return nil
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull",
		"InvalidImageName", "ImageInspectError", "RegistryUnavailable":
		message := fmt.Sprintf("image %q: %s", status.Image, waiting.Message)
		return imageError(waiting.Reason, message, status.Image, namespace)
	}
	if kubeletBusy.MatchString(waiting.Message) {
		return nil
	}
	switch waiting.Reason {
	case "CreateContainerConfigError": // a Secret that is not there
		return refusal(waiting.Reason, waiting.Message, "is the Secret there, with the keys that the message names?")
	case "CrashLoopBackOff":
		if ended := status.LastTerminationState.Terminated; ended != nil {
			return startError(waiting.Reason, terminated(ended), crashHint)
		}
		return startError(waiting.Reason, waiting.Message, "")
	case "CreateContainerError", "RunContainerError", "StartError":
		return startError(waiting.Reason, waiting.Message, "")
	}
	return nil
}

// kubeletBusy matches the message of a container that the kubelet soon tries to start again, because the API server or
// the node's container runtime answered late. "failed to sync secret cache: timed out waiting for the condition" is not
// a Secret that is missing.
// https://github.com/kubernetes/kubernetes/blob/v1.36.0/pkg/kubelet/util/manager/watch_based_manager.go
var kubeletBusy = regexp.MustCompile(
	`failed to sync (?:secret|configmap) cache|context deadline exceeded|is reserved for`)

// creationFailed is the reason of a controller's Event that it could not create a Pod.
const creationFailed = "FailedCreate"

// judgeEvent returns an error if a controller's Event says that its Pod cannot be created. It returns nil if the next
// attempt may succeed: a webhook or the API server did not answer.
func judgeEvent(event *corev1.Event) error {
	if event.Reason != creationFailed {
		return nil
	}
	says := func(text string) bool { return strings.Contains(event.Message, text) }
	advice := ""
	switch {
	case limited.MatchString(event.Message):
		advice = limitHint(event.Message, event.Namespace)
	case says("violates PodSecurity"):
		advice = podSecurityHint
	case says("security context constraint"):
		advice = constraintHint(event.Namespace)
	case says("must specify limits.cpu"):
		advice = cpuLimitHint
	case says("exceeded quota"), says("failed quota"):
		advice = quotaHint(event.Message, event.Namespace)
	case says("forbidden"), says("denied"):
		advice = "an admission policy of the cluster refuses the agent's Pod"
	case says("is invalid"):
		advice = "something in the cluster changes the agent's Pod: a LimitRange of the namespace, or a webhook"
	default:
		return nil
	}
	return refusal(event.Reason, event.Message, advice)
}

// limited matches the API server's message about a Pod that a LimitRange refuses: "must be less than or equal to cpu
// limit of 100m" if its default limit is below the request, "maximum cpu usage per Container is 200m" for its maximum.
// https://github.com/kubernetes/kubernetes/blob/v1.36.0/plugin/pkg/admission/limitranger/admission.go
var limited = regexp.MustCompile(`(?:must be less than or equal to|maximum|minimum) (\S+) (?:limit of|usage per)`)

func limitHint(message, namespace string) string {
	advice := "give --cpu a value that it allows, as in --cpu 100m"
	if of := limited.FindStringSubmatch(message)[1]; of != "cpu" {
		advice = "no flag changes its " + of + ", so the LimitRange has to allow it"
	}
	return "a LimitRange bounds what the run's Pod may ask for: " + advice +
		"; see `kubectl describe limitrange -n " + namespace + "`"
}

// constraintHint is for OpenShift, where the constraint restricted-v2 demands a user ID of the namespace's own range.
// Probers and the Pods of lapse routes run as the namespace's default account, so the grant is to all accounts.
// https://docs.openshift.com/container-platform/4.14/authentication/managing-security-context-constraints.html
func constraintHint(namespace string) string {
	return "Lapse's Pods run as user " + strconv.Itoa(user) + ", which OpenShift's constraint nonroot-v2 allows: " +
		"`oc adm policy add-scc-to-group nonroot-v2 system:serviceaccounts:" + namespace + "`, by a cluster admin"
}

func jobFailure(job *batchv1.Job) error {
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobFailed && condition.Status == corev1.ConditionTrue {
			return startError(condition.Reason, condition.Message, "")
		}
	}
	return nil
}

// Hints for what keeps Pods from being created or started.
const (
	cpuLimitHint = "the agent has no CPU limit, because throttling looks like latency; " +
		"give the namespace a LimitRange with a generous default, or no quota on limits.cpu"
	podSecurityHint = "the agent meets the \"restricted\" Pod Security Standard; " +
		"something in the cluster changes its Pod, or demands more"
	nodesHint = "its Pods need room on a schedulable node that is not among those to be drained: --cpu lets them ask " +
		"for less, and where an autoscaler adds nodes, --wait 5m waits longer"
	notCreatedHint = "what the message names has to answer again; --wait 5m waits longer. " +
		"Without a message, ask whether the cluster's controllers work"
	crashHint = "the message is the end of the agent's own log"
)

func startError(reason, message, advice string) error {
	return hint.Add(advice, &StartError{Reason: reason, Message: message})
}

// refusal returns a StartError of a cluster that does not accept the Pod as it is.
func refusal(reason, message, advice string) error {
	return hint.Add(advice, &StartError{Reason: reason, Message: message, refused: true})
}

// quotaHint names the quota that leaves no room, and for what, from the API server's message: "exceeded quota: small,
// requested: cpu=100m, used: cpu=950m, limited: cpu=1".
// https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/resourcequota/controller.go
func quotaHint(message, namespace string) string {
	found := exceeded.FindStringSubmatch(message)
	if found == nil {
		return "a quota of the namespace does not allow the agent's Pod as it is; " +
			"see `kubectl describe quota -n " + namespace + "`"
	}
	quota, requested, used, limit := found[1], found[2], found[3], found[4]
	return "the quota " + quota + " leaves no room: " +
		"the run asks for " + requested + ", in use is " + used + ", allowed is " + limit + "; " +
		"see `kubectl describe quota " + quota + " -n " + namespace + "`"
}

var exceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+), used: (.+), limited: (.+?)(?:"|$)`)

// admissionDenied reports whether a webhook or a ValidatingAdmissionPolicy has refused an object. They choose their
// status codes themselves.
// https://github.com/kubernetes/apiserver/blob/v0.36.0/pkg/admission/plugin/webhook/errors/statuserror.go
func admissionDenied(err error) bool {
	return strings.Contains(err.Error(), "denied the request") || strings.Contains(err.Error(), "denied request")
}

func isRunning(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName && status.State.Running != nil {
			return true
		}
	}
	return false
}

// toCreate is what a run without a Pod waits for.
const toCreate = "the Job to create its Pod"

// situation returns what a run waits for: "Pod lapse-x on node1 to start". pod is nil if there is none yet.
func situation(pod *corev1.Pod) string {
	if pod == nil {
		return toCreate
	}
	where := "Pod " + pod.Name
	if pod.Spec.NodeName == "" {
		where += " to be scheduled"
		if c := unscheduled(pod); c != nil {
			where += because(c.Reason, c.Message)
		}
		return where
	}
	where += " on " + pod.Spec.NodeName
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return where + " to start" + because(waiting.Reason, waiting.Message)
		}
	}
	if isRunning(pod) {
		return where + " to answer"
	}
	return where + " to start"
}
