package deploy

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"lapse/deploy/agent"
	"lapse/internal/kube"
	"lapse/timeline"
)

// waitRunning waits until the agent's container runs, and returns its Pod. It returns a [StartError] as soon as
// something keeps the container from running, and one if the Pod is not scheduled within CreateWait. If ctx ends first,
// the error says what the run waited for.
func (r *Run) waitRunning(ctx context.Context) (*corev1.Pod, error) {
	if _, err := r.Pod(ctx); err != nil {
		return nil, err // without the right to read Pods there would be nothing to wait for
	}
	r.notify(waiting + toCreate)
	var running *corev1.Pod
	err := r.watch(ctx, func(pod *corev1.Pod) bool {
		if isRunning(pod) {
			running = pod
		}
		return running != nil
	})
	return running, err
}

// WaitMeasuring waits until the agent measures, and returns a client of it. If its Pod ends before, the error is a
// [StartError].
func (r *Run) WaitMeasuring(ctx context.Context) (*agent.Client, *agent.Tunnel, error) {
	pod, err := r.waitRunning(ctx)
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
	client.Logger = r.Logger // only now: until the agent listens, refused connections are expected
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
	err := r.askUntilMeasuring(asking, client)
	stop(nil)
	if failure := <-watched; err != nil && isStartError(failure) {
		return failure
	}
	if err != nil {
		return fmt.Errorf("wait for the agent to measure: %w", err)
	}
	return nil
}

// Armed is what [Cluster.Notify] gets of a run that waits for a disruption, once: that may take days.
const Armed = "armed: " + waiting + "the first sign of a disruption"

func (r *Run) askUntilMeasuring(ctx context.Context, client *agent.Client) error {
	phase, err := askWhile(ctx, client, askAgain, timeline.PhaseStarting)
	if err != nil || phase != timeline.PhaseArmed {
		return err
	}
	r.notify(Armed)
	return AwaitSign(ctx, client)
}

// AwaitSign waits until an agent does not wait for a disruption any more. Only then has its run a clock.
func AwaitSign(ctx context.Context, client *agent.Client) error {
	_, err := askWhile(ctx, client, time.Second, timeline.PhaseArmed)
	return err
}

// askWhile asks the agent at each interval while it is in a phase, and returns the next one.
func askWhile(
	ctx context.Context, client *agent.Client, interval time.Duration, phase timeline.Phase,
) (next timeline.Phase, err error) {
	err = wait.PollUntilContextCancel(ctx, interval, true, func(ctx context.Context) (bool, error) {
		status, err := client.Status(ctx)
		next = status.Phase
		return err == nil && next != phase, err
	})
	return next, err
}

func isStartError(err error) bool {
	_, ok := errors.AsType[*StartError](err)
	return ok
}

// waitCanary waits until the canary's Pods are ready endpoints.
func (r *Run) waitCanary(ctx context.Context) error {
	var reason, waitingFor string
	tooLong := r.limit()
	err := wait.PollUntilContextCancel(ctx, askAgain, true, func(ctx context.Context) (bool, error) {
		ready, err := r.readyCanary(ctx)
		if err != nil || ready >= r.outline.CanaryPods {
			return err == nil, err
		}
		pods, err := r.Client.Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: CanarySelector(r.Name)})
		if err != nil {
			return false, fmt.Errorf("wait for the canary's Pods: %w", err)
		}
		if reason, waitingFor, err = r.judgeCanary(ctx, pods.Items); err != nil {
			return false, err
		}
		r.notify(waiting + waitingFor)
		if reason == "" {
			return false, nil
		}
		select {
		case <-tooLong:
			return false, r.waitedTooLong(reason, waitingFor)
		default:
			return false, nil
		}
	})
	if ctx.Err() != nil {
		return fmt.Errorf("waited for %s: %w", waitingFor, context.Cause(ctx))
	}
	return err
}

// readyCanary returns how many endpoints of the canary are ready.
func (r *Run) readyCanary(ctx context.Context) (ready int, err error) {
	ofCanary := metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + CanaryName(r.Name)}
	slices, err := r.Client.EndpointSlices(r.Namespace).List(ctx, ofCanary)
	if err != nil {
		return 0, fmt.Errorf("wait for the canary's endpoints: %w", err)
	}
	for _, slice := range slices.Items {
		for _, e := range slice.Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				ready++
			}
		}
	}
	return ready, nil
}

// judgeCanary returns what the canary waits for, with Kubernetes' reason if a Pod is not created or not scheduled yet,
// or an error if the canary will not start.
func (r *Run) judgeCanary(ctx context.Context, pods []corev1.Pod) (reason, waitingFor string, err error) {
	all := "the Pods of Service " + CanaryName(r.Name)
	if len(pods) == 0 {
		why, err := r.canaryNotCreated(ctx)
		return creationFailed, all + " to be created" + why, err
	}
	waitingFor = all + " to be ready"
	for i := range pods {
		pod := &pods[i]
		if err := judgeStart(pod); err != nil {
			return "", "", err
		}
		if pod.Spec.NodeName == "" {
			reason, waitingFor = corev1.PodReasonUnschedulable, situation(pod)
		}
	}
	return reason, waitingFor, nil
}

// canaryNotCreated returns why the canary's Pods are not created yet, as far as the API says, or an error if they will
// not be.
func (r *Run) canaryNotCreated(ctx context.Context) (why string, err error) {
	events, err := r.Client.Events(r.Namespace).List(ctx, metav1.ListOptions{FieldSelector: "reason=" + creationFailed})
	if err != nil {
		return "", nil // without the right to read Events the reason is unknown
	}
	for i := range events.Items {
		event := &events.Items[i]
		of := event.InvolvedObject
		canarys := of.Kind == "ReplicaSet" && strings.HasPrefix(of.Name, CanaryName(r.Name)+"-")
		if !canarys || event.Reason != creationFailed {
			continue
		}
		if err := judgeEvent(event); err != nil {
			return "", err
		}
		why = because(event.Reason, event.Message)
	}
	return why, nil
}

// A startWatch follows a run's Pod, Job and the Job's Events.
type startWatch struct {
	*Run
	waitingFor string
	reason     string // Kubernetes' reason if it waits in vain: that the Pod was not created, or not scheduled
}

// watch follows the run until done is true of its Pod, until something shows that the run will not start (a
// [StartError]), or until ctx ends.
func (r *Run) watch(ctx context.Context, done func(*corev1.Pod) bool) error {
	w := &startWatch{Run: r, waitingFor: toCreate, reason: creationFailed}
	watching, stop := context.WithCancel(ctx)
	changes := make(chan any)
	informers := w.informers(watching, changes)
	var running sync.WaitGroup
	defer running.Wait()
	defer stop()
	for _, informer := range informers {
		running.Go(func() { informer.RunWithContext(watching) })
	}
	return w.until(ctx, changes, done)
}

// until takes changes until done is true of the run's Pod.
func (w *startWatch) until(ctx context.Context, changes <-chan any, done func(*corev1.Pod) bool) error {
	tooLong := w.limit()
	for {
		select {
		case change := <-changes:
			pod, err := w.take(ctx, change)
			if err != nil {
				return err
			}
			if pod == nil {
				continue
			}
			if done(pod) {
				return nil
			}
			if pod.Spec.NodeName != "" {
				tooLong = nil
			}
			w.reason = corev1.PodReasonUnschedulable
			w.nowWaitsFor(situation(pod))
		case <-tooLong:
			return w.waitedTooLong(w.reason, w.waitingFor)
		case <-ctx.Done():
			return fmt.Errorf("waited for %s: %w", w.waitingFor, context.Cause(ctx))
		}
	}
}

// take judges one change, and notes why the Job cannot create its Pod.
func (w *startWatch) take(ctx context.Context, change any) (*corev1.Pod, error) {
	pod, err := w.judge(ctx, change)
	event, ok := change.(*corev1.Event)
	if err == nil && ok && w.reason == creationFailed && w.failsToCreate(event) {
		w.nowWaitsFor(toCreate + because(event.Reason, event.Message))
	}
	return pod, err
}

func (w *startWatch) nowWaitsFor(what string) {
	w.waitingFor = what
	w.notify(waiting + what)
}

// failsToCreate reports whether an Event says that the run's Job could not create its Pod.
func (w *startWatch) failsToCreate(event *corev1.Event) bool {
	return event.InvolvedObject.UID == w.Job.UID && event.Reason == creationFailed
}

// limit returns a channel that receives when CreateWait has passed; nil: there is no limit.
func (c Cluster) limit() <-chan time.Time {
	if c.CreateWait == 0 {
		return nil
	}
	return time.After(c.CreateWait)
}

// waitedTooLong returns the error of a run of which a Pod was not created, or not scheduled, in time.
func (c Cluster) waitedTooLong(reason, what string) error {
	advice := nodesHint
	if reason == creationFailed {
		advice = notCreatedHint
	}
	return refusal(reason, fmt.Sprintf("waited %s (--wait) for %s", c.CreateWait, what), advice)
}

// informers returns informers that send each change of the run: a *corev1.Pod, a *batchv1.Job, a *corev1.Event, or one
// of them wrapped in deleted. Changes that the user may not watch are missing.
func (w *startWatch) informers(ctx context.Context, changes chan<- any) []cache.SharedIndexInformer {
	pods := metav1.ListOptions{LabelSelector: w.selector()}
	job := metav1.ListOptions{FieldSelector: "metadata.name=" + w.Name}
	events := metav1.ListOptions{FieldSelector: "involvedObject.kind=Job,involvedObject.name=" + w.Name}
	all := []cache.SharedIndexInformer{
		informer(w.Client, w.Client.Pods(w.Namespace), &corev1.Pod{}, pods),
		informer(w.Client, w.Client.Jobs(w.Namespace), &batchv1.Job{}, job),
		informer(w.Client, w.Client.Events(w.Namespace), &corev1.Event{}, events),
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
			w.logger().Debug("watching a run is interrupted", "run", w.Name, "error", err)
		})
		_, _ = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc:    send,
			UpdateFunc: func(_, object any) { send(object) },
			DeleteFunc: func(object any) { send(deleted{object}) },
		})
	}
	return all
}

// informer returns an informer of the client's objects that only selects. object is any of their kind.
func informer[T, L runtime.Object](
	client kube.Client, objects kube.Objects[T, L], object T, only metav1.ListOptions,
) cache.SharedIndexInformer {
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

type deleted struct{ object any }

// judge looks at one change. It returns a Pod that may still start, or a StartError if the run will not start.
func (w *startWatch) judge(ctx context.Context, change any) (*corev1.Pod, error) {
	switch object := change.(type) {
	case *corev1.Pod:
		if !w.owns(object) {
			return nil, nil
		}
		if w.CreateWait == 0 { // no limit to wait for a node
			return object, judgePod(object)
		}
		return object, judgeStart(object)
	case *batchv1.Job:
		return nil, w.judgeJob(ctx, object)
	case *corev1.Event:
		if object.InvolvedObject.UID != w.Job.UID {
			return nil, nil // of an earlier Job of this name
		}
		return nil, judgeEvent(object)
	case deleted:
		return nil, w.judgeDeleted(object.object)
	}
	return nil, nil
}

// judgeJob returns why a Job has failed. The status of its Pod is more precise, if there is one.
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

func (w *startWatch) judgeDeleted(object any) error {
	if last, ok := object.(cache.DeletedFinalStateUnknown); ok {
		object = last.Obj
	}
	switch object := object.(type) {
	case *corev1.Pod:
		if w.owns(object) {
			return startError("Deleted", fmt.Sprintf("Pod %s was deleted", object.Name), "")
		}
	case *batchv1.Job:
		if object.UID == w.Job.UID {
			return startError("Deleted", fmt.Sprintf("Job %s was deleted", object.Name), "")
		}
	}
	return nil
}
