package watcher

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"lapse/internal/hint"
	"lapse/internal/kube"
	"lapse/internal/kube/kubetest"
	"lapse/timeline"
)

// A cluster is a fake API that is watched: a test changes it and looks at the events that came of it. It lives in a
// synctest bubble, where nothing takes time but sleeping.
type cluster struct {
	hold   time.Duration
	t      *testing.T
	client *fake.Clientset
	stop   context.CancelFunc
	result chan error

	services []Service // what is watched; web's port http unless set before start
	byName   bool      // Services may only be listed by name
	cluster  bool      // all namespaces are watched at once
	reads    func() bool
	logger   *slog.Logger
	all      bool // what happened includes snapshots and their reflectors

	mu      sync.Mutex
	events  []timeline.Event
	watches map[string][]*watch.RaceFreeFakeWatcher // by resource, and by NAMESPACE/resource, oldest first
	refused map[string]error                        // by "verb resource" or "verb NAMESPACE/resource"
	calls   []string                                // "verb resource"
	frozen  chan struct{}                           // nil: answers come at once; else when it is closed
}

func newCluster(t *testing.T, objects ...runtime.Object) *cluster {
	c := &cluster{
		t: t, client: fake.NewSimpleClientset(objects...), result: make(chan error, 1), services: []Service{{"shop", "web", []string{"http"}}},
		watches: map[string][]*watch.RaceFreeFakeWatcher{}, refused: map[string]error{asksForKinds: noEvictionAPI},
	}
	c.client.Resources = []*metav1.APIResourceList{evictionAPI}
	c.client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := c.called("list", a)
		return err != nil, nil, err
	})
	c.client.PrependReactor("get", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		err := c.called("get", a)
		return err != nil, nil, err
	})
	c.client.PrependWatchReactor("*", func(a clienttesting.Action) (bool, watch.Interface, error) {
		resource := a.GetResource().Resource
		if err := c.called("watch", a); err != nil {
			return true, nil, err
		}
		opened, err := c.client.Tracker().Watch(a.GetResource(), a.GetNamespace(), a.(clienttesting.WatchActionImpl).ListOptions)
		if err != nil {
			return true, nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		for _, of := range []string{resource, a.GetNamespace() + "/" + resource} {
			c.watches[of] = append(c.watches[of], opened.(*watch.RaceFreeFakeWatcher))
		}
		return true, opened, nil
	})
	return c
}

// called notes a call, and says whether it is refused.
func (c *cluster) called(verb string, a clienttesting.Action) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	resource := a.GetResource().Resource
	c.calls = append(c.calls, verb+" "+resource)
	return cmp.Or(c.refused[verb+" "+resource], c.refused[verb+" "+a.GetNamespace()+"/"+resource])
}

func (c *cluster) refuse(call string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused[call] = err
}

// freezable is a client whose questions for a Service can be frozen, and whose lists and watches of Services keep to
// the name they ask for. The fake itself can do neither.
type freezable struct {
	kube.Client
	c *cluster
}

func (f freezable) Services(namespace string) kube.Objects[*corev1.Service, *corev1.ServiceList] {
	return freezableServices{f.Client.Services(namespace), f.c}
}

type freezableServices struct {
	kube.Objects[*corev1.Service, *corev1.ServiceList]
	c *cluster
}

func (f freezableServices) Get(ctx context.Context, name string, options metav1.GetOptions) (*corev1.Service, error) {
	f.c.mu.Lock()
	frozen := f.c.frozen
	f.c.mu.Unlock()
	if frozen != nil {
		select {
		case <-frozen:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return f.Objects.Get(ctx, name, options)
}

func (f freezableServices) List(ctx context.Context, o metav1.ListOptions) (*corev1.ServiceList, error) {
	if f.c.byName && o.FieldSelector == "" {
		return nil, forbidden("services")
	}
	list, err := f.Objects.List(ctx, o)
	if err == nil {
		list.Items = slices.DeleteFunc(list.Items, func(s corev1.Service) bool { return !asks(o, &s) })
	}
	return list, err
}

func (f freezableServices) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	w, err := f.Objects.Watch(ctx, o)
	if err != nil {
		return nil, err
	}
	return watch.Filter(w, func(e watch.Event) (watch.Event, bool) {
		s, ok := e.Object.(*corev1.Service)
		return e, !ok || asks(o, s)
	}), nil
}

func asks(o metav1.ListOptions, s *corev1.Service) bool {
	selector, err := fields.ParseSelector(o.FieldSelector)
	return err == nil && selector.Matches(fields.Set{"metadata.name": s.Name})
}

// freeze keeps answers from coming until thaw. A fake watch cannot be frozen: nothing is to change meanwhile.
func (c *cluster) freeze() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.frozen = make(chan struct{})
}

func (c *cluster) thaw() {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.frozen)
	c.frozen = nil
}

func (c *cluster) allow(call string) { c.refuse(call, nil) }

// start begins to watch the Services; end must follow.
func (c *cluster) start() {
	ctx, cancel := context.WithCancel(c.t.Context())
	c.stop = cancel
	config := Config{
		Client: freezable{kubetest.Client(c.client), c}, Services: c.services, AllNamespaces: c.cluster, HoldFor: c.hold, Clock: timeline.StartClock(), Reads: c.reads, Logger: c.logger,
		Sink: func(f timeline.Fact) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.events = append(c.events, f.(timeline.Event))
		},
	}
	go func() { c.result <- Run(ctx, config) }()
	synctest.Wait()
}

// end stops watching and checks that it was not over before.
func (c *cluster) end() {
	c.t.Helper()
	c.stop()
	if err := <-c.result; err != nil {
		c.t.Errorf("Run: %v", err)
	}
}

// lastWatch is the newest watch of a resource.
func (c *cluster) lastWatch(resource string) *watch.RaceFreeFakeWatcher {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.watches[resource]
	return all[len(all)-1]
}

// snapshotKinds are the kinds of which nothing but snapshots is recorded.
var snapshotKinds = []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "PodDisruptionBudget"}

// happened returns the events since the last call, as lines, in the order of the lines' instants and kinds.
func (c *cluster) happened() []string {
	synctest.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for _, e := range c.events {
		if c.all || e.Kind != timeline.SnapshotTaken && (e.Kind != timeline.WatchLane || !slices.Contains(snapshotKinds, e.Object.Kind)) {
			lines = append(lines, line(e))
		}
	}
	c.events = nil
	return lines
}

// expect checks that exactly these events came since the last call. Lanes are independent: their order is free.
func (c *cluster) expect(want ...string) {
	c.t.Helper()
	got := c.happened()
	slices.Sort(got)
	slices.Sort(want)
	if diff := gocmp.Diff(want, got); diff != "" {
		c.t.Errorf("events (-want +got):\n%s", diff)
	}
}

// line is an event for people.
func line(e timeline.Event) string {
	words := []string{e.Seen.String(), string(e.Kind)}
	add := func(format string, arg any, show bool) {
		if show {
			words = append(words, fmt.Sprintf(format, arg))
		}
	}
	add("since=%v", e.Since, e.Since != 0)
	add("%s", e.Object.Name, e.Object.Name != "")
	add("[%s]", e.Object.Kind, e.Object.Name == "")
	add("uid=%s", e.Object.UID, e.Object.UID != "" && e.Object.UID != e.Object.Name)
	add("on=%s", e.Object.Node, e.Object.Node != "" && e.Object.Kind != "Node")
	add("addr=%v", e.Addr, e.Addr.IsValid())
	add("%s", e.From+">"+e.To, e.From+e.To != "")
	add("port=%d", e.Port, e.Port != 0)
	add("portName=%s", e.PortName, e.PortName != "" && e.PortName != "http")
	if e.ExitCode != nil {
		add("exit=%d", *e.ExitCode, true)
	}
	if e.Grace != nil {
		add("grace=%v", *e.Grace, true)
	}
	add("count=%d", e.Count, e.Count != 0)
	add("stamp=%s", e.Stamp.UTC().Format("05.999999999"), !e.Stamp.IsZero())
	add("by=%s", e.Writer, e.Writer != apiserver && e.Writer != writer)
	add("for=%s", e.Actor, e.Kind == timeline.EvictionRequested)
	add("in=%s", e.Container, e.Container != "")
	add("of=%s", strings.Join(e.Services, ","), len(e.Services) > 0 && !slices.Equal(e.Services, []string{"shop/web"}))
	add("(%s)", e.Detail, e.Detail != "")
	return strings.Join(words, " ")
}

// bubble runs a test in virtual time, which begins at second 0 of a minute.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}

func at(seconds int) metav1.Time {
	return metav1.NewTime(time.Date(2000, 1, 1, 0, 0, seconds, 0, time.UTC))
}

func service() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.96.0.9", Selector: map[string]string{"app": "web"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}},
		},
	}
}

// pod is a running, ready Pod of the Service. Its UID is its name, its address 10.0.0.N.
func pod(n int) *corev1.Pod {
	name := fmt.Sprintf("web-%d", n)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{"app": "web"}, CreationTimestamp: at(1)},
		Spec:       corev1.PodSpec{NodeName: "node1"},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning, PodIP: fmt.Sprintf("10.0.0.%d", n),
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at(2)},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at(4)},
			},
			ContainerStatuses: []corev1.ContainerStatus{{Name: "app", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(3)}}}},
		},
	}
}

func with[T any](v *T, change func(*T)) *T {
	change(v)
	return v
}

func deleted(p *corev1.Pod) {
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = new(at(40)), new(int64(30))
}

func unready(p *corev1.Pod) {
	c := condition(p, corev1.PodReady)
	c.Status, c.LastTransitionTime = corev1.ConditionFalse, at(11)
}

func exited(p *corev1.Pod) {
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137, Reason: "Error", FinishedAt: at(12)}}
}

// slice is an EndpointSlice with an endpoint per Pod. Its UID is its name.
func slice(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
	return &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		Ports:      []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(8080))}},
		Endpoints:  endpoints,
	}
}

func endpointOf(p *corev1.Pod, conditions discoveryv1.EndpointConditions) discoveryv1.Endpoint {
	return discoveryv1.Endpoint{
		Addresses: []string{p.Status.PodIP}, Conditions: conditions, NodeName: new(p.Spec.NodeName),
		TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID},
	}
}

var (
	ready              = discoveryv1.EndpointConditions{}
	terminatingServing = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	terminating        = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)}
	notReady           = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(false)}
)

func node(name string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: at(0)}}},
	}
}

func forbidden(resource string) error {
	return apierrors.NewForbidden(schema.GroupResource{Resource: resource}, "", errors.New("no role"))
}

// Mutations of the fake API; the zero context of a test is all they need.

func (c *cluster) putPod(p *corev1.Pod) {
	c.t.Helper()
	pods := c.client.CoreV1().Pods(p.Namespace)
	_, err := pods.Update(c.t.Context(), p, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = pods.Create(c.t.Context(), p, metav1.CreateOptions{})
	}
	c.check(err)
}

// deletePod removes a Pod as the API server does, which first sets a grace period of 0.
func (c *cluster) deletePod(name string) {
	c.t.Helper()
	pods := c.client.CoreV1().Pods("shop")
	pod, err := pods.Get(c.t.Context(), name, metav1.GetOptions{})
	c.check(err)
	if pod.DeletionTimestamp == nil {
		pod.DeletionTimestamp = new(at(10))
	}
	pod.DeletionGracePeriodSeconds = new(int64(0))
	c.putPod(pod)
	c.check(pods.Delete(c.t.Context(), name, metav1.DeleteOptions{}))
}

func (c *cluster) putSlice(s *discoveryv1.EndpointSlice) {
	c.t.Helper()
	all := c.client.DiscoveryV1().EndpointSlices("shop")
	_, err := all.Update(c.t.Context(), s, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = all.Create(c.t.Context(), s, metav1.CreateOptions{})
	}
	c.check(err)
}

func (c *cluster) check(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

var lanesOn = []string{
	"0s watch-lane [EndpointSlice] >on", "0s watch-lane [Event] >on", "0s watch-lane [Node] >on", "0s watch-lane [Pod] >on", "0s watch-lane [Service] >on",
}

func TestFirstListsSayHowThingsStand(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), slice("web-a", endpointOf(pod(1), ready)), node("node1"),
			&corev1.Event{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-1.old"}, InvolvedObject: corev1.ObjectReference{UID: "web-1"}})
		c.start()
		c.expect(append(lanesOn,
			"0s pod-seen web-1 on=node1 addr=10.0.0.1 >Running stamp=01 (listed)",
			"0s pod-scheduled web-1 on=node1 addr=10.0.0.1 >node1 stamp=02",
			"0s pod-ready web-1 on=node1 addr=10.0.0.1 >true stamp=04 by=kubelet/node1",
			"0s pod-container web-1 on=node1 addr=10.0.0.1 >running stamp=03 by=kubelet/node1 (app)",
			"0s endpoint web-1 on=node1 addr=10.0.0.1 >ready port=8080",
			"0s node-ready node1 >true stamp=00",
			"0s node-schedulable node1 >true",
		)...)
		c.end()
	})
}

func TestDeletionOfAPodIsFollowedStepByStep(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), slice("web-a", endpointOf(pod(1), ready)))
		c.start()
		c.happened()

		time.Sleep(10 * time.Second)
		c.putPod(with(pod(1), deleted))
		c.expect("10s pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10")

		time.Sleep(20 * time.Millisecond)
		c.putSlice(slice("web-a", endpointOf(pod(1), terminatingServing)))
		c.expect("10.02s endpoint web-1 on=node1 addr=10.0.0.1 ready>terminating+serving port=8080")

		time.Sleep(time.Second)
		c.putPod(with(with(pod(1), deleted), unready))
		c.putSlice(slice("web-a", endpointOf(pod(1), terminating)))
		c.expect("11.02s pod-ready web-1 on=node1 addr=10.0.0.1 true>false stamp=11 by=kubelet/node1",
			"11.02s endpoint web-1 on=node1 addr=10.0.0.1 terminating+serving>terminating port=8080")

		time.Sleep(time.Second)
		c.putSlice(slice("web-a"))
		c.putPod(with(with(with(pod(1), deleted), unready), exited))
		c.deletePod("web-1")
		c.expect("12.02s endpoint web-1 on=node1 addr=10.0.0.1 terminating>absent port=8080",
			"12.02s pod-container web-1 on=node1 addr=10.0.0.1 running>terminated exit=137 stamp=12 by=kubelet/node1 (app Error)",
			"12.02s pod-gone web-1 on=node1 addr=10.0.0.1")
		c.end()
	})
}

func TestBrokenWatchIsTakenUpAndLeavesAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1))
		c.start()
		time.Sleep(5 * time.Second)
		c.putPod(with(pod(1), deleted)) // the last proof of a live watch
		c.happened()
		time.Sleep(2 * time.Second)
		c.refuse("watch pods", errors.New("connection refused"))
		c.lastWatch("pods").Stop()
		time.Sleep(1500 * time.Millisecond)
		c.putPod(with(with(pod(1), deleted), unready))
		c.expect()
		c.allow("watch pods")
		time.Sleep(time.Second)
		// Tried at 7, 7, 7.1, 7.3, 7.7, 8.5 and 9.5 s.
		c.expect("9.5s watch-gap since=5s [Pod] (the watch broke and was resumed: changes in between arrived late: watch pods: connection refused)",
			"9.5s pod-ready web-1 on=node1 addr=10.0.0.1 true>false stamp=11 by=kubelet/node1")
		if n := c.count("list pods"); n != 1 {
			t.Errorf("%d lists of Pods, want the first only", n)
		}
		c.end()
	})
}

func (c *cluster) count(call string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(slices.DeleteFunc(slices.Clone(c.calls), func(s string) bool { return s != call }))
}

func TestRelistReportsWhatWentMeanwhile(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1), pod(2), slice("web-a", endpointOf(pod(1), ready)), slice("web-b", endpointOf(pod(2), ready)))
		c.start()
		c.happened()
		time.Sleep(4 * time.Second)
		c.lastWatch("pods").Action(watch.Bookmark, pod(1))
		c.lastWatch("endpointslices").Action(watch.Bookmark, slice("web-a"))
		time.Sleep(time.Second)
		for _, resource := range []string{"pods", "endpointslices"} {
			c.refuse("list "+resource, errors.New("connection refused"))
			expired := apierrors.NewResourceExpired("too old").ErrStatus
			c.lastWatch(resource).Error(&expired)
		}
		synctest.Wait()
		// Pod 1 goes; 2 goes and another of the same name comes; the endpoints change slices.
		c.deletePod("web-1")
		c.deletePod("web-2")
		c.putPod(with(pod(2), func(p *corev1.Pod) {
			p.UID = "web-2-again"
			p.Status = corev1.PodStatus{Phase: corev1.PodPending}
			p.Spec.NodeName = ""
		}))
		c.putSlice(slice("web-a", endpointOf(pod(2), ready)))
		c.putSlice(slice("web-b", endpointOf(pod(1), terminating)))
		c.allow("list pods")
		c.allow("list endpointslices")
		time.Sleep(time.Second)
		lost := "(the watch could not be resumed: all objects were listed again, and changes in between may be missing: list %s: connection refused)"
		c.expect("5.1s watch-gap since=4s [Pod] "+fmt.Sprintf(lost, "pods"),
			"5.1s watch-gap since=4s [EndpointSlice] "+fmt.Sprintf(lost, "endpointslices.discovery.k8s.io"),
			"5.1s pod-gone web-1 on=node1 addr=10.0.0.1 (relist)",
			"5.1s pod-gone web-2 on=node1 addr=10.0.0.2 (relist)",
			"5.1s pod-seen web-2 uid=web-2-again >Pending stamp=01 (watched)",
			"5.1s endpoint web-1 on=node1 addr=10.0.0.1 ready>terminating port=8080")
		c.end()
	})
}

func TestStreamThatBreaksInTheMiddleIsTakenUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1))
		c.start()
		broken := apierrors.NewGenericServerResponse(http.StatusInternalServerError, "watch", schema.GroupResource{}, "", "connection lost", 0, true).ErrStatus
		c.lastWatch("pods").Error(&broken)
		time.Sleep(time.Second)
		if n := c.count("list pods"); n != 1 {
			t.Errorf("%d lists of Pods, want the first only", n)
		}
		if n := c.count("watch pods"); n != 2 {
			t.Errorf("%d watches of Pods, want 2", n)
		}
		c.end()
	})
}

func TestWithoutNodesOrEventsTheRestIsWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), node("node1"))
		c.refuse("list nodes", forbidden("nodes"))
		c.refuse("watch events", forbidden("events"))
		c.start()
		c.expect("0s watch-lane [EndpointSlice] >on", "0s watch-lane [Event] >on", "0s watch-lane [Pod] >on", "0s watch-lane [Service] >on",
			`0s watch-lane [Node] >off (no right to list nodes: nodes is forbidden: no role)`,
			`0s watch-lane [Event] >off (no right to watch events: events is forbidden: no role)`)
		time.Sleep(time.Second)
		c.putPod(pod(1))
		if got := c.happened(); len(got) != 4 {
			t.Errorf("%d events of a new Pod: %q", len(got), got)
		}
		if n := c.count("list nodes"); n != 1 {
			t.Errorf("nodes were asked for %d times", n)
		}
		c.end()
	})
}

// What was refused at first is asked for again, ever more seldom. What was missed until then is a gap.
func TestARightThatIsGrantedLaterIsUsed(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), node("node1"))
		c.refuse("list nodes", forbidden("nodes"))
		c.refuse("watch events", forbidden("events"))
		c.start()
		c.happened()
		time.Sleep(time.Hour)
		c.expect()
		if n := c.count("list nodes"); n != 11 {
			t.Errorf("nodes were asked for %d times", n)
		}
		c.allow("list nodes")
		c.allow("watch events")
		time.Sleep(10 * time.Minute)
		c.expect("1h0m30s watch-lane [Node] >on",
			"1h0m30s watch-gap [Node] (it was not watched, and changes in between are missing: no right to list nodes: nodes is forbidden: no role)",
			"1h0m30s node-ready node1 >true stamp=00", "1h0m30s node-schedulable node1 >true",
			"1h0m30s watch-lane [Event] >on",
			"1h0m30s watch-gap [Event] (the watch broke and was resumed: changes in between arrived late: no right to watch events: events is forbidden: no role)")
		c.end()
	})
}

func TestWithoutAnEssentialRightNothingIsWatched(t *testing.T) {
	for call, advice := range map[string]string{
		"list pods":            "kubectl auth can-i list pods -n shop",
		"watch pods":           "kubectl auth can-i watch pods -n shop",
		"list services":        "kubectl auth can-i list services -n shop",
		"watch endpointslices": "kubectl auth can-i watch endpointslices.discovery.k8s.io -n shop",
	} {
		bubble(t, func(t *testing.T) {
			c := newCluster(t, service(), pod(1))
			c.refuse(call, forbidden("x"))
			c.start()
			err := <-c.result
			if !strings.Contains(hint.Of(err), advice) {
				t.Errorf("without the right to %s: %v, and no hint at %q", call, err, advice)
			}
			off := slices.DeleteFunc(c.happened(), func(line string) bool {
				return !strings.Contains(line, "watch-lane") || !strings.Contains(line, ">off")
			})
			if len(off) != 5 {
				t.Errorf("without the right to %s these lanes are off: %q, want all", call, off)
			}
			c.stop()
		})
	}
}

// A right that is lost for a moment, as when the API server restarts, leaves a gap; for longer, its lane is off as well.
func TestRightLostLaterLeavesAGapAndNoEnd(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		time.Sleep(time.Second)
		c.refuse("watch services", forbidden("services"))
		c.lastWatch("services").Stop()
		time.Sleep(lostAfter - time.Second)
		c.expect()
		c.allow("watch services")
		time.Sleep(time.Second)
		const gap = "watch-gap [Service] (the watch broke and was resumed: changes in between arrived late: no right to watch services: services is forbidden: no role)"
		c.expect("10.5s " + gap)
		c.refuse("watch services", forbidden("services"))
		c.lastWatch("services").Stop()
		time.Sleep(time.Minute)
		c.expect("21s watch-lane [Service] >off (no right to watch services: services is forbidden: no role)")
		c.allow("watch services")
		time.Sleep(time.Second)
		c.expect("1m12s "+gap, "1m12s watch-lane [Service] >on")
		c.end()
	})
}

// What is not watched when a run ends is not known to have been without changes.
func TestAWatchThatIsBrokenAtTheEndLeavesAGap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		time.Sleep(time.Second)
		c.refuse("watch pods", errors.New("connection refused"))
		c.lastWatch("pods").Stop()
		time.Sleep(time.Second)
		c.end()
		c.expect("2s watch-gap [Pod] (the watch broke and was not resumed before the end: changes in between are missing: watch pods: connection refused)")
	})
}

func TestServerThatIsNotThereYetIsAwaited(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.refuse("list services", errors.New("connection refused"))
		c.start()
		time.Sleep(90 * time.Second)
		if n := c.count("list services"); n < 90 || n > 95 {
			t.Errorf("%d attempts in 90 s, want about one per second", n)
		}
		c.allow("list services")
		c.happened()
		time.Sleep(time.Second)
		if got := c.happened(); len(got) != 2 { // the Service's reflector, and then the Pods'
			t.Errorf("events: %q", got)
		}
		c.end()
	})
}

func TestPodsOfANewSelectorAreWatched(t *testing.T) {
	bubble(t, func(t *testing.T) {
		blue := func(p *corev1.Pod) { p.Labels["tier"] = "blue" }
		c := newCluster(t, service(), pod(1), with(pod(2), blue), with(pod(3), func(p *corev1.Pod) { p.Labels = map[string]string{"tier": "blue"} }))
		c.start()
		c.happened()
		time.Sleep(time.Second)
		old := c.lastWatch("pods")
		_, err := c.client.CoreV1().Services("shop").Update(t.Context(), with(service(), func(s *corev1.Service) { s.Spec.Selector = map[string]string{"tier": "blue"} }), metav1.UpdateOptions{})
		c.check(err)
		c.expect("1s service web app=web>tier=blue (selector: app=web → tier=blue)",
			"1s watch-lane [Pod] >on",
			"1s pod-gone web-1 on=node1 addr=10.0.0.1 (no longer selected)",
			"1s pod-seen web-3 on=node1 addr=10.0.0.3 >Running stamp=01 (listed)",
			"1s pod-scheduled web-3 on=node1 addr=10.0.0.3 >node1 stamp=02",
			"1s pod-ready web-3 on=node1 addr=10.0.0.3 >true stamp=04 by=kubelet/node1",
			"1s pod-container web-3 on=node1 addr=10.0.0.3 >running stamp=03 by=kubelet/node1 (app)")
		if !old.IsStopped() {
			t.Error("the old selector's Pods are still watched")
		}
		c.end()
	})
}

func TestServiceWithoutSelectorIsWatchedByItsEndpoints(t *testing.T) {
	bubble(t, func(t *testing.T) {
		byHand := slice("web-hand", discoveryv1.Endpoint{Addresses: []string{"192.0.2.7"}})
		c := newCluster(t, with(service(), func(s *corev1.Service) { s.Spec.Selector = nil }), pod(1), byHand)
		c.start()
		c.expect("0s watch-lane [EndpointSlice] >on", "0s watch-lane [Event] >on", "0s watch-lane [Node] >on", "0s watch-lane [Service] >on",
			"0s endpoint web-hand addr=192.0.2.7 >ready port=8080")
		c.end()
	})
}

func TestServiceThatGoesAndComesBackIsReported(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service())
		c.start()
		c.happened()
		c.check(c.client.CoreV1().Services("shop").Delete(t.Context(), "web", metav1.DeleteOptions{}))
		c.expect("0s service web present>absent (deleted)")
		_, err := c.client.CoreV1().Services("shop").Create(t.Context(), with(service(), func(s *corev1.Service) { s.UID = "again" }), metav1.CreateOptions{})
		c.check(err)
		c.expect("0s service web uid=again absent>present (created)")
		c.end()
	})
}

func event(name string, about types.UID, change func(*corev1.Event)) *corev1.Event {
	return with(&corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: "shop", Name: name, UID: types.UID(name)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: string(about), UID: about},
		Reason:         "Killing", Message: "Stopping container app", Count: 1, LastTimestamp: at(7),
		Source: corev1.EventSource{Component: "kubelet", Host: "node1"},
	}, change)
}

func nothing[T any](*T) {}

func TestEventsOfOurPodsAreToldFromOthers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c := newCluster(t, service(), pod(1))
		c.start()
		c.happened()
		put := func(e *corev1.Event) {
			t.Helper()
			_, err := c.client.CoreV1().Events("shop").Create(t.Context(), e, metav1.CreateOptions{})
			c.check(err)
		}
		time.Sleep(time.Second)
		put(event("web-1.a", "web-1", func(e *corev1.Event) { e.InvolvedObject.FieldPath = "spec.containers{app}" }))
		put(event("other.a", "other", nothing))
		put(event("rs.a", "rs", func(e *corev1.Event) { e.InvolvedObject.Kind = "ReplicaSet"; e.Reason = "SuccessfulCreate" }))
		put(event("web-2.a", "web-2", func(e *corev1.Event) { e.Reason = "Scheduled" })) // before its Pod is seen
		put(event("web.a", "web", func(e *corev1.Event) { e.InvolvedObject.Kind = "Service"; e.Reason = "Updated" }))
		c.expect("1s kube-event web-1 on=node1 >Killing stamp=07 by=kubelet/node1 in=app (Stopping container app)",
			"1s kube-event web on=node1 >Updated stamp=07 by=kubelet/node1 (Stopping container app)")
		time.Sleep(time.Second)
		c.putPod(with(pod(2), func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodPending}
			p.Spec.NodeName = ""
			p.OwnerReferences = []metav1.OwnerReference{{UID: "rs"}}
		}))
		c.expect("2s pod-seen web-2 >Pending stamp=01 (watched)",
			"1s kube-event rs on=node1 >SuccessfulCreate stamp=07 by=kubelet/node1 (Stopping container app)",
			"1s kube-event web-2 on=node1 >Scheduled stamp=07 by=kubelet/node1 (Stopping container app)")
		c.end()
	})
}

func TestInstantsAreRoundedOutwardToMicroseconds(t *testing.T) {
	var got timeline.Event
	w := &watcher{Config: Config{Sink: func(f timeline.Fact) { got = f.(timeline.Event) }}}
	w.emit(1500, 2500, timeline.Event{})
	if got.Seen != 2*time.Microsecond || got.Since != 2*time.Microsecond {
		t.Errorf("seen %v since %v, want 2µs and 2µs", got.Seen, got.Since)
	}
}
