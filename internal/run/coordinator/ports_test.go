package coordinator

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/correlate/model"
	"lapse/internal/kube/kubetest"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// A portsRun is a run of Service shop/web: watched on a fake API in virtual time, and with the targets that came of
// that. They are not asked; what they answered is made up by the test.
type portsRun struct {
	*measurement
	t       *testing.T
	api     *fake.Clientset
	stop    context.CancelFunc
	watched sync.WaitGroup
}

func watchPorts(t *testing.T, ports map[string]int32, families ...string) *portsRun {
	t.Helper()
	o := &spec.Options{Here: true, Spec: spec.Spec{
		Rate: 100, DirectRate: 100, Timeout: 400 * time.Millisecond, Kinds: []string{"new"}, Connections: 1, Scheme: "http", Method: "GET",
	}}
	m, _ := idleMeasurement(t, o)
	r := &portsRun{measurement: m, t: t, api: fake.NewSimpleClientset()}
	for _, port := range slices.Sorted(maps.Keys(ports)) {
		s := spec.Target{Service: "web", Path: "/"}
		if len(ports) > 1 {
			s.Port = port
		}
		o.Parsed = append(o.Parsed, s)
		info := watcher.Info{Service: timeline.Service{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.9"}, Port: 80, PortName: port}
		m.Services = append(m.Services, spec.Service{Target: s, Info: info, Measured: true})
	}
	web := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "web"}, Spec: corev1.ServiceSpec{Selector: map[string]string{"app": "web"}}}
	_, err := r.api.CoreV1().Services("shop").Create(t.Context(), web, metav1.CreateOptions{})
	r.check(err)
	for n := range 2 {
		_, err := r.api.CoreV1().Pods("shop").Create(t.Context(), webPod(n), metav1.CreateOptions{})
		r.check(err)
	}
	for _, family := range families {
		_, err := r.api.DiscoveryV1().EndpointSlices("shop").Create(t.Context(), webSlice(family, ports, true), metav1.CreateOptions{})
		r.check(err)
	}
	m.Client = kubetest.Client(r.api)
	m.Prober = source.New(source.Config{Clock: m.Clock, Sink: m.Queue.Put})
	m.Targets = map[timeline.TargetID]timeline.Target{}
	m.Add(m.meta())
	r.check(m.startTargets())
	ctx, stop := context.WithCancel(t.Context())
	r.stop = stop
	r.watched.Go(func() { m.watch(ctx) })
	synctest.Wait()
	m.Absorb()
	return r
}

func (r *portsRun) check(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

func podUID(n int) types.UID { return types.UID(fmt.Sprint("uid-", n)) }

func webPod(n int) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: fmt.Sprint("web-", n), UID: podUID(n), Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{NodeName: "node1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: fmt.Sprint("10.0.0.", n), Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}},
	}
}

// webSlice has both Pods' addresses of a family, "10.0.0." or "fd00::", the first one's ready or terminating.
func webSlice(family string, ports map[string]int32, ready bool) *discoveryv1.EndpointSlice {
	slice := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-" + family, UID: types.UID(family), Labels: map[string]string{discoveryv1.LabelServiceName: "web"}}}
	for _, name := range slices.Sorted(maps.Keys(ports)) {
		slice.Ports = append(slice.Ports, discoveryv1.EndpointPort{Name: &name, Port: new(ports[name])})
	}
	for n := range 2 {
		e := discoveryv1.Endpoint{Addresses: []string{fmt.Sprint(family, n)}, TargetRef: &corev1.ObjectReference{Kind: "Pod", Namespace: "shop", Name: fmt.Sprint("web-", n), UID: podUID(n)}}
		if n == 0 && !ready {
			e.Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		}
		slice.Endpoints = append(slice.Endpoints, e)
	}
	return slice
}

// endWeb0 makes the API tell that web-0 is to end.
func (r *portsRun) endWeb0(ports map[string]int32, families ...string) {
	r.t.Helper()
	pod := webPod(0)
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = new(metav1.NewTime(time.Now().Add(30*time.Second))), new(int64(30))
	_, err := r.api.CoreV1().Pods("shop").Update(r.t.Context(), pod, metav1.UpdateOptions{})
	r.check(err)
	for _, family := range families {
		_, err := r.api.DiscoveryV1().EndpointSlices("shop").Update(r.t.Context(), webSlice(family, ports, false), metav1.UpdateOptions{})
		r.check(err)
	}
	synctest.Wait()
	r.Absorb()
}

// judge ends the run, in which every target was asked each 10 ms and failed where the test says so.
func (r *portsRun) judge(failed func(target string, at time.Duration) bool) *model.Timeline {
	r.t.Helper()
	end := r.Clock.Now()
	r.stop()
	r.watched.Wait()
	r.Absorb()
	for id, target := range r.Targets {
		var batch timeline.Batch
		for at := time.Duration(0); at < end; at += 10 * time.Millisecond {
			request := timeline.Request{Target: id, Seq: uint64(at / (10 * time.Millisecond)), Due: at, Sent: at, Done: at + time.Millisecond}
			if failed(target.Name, at) {
				request.Class = timeline.Refused
			}
			batch.Requests = append(batch.Requests, request)
		}
		batch.Watermarks = []timeline.Watermark{{Target: id, Due: end}}
		r.Add(batch)
	}
	r.Add(timeline.Event{Seen: end, Kind: timeline.RunPhase, To: string(timeline.PhaseEnded)})
	r.Live.End(nil)
	return r.Live.Timeline()
}

func namesOf(targets map[timeline.TargetID]timeline.Target) []string {
	var all []string
	for _, t := range targets {
		all = append(all, t.Name)
	}
	slices.Sort(all)
	return all
}

// checkOnce checks that no event of the cluster was recorded twice.
func checkOnce(t *testing.T, tl *model.Timeline) {
	t.Helper()
	type fact struct {
		seen                   time.Duration
		kind, from, to, detail string
		object                 timeline.Object
		addr                   netip.Addr
		port                   uint16
	}
	met := map[fact]bool{}
	for _, e := range tl.Events {
		f := fact{e.Seen, string(e.Kind), e.From, e.To, e.Detail, e.Object, e.Addr, e.Port}
		if met[f] {
			t.Errorf("recorded twice: %+v", f)
		}
		met[f] = true
	}
}

// The Pod's server goes on serving while its metrics end. Each port is judged by what the Pod answered there.
func TestTwoPortsOfAServiceAreJudgedByTheirOwnProbes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ports := map[string]int32{"http": 8080, "metrics": 9090}
		r := watchPorts(t, ports, "10.0.0.")
		want := []string{
			"web:http direct web-0", "web:http direct web-1", "web:http new",
			"web:metrics direct web-0", "web:metrics direct web-1", "web:metrics new",
		}
		if diff := cmp.Diff(want, namesOf(r.Targets)); diff != "" {
			t.Errorf("targets (-want +got):\n%s", diff)
		}
		time.Sleep(10 * time.Second)
		r.endWeb0(ports, "10.0.0.")
		time.Sleep(6 * time.Second)
		tl := r.judge(func(target string, at time.Duration) bool {
			switch target {
			case "web:metrics direct web-0":
				return at >= 10020*time.Millisecond
			case "web:metrics new":
				return at >= 10020*time.Millisecond && at < 10400*time.Millisecond && at/(10*time.Millisecond)%2 == 0
			}
			return false
		})
		checkOnce(t, tl)
		if len(tl.Run.Services) != 1 || !slices.Equal(tl.Run.Services[0].Measured, []string{"http", "metrics"}) {
			t.Errorf("services %+v, want one with both ports", tl.Run.Services)
		}
		if len(tl.Windows) != 1 || tl.Windows[0].Target != "web:metrics new" {
			t.Fatalf("windows %+v, want one of web:metrics new", tl.Windows)
		}
		checkRace(t, tl.Windows[0], "web:metrics direct web-0")
	})
}

// Two Pods are two endpoints, also where each has an address of either family: half of the requests is one Pod's
// share.
func TestPodsOfADualStackCountOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ports := map[string]int32{"http": 8080}
		r := watchPorts(t, ports, "10.0.0.", "fd00::")
		byAddr := map[netip.AddrPort]string{}
		for _, target := range r.Targets {
			if target.Kind == timeline.Direct {
				byAddr[target.Addr] = target.Pod
			}
		}
		want := map[netip.AddrPort]string{}
		for n, pod := range []string{"shop/web-0", "shop/web-1"} {
			for _, family := range []string{"10.0.0.", "fd00::"} {
				want[netip.AddrPortFrom(netip.MustParseAddr(fmt.Sprint(family, n)), 8080)] = pod
			}
		}
		if !maps.Equal(byAddr, want) || len(slices.Compact(namesOf(r.Targets))) != 5 {
			t.Errorf("direct targets %v named %q, want %v, each with a name of its own", byAddr, namesOf(r.Targets), want)
		}
		time.Sleep(10 * time.Second)
		r.endWeb0(ports, "10.0.0.", "fd00::")
		time.Sleep(6 * time.Second)
		stopped := map[string]bool{}
		for _, target := range r.Targets {
			stopped[target.Name] = target.PodUID == string(podUID(0))
		}
		tl := r.judge(func(target string, at time.Duration) bool {
			if target == "web new" {
				return at >= 10020*time.Millisecond && at < 11000*time.Millisecond && at/(10*time.Millisecond)%2 == 0
			}
			return stopped[target] && at >= 10020*time.Millisecond
		})
		checkOnce(t, tl)
		if len(tl.Windows) != 1 {
			t.Fatalf("windows %+v, want one", tl.Windows)
		}
		checkRace(t, tl.Windows[0], "web direct web-0")
		if len(tl.Pods) != 2 {
			t.Errorf("%d Pods, want 2", len(tl.Pods))
		}
	})
}

// checkRace checks that a window is explained, at high confidence, by the Pod that this direct target probed.
func checkRace(t *testing.T, w model.Window, direct string) {
	t.Helper()
	c := w.Causes[0]
	if c.Rule != "route-outlives-pod" || c.Confidence != model.High || !slices.ContainsFunc(c.Evidence, func(e model.Evidence) bool { return e.Target == direct }) {
		t.Errorf("cause %+v, want route-outlives-pod [high] by %q", c, direct)
	}
}

// A target that could not be started was never measured: nothing is said of it, and its Pod is not tried again at
// each event.
func TestTargetThatCannotBeStartedIsNotRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ports := map[string]int32{"http": 8080}
		r := watchPorts(t, ports, "10.0.0.")
		before := len(r.Targets)
		if err := r.StartTarget(loadgen.Probe{Target: timeline.Target{Name: "web broken", Kind: timeline.New, URL: "http://10.96.0.9/", Rate: -1}}); err == nil {
			t.Fatal("a rate of -1 was taken")
		}
		r.plans[0].Order[0].Refused = true
		r.Prober.Stop(r.plans[0].Order[0].Target)
		time.Sleep(time.Second)
		r.endWeb0(ports, "10.0.0.")
		tl := r.judge(func(string, time.Duration) bool { return false })
		if len(r.Targets) != before || len(tl.Targets) != before {
			t.Errorf("targets %q, want no more than the %d that were started", namesOf(r.Targets), before)
		}
		for _, e := range tl.Events {
			if e.Kind == timeline.TargetChanged && e.Object.Name == "web broken" {
				t.Errorf("%+v of a target that was not started", e)
			}
		}
	})
}
