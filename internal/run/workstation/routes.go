package workstation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
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
	// betweenChanges is the time between two changes, beyond that for which a proxy may wait. Within both the routes of
	// all nodes must follow.
	betweenChanges = 3 * time.Second
	// afterFirst is the time between the first deletion of a change and its others. A proxy follows a change after a
	// quiet time at once: by then it has written its rules, and waits before it writes them again.
	afterFirst = 200 * time.Millisecond
	// readyWithin is how long a new Pod may take to be ready.
	readyWithin = time.Minute
	// lookForPods is the time between two looks at the Pods until then.
	lookForPods = 100 * time.Millisecond
)

// A podChanger changes the endpoints of the run's own Service: it deletes its Pods. Every second change is of several.
type podChanger struct {
	client    kube.Client
	namespace string
	selector  string
	changes   int
	atOnce    int           // how many Pods the second change deletes, and every second one after it
	pods      int           // how many are ready before each change
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
		atOnce:    r.opts.AtOnce,
		pods:      r.opts.CanaryPods(),
		between:   betweenChanges + r.opts.Cluster.SyncPeriod(),
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
		Detail: "delete Pods " + quantity.Count(c.changes, "time") + ofSeveral(c.atOnce),
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
		ready, err := c.awaitReady()
		if err != nil {
			return err
		}
		slices.SortFunc(ready, byAge)
		oldest := ready[:deletesIn(i, c.atOnce)]
		if err := c.change(oldest); err != nil {
			return err
		}
		var names []string
		for _, pod := range oldest {
			names = append(names, pod.Name+" on "+pod.Spec.NodeName)
		}
		c.say(fmt.Sprintf("change %d of %d: deleted %s", i+1, c.changes, strings.Join(names, ", ")))
		if err := c.wait(c.between); err != nil {
			return err
		}
	}
	_, err := c.awaitReady()
	return err
}

// ofSeveral says how many Pods every second change deletes; "" if one.
func ofSeveral(atOnce int) string {
	if atOnce == 1 {
		return ""
	}
	return fmt.Sprintf(", every second time %d at once", atOnce)
}

// deletesIn returns how many Pods the nth change deletes, counted from 0.
func deletesIn(n, atOnce int) int {
	if n%2 == 1 {
		return atOnce
	}
	return 1
}

// change deletes Pods: the first, and shortly after it all others.
func (c *podChanger) change(pods []*corev1.Pod) error {
	for i, pod := range pods {
		if i == 1 {
			if err := c.wait(afterFirst); err != nil {
				return err
			}
		}
		onlyThis := metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}}
		from := c.clock.Now()
		if err := c.client.Pods(c.namespace).Delete(c.ctx, pod.Name, onlyThis); err != nil {
			return fmt.Errorf("delete Pod %s: %w", pod.Name, err)
		}
		c.asked(pod, from, c.clock.Now())
	}
	return nil
}

func (c *podChanger) wait(d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-c.ctx.Done():
		return context.Cause(c.ctx)
	}
}

func byAge(a, b *corev1.Pod) int { return a.CreationTimestamp.Compare(b.CreationTimestamp.Time) }

// awaitReady waits until all Pods are ready and not terminating.
func (c *podChanger) awaitReady() (ready []*corev1.Pod, err error) {
	late := fmt.Errorf("no %d Pods were ready within %s", c.pods, quantity.Span(readyWithin))
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
		return len(ready) >= c.pods, nil
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
