package deploy

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"lapse/deploy/agent"
	"lapse/hint"
	"lapse/kube"
	"lapse/timeline"
)

// A StartError says why a run in the cluster does not begin, in Kubernetes' own words.
type StartError struct {
	Reason  string // Kubernetes' reason: "ErrImagePull", "Unschedulable", "FailedCreate"
	Message string
	refused bool // the cluster does not take the Pod as it was asked for
}

func (e *StartError) Error() string {
	return fmt.Sprintf("the run does not start: %s: %s", e.Reason, e.Message)
}

// WaitRunning waits until the agent's container runs, and returns its Pod. What keeps it from running (a
// [StartError]) is reported as soon as it is known. If ctx ends first, the error says what was waited for.
func (r *Run) WaitRunning(ctx context.Context) (*corev1.Pod, error) {
	if _, err := r.Pod(ctx); err != nil {
		return nil, err // without the right to read Pods there would be nothing to wait for
	}
	r.notify(waiting + "the Job to create its Pod")
	var running *corev1.Pod
	err := r.watch(ctx, func(pod *corev1.Pod) bool {
		if isRunning(pod) {
			running = pod
		}
		return running != nil
	})
	return running, err
}

// WaitMeasuring waits until the agent measures, and returns a client of it. A Pod that ends
// meanwhile is a [StartError].
func (r *Run) WaitMeasuring(ctx context.Context) (*agent.Client, *agent.Tunnel, error) {
	pod, err := r.WaitRunning(ctx)
	if err != nil {
		return nil, nil, err
	}
	tunnel, err := tunnelTo(r.REST, pod)
	if err != nil {
		return nil, nil, err
	}
	client := tunnel.Client()
	if err := r.waitMeasuring(ctx, client); err != nil {
		return nil, nil, err
	}
	client.Logger = r.Logger // not before: until it listens, refused connections are no news
	return client, tunnel, nil
}

// waitMeasuring asks the agent again and again, and watches the Pod while it does.
func (r *Run) waitMeasuring(ctx context.Context, client *agent.Client) error {
	asking, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	watched := make(chan error, 1)
	go func() {
		err := r.watch(asking, func(*corev1.Pod) bool { return false })
		stop(err)
		watched <- err
	}()
	err := askUntilMeasuring(asking, client)
	stop(nil)
	if failure := <-watched; err != nil && isStartError(failure) {
		return failure
	}
	if err != nil {
		return fmt.Errorf("wait for the agent to measure: %w", err)
	}
	return nil
}

func askUntilMeasuring(ctx context.Context, client *agent.Client) error {
	return wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		status, err := client.Status(ctx)
		return err == nil && status.Phase != timeline.PhaseStarting, err
	})
}

func isStartError(err error) bool {
	_, ok := errors.AsType[*StartError](err)
	return ok
}

// watch follows the run's Pod, Job and the Job's Events until done says so of the Pod, one of them
// shows that the run will not start (a StartError), or ctx ends.
func (r *Run) watch(ctx context.Context, done func(*corev1.Pod) bool) error {
	watching, stop := context.WithCancel(ctx)
	changes := make(chan any)
	informers := r.informers(watching, changes)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, informer := range informers {
		running.Go(func() { informer.RunWithContext(watching) })
	}
	waitingFor := "the Job to create its Pod"
	for {
		select {
		case change := <-changes:
			pod, err := r.judge(ctx, change)
			if err != nil {
				return err
			}
			if pod == nil {
				continue
			}
			if done(pod) {
				return nil
			}
			waitingFor = situation(pod)
			r.notify(waiting + waitingFor)
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", waitingFor, context.Cause(ctx))
		}
	}
}

// informers send what changes about the run: a *corev1.Pod, a *batchv1.Job, a *corev1.Event, or one
// of them wrapped in deleted. What the user may not watch is silently missing.
func (r *Run) informers(ctx context.Context, changes chan<- any) []cache.SharedIndexInformer {
	ofJob := "involvedObject.kind=Job,involvedObject.name=" + r.Name
	all := []cache.SharedIndexInformer{
		informer(r.Client, r.Client.Pods(r.Namespace), &corev1.Pod{}, metav1.ListOptions{LabelSelector: r.selector()}),
		informer(r.Client, r.Client.Jobs(r.Namespace), &batchv1.Job{}, metav1.ListOptions{FieldSelector: "metadata.name=" + r.Name}),
		informer(r.Client, r.Client.Events(r.Namespace), &corev1.Event{}, metav1.ListOptions{FieldSelector: ofJob}),
	}
	send := func(change any) {
		select {
		case changes <- change:
		case <-ctx.Done():
		}
	}
	for _, informer := range all {
		// Neither can fail on an informer that does not run yet.
		_ = informer.SetWatchErrorHandler(func(_ *cache.Reflector, err error) {
			r.logger().Debug("watching a run is interrupted", "run", r.Name, "error", err)
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    send,
			UpdateFunc: func(_, object any) { send(object) },
			DeleteFunc: func(object any) { send(deleted{object}) },
		})
	}
	return all
}

// informer follows those of the client's objects that only selects. object is any of their kind.
func informer[T, L runtime.Object](client kube.Client, objects kube.Objects[T, L], object T, only metav1.ListOptions) cache.SharedIndexInformer {
	selected := func(o metav1.ListOptions) metav1.ListOptions {
		o.LabelSelector, o.FieldSelector = only.LabelSelector, only.FieldSelector
		return o
	}
	source := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return objects.List(ctx, selected(o))
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return objects.Watch(ctx, selected(o))
		},
	}
	return cache.NewSharedIndexInformer(cache.ToListWatcherWithWatchListSemantics(source, client), object, 0, nil)
}

// waiting begins the text of why a run does not measure yet.
const waiting = "waiting for "

type deleted struct{ object any }

// judge looks at one change. It returns the Pod if the change is about that and leaves hope, and a
// StartError if it shows that the run will not start.
func (r *Run) judge(ctx context.Context, change any) (*corev1.Pod, error) {
	switch object := change.(type) {
	case *corev1.Pod:
		if !r.owns(object) {
			return nil, nil
		}
		return object, judgePod(object)
	case *batchv1.Job:
		return nil, r.judgeJob(ctx, object)
	case *corev1.Event:
		if object.InvolvedObject.UID != r.Job.UID {
			return nil, nil // of an earlier Job of this name
		}
		return nil, judgeEvent(object)
	case deleted:
		return nil, r.judgeDeleted(object.object)
	}
	return nil, nil
}

// owns reports whether the Pod is of this run's Job, and not of an earlier one of the same name.
func (r *Run) owns(pod *corev1.Pod) bool { return metav1.IsControlledBy(pod, r.Job) }

// judgeJob reports a Job that has failed; its Pod knows better why, if there is one.
func (r *Run) judgeJob(ctx context.Context, job *batchv1.Job) error {
	failure := jobFailure(job)
	if job.UID != r.Job.UID || failure == nil {
		return nil
	}
	if pod, err := r.Pod(ctx); err == nil && pod != nil {
		if why := judgePod(pod); why != nil {
			return why
		}
	}
	return failure
}

func (r *Run) judgeDeleted(object any) error {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	switch object := object.(type) {
	case *corev1.Pod:
		if r.owns(object) {
			return startError("Deleted", fmt.Sprintf("Pod %s was deleted", object.Name), "")
		}
	case *batchv1.Job:
		if object.UID == r.Job.UID {
			return startError("Deleted", fmt.Sprintf("Job %s was deleted", object.Name), "")
		}
	}
	return nil
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
	imageHint       = "is the image where the nodes can pull it? see --image and --image-pull-secret"
	cpuLimitHint    = "the agent has no CPU limit, because throttling fakes latency; give the namespace a LimitRange with a generous default, or no quota on limits.cpu"
	podSecurityHint = "the agent keeps to the \"restricted\" Pod Security Standard; something in the cluster changes its Pod, or asks for more"
	nodesHint       = "the agent needs one schedulable node that is not among those to be drained"
	crashHint       = "the message is the end of the agent's own log"
)

// judgeEvent reads from an Event of the Job why its Pod cannot even be created.
func judgeEvent(event *corev1.Event) error {
	if event.Reason != "FailedCreate" {
		return nil
	}
	switch {
	case strings.Contains(event.Message, "violates PodSecurity"):
		return refusal(event.Reason, event.Message, podSecurityHint)
	case strings.Contains(event.Message, "must specify limits.cpu"):
		return refusal(event.Reason, event.Message, cpuLimitHint)
	case strings.Contains(event.Message, "exceeded quota"), strings.Contains(event.Message, "failed quota"):
		return refusal(event.Reason, event.Message, quotaHint(event.Message, event.Namespace))
	case strings.Contains(event.Message, "forbidden"), strings.Contains(event.Message, "denied"):
		return refusal(event.Reason, event.Message, "an admission policy of the cluster refuses the agent's Pod")
	}
	return nil // the Job controller tries again
}

// judgePod reports what keeps the Pod from running, if it is known to.
func judgePod(pod *corev1.Pod) error {
	switch {
	case pod.Status.Phase == corev1.PodSucceeded:
		return startError("Completed", "the agent has ended already", "`lapse retrieve` has its result")
	case pod.Status.Phase == corev1.PodFailed:
		return startError(failedReason(pod), lastWords(pod), crashHint)
	case pod.DeletionTimestamp != nil:
		return startError("Deleted", fmt.Sprintf("Pod %s was deleted", pod.Name), "")
	}
	for _, status := range pod.Status.ContainerStatuses {
		if err := judgeContainer(status); err != nil {
			return err
		}
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodScheduled && condition.Reason == corev1.PodReasonUnschedulable {
			return refusal(condition.Reason, condition.Message, nodesHint)
		}
	}
	return nil
}

func judgeContainer(status corev1.ContainerStatus) error {
	if ended := status.State.Terminated; ended != nil {
		return startError(ended.Reason, terminated(ended), crashHint)
	}
	waiting := status.State.Waiting
	if waiting == nil {
		return nil
	}
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError", "RegistryUnavailable":
		return refusal(waiting.Reason, fmt.Sprintf("image %q: %s", status.Image, waiting.Message), imageHint)
	case "CreateContainerConfigError": // a Secret that is not there
		return refusal(waiting.Reason, waiting.Message, "is the Secret there, with the keys that the message names?")
	case "CreateContainerError", "RunContainerError", "StartError", "CrashLoopBackOff":
		return startError(waiting.Reason, waiting.Message, "")
	}
	return nil
}

func startError(reason, message, advice string) error {
	return hint.Add(advice, &StartError{Reason: reason, Message: message})
}

// refusal is a StartError of a cluster that does not take the Pod as it was asked for.
func refusal(reason, message, advice string) error {
	return hint.Add(advice, &StartError{Reason: reason, Message: message, refused: true})
}

// Refused reports whether err says that the cluster does not take a run as it was asked for (the image, the namespace and
// its quotas and policies, the nodes to avoid, a right) so that nothing ran and asking for something else may help.
func Refused(err error) bool {
	if start, ok := errors.AsType[*StartError](err); ok {
		return start.refused
	}
	return admissionDenied(err) || apierrors.IsForbidden(err) || apierrors.IsNotFound(err) || apierrors.IsAlreadyExists(err) || apierrors.IsInvalid(err)
}

// quotaHint says which quota leaves no room, and for what, as the API server put it: "exceeded quota: small, requested: cpu=100m,
// used: cpu=950m, limited: cpu=1".
// https://github.com/kubernetes/kubernetes/blob/v1.36.0/staging/src/k8s.io/apiserver/pkg/admission/plugin/resourcequota/controller.go
func quotaHint(message, namespace string) string {
	if found := exceeded.FindStringSubmatch(message); found != nil {
		return fmt.Sprintf("the quota %s leaves no room: the run asks for %s, in use is %s, allowed is %s; see `kubectl describe quota %s -n %s`",
			found[1], found[2], found[3], found[4], found[1], namespace)
	}
	return fmt.Sprintf("a quota of the namespace does not take the agent's Pod as it is; see `kubectl describe quota -n %s`", namespace)
}

var exceeded = regexp.MustCompile(`exceeded quota: ([^,]+), requested: (.+), used: (.+), limited: (.+?)(?:"|$)`)

func isRunning(pod *corev1.Pod) bool {
	for _, status := range pod.Status.ContainerStatuses {
		if status.Name == ContainerName && status.State.Running != nil {
			return true
		}
	}
	return false
}

// situation describes a Pod that is being waited for.
func situation(pod *corev1.Pod) string {
	where := "Pod " + pod.Name
	if pod.Spec.NodeName == "" {
		return where + " to be scheduled"
	}
	where += " on " + pod.Spec.NodeName
	for _, status := range pod.Status.ContainerStatuses {
		if waiting := status.State.Waiting; waiting != nil {
			return where + " to start" + because(waiting.Reason, waiting.Message)
		}
	}
	if isRunning(pod) {
		return where + ", which runs, to answer"
	}
	return where + " to start"
}
