package workstation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/deploy"
	"lapse/internal/kube"
	"lapse/internal/report"
	"lapse/internal/report/routes"
	"lapse/internal/run/exit"
	"lapse/internal/run/saved"
	"lapse/internal/run/terminal"
	"lapse/timeline"
)

const (
	// betweenChanges is the time between two changes. Within it the routes of all nodes must follow.
	betweenChanges = 4 * time.Second
	// readyWithin is how long a new Pod may take to be ready.
	readyWithin = time.Minute
	// lookForPods is the time between two looks at the Pods until then.
	lookForPods = 100 * time.Millisecond
)

// A podChanger changes the endpoints of the run's own Service: it deletes its Pods, one after the other.
type podChanger struct {
	client    kube.Client
	namespace string
	selector  string
	changes   int
	between   time.Duration // see betweenChanges
	clock     timeline.Clock
	event     func(timeline.Event)
	say       func(string)

	// asked is called after a deletion, with the instants before and after the request.
	asked func(pod *corev1.Pod, from, to time.Duration)

	ctx    context.Context
	cancel context.CancelFunc
}

func (r *clusterRun) newPodChanger(client kube.Client) *podChanger {
	c := &podChanger{
		client:    client,
		namespace: r.job.Namespace,
		selector:  deploy.CanarySelector(r.job.Name),
		changes:   r.opts.Changes,
		between:   betweenChanges,
		clock:     r.clock.local,
		event:     r.sendLater,
		say:       r.screen.Say,
		asked: func(pod *corev1.Pod, from, to time.Duration) {
			deleted := timeline.Object{
				Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID), Node: pod.Spec.NodeName,
			}
			e := timeline.Event{Seen: to, Kind: timeline.DeletionAsked, Writer: "lapse", Object: deleted}
			r.events.put(commandEvent{e, r.clock.stamp(from, to)})
		},
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

func (c *podChanger) Start(done func(exitCode int)) error {
	c.event(timeline.Event{
		Seen: c.clock.Now(), Kind: timeline.Command, To: "running", Writer: "lapse",
		Detail: "delete " + quantity.Count(c.changes, "Pod") + ", one after the other",
	})
	go func() {
		code := 0
		if err := c.changeAll(); err != nil {
			code = 1
			c.say("no more changes: " + err.Error())
		}
		c.event(timeline.Event{
			Seen: c.clock.Now(), Kind: timeline.Command, From: "running", To: "exited", Writer: "lapse",
			ExitCode: &code,
		})
		done(code)
	}()
	return nil
}

func (c *podChanger) Signal(syscall.Signal) { c.cancel() }

func (c *podChanger) Stop(done <-chan int) {
	c.cancel()
	select {
	case <-done:
	case <-time.After(3 * time.Second):
	}
}

func (c *podChanger) changeAll() error {
	for i := range c.changes {
		pods, err := c.awaitReady()
		if err != nil {
			return err
		}
		oldest := slices.MinFunc(pods, byAge)
		onlyThis := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &oldest.UID}}
		from := c.clock.Now()
		err = c.client.Pods(c.namespace).Delete(c.ctx, oldest.Name, onlyThis)
		if err != nil {
			return fmt.Errorf("delete Pod %s: %w", oldest.Name, err)
		}
		c.asked(oldest, from, c.clock.Now())
		const changed = "change %d of %d: Pod %s on %s was deleted"
		c.say(fmt.Sprintf(changed, i+1, c.changes, oldest.Name, oldest.Spec.NodeName))
		select {
		case <-time.After(c.between):
		case <-c.ctx.Done():
			return context.Cause(c.ctx)
		}
	}
	_, err := c.awaitReady()
	return err
}

func byAge(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }

// awaitReady waits until two Pods are ready and not terminating.
func (c *podChanger) awaitReady() (ready []*corev1.Pod, err error) {
	late := fmt.Errorf("no two Pods were ready within %s", quantity.Span(readyWithin))
	ctx, cancel := context.WithTimeoutCause(c.ctx, readyWithin, late)
	defer cancel()
	err = wait.PollUntilContextCancel(ctx, lookForPods, true, func(ctx context.Context) (bool, error) {
		pods, err := c.client.Pods(c.namespace).List(ctx, metav1.ListOptions{LabelSelector: c.selector})
		if err != nil {
			return false, fmt.Errorf("list the Pods: %w", err)
		}
		ready = ready[:0]
		for i := range pods.Items {
			if p := &pods.Items[i]; p.DeletionTimestamp == nil && isReadyPod(p) {
				ready = append(ready, p)
			}
		}
		return len(ready) >= 2, nil
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return ready, err
}

func isReadyPod(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}

// presentRoutes prints the figures of each node's routes, and returns the exit code.
func presentRoutes(stdout io.Writer, dir string, as saved.Output, tl *model.Timeline, unwritten error) error {
	if as.Format != report.Formats[0].Name {
		return saved.Present(stdout, dir, as, tl, unwritten)
	}
	unprinted := routes.Print(stdout, tl, dir, terminal.StyleOf(stdout).Screen)
	return exit.With(tl.Verdict.ExitCode, errors.Join(unwritten, unprinted))
}
