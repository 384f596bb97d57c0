package run

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/kube/kubetest"
	"lapse/timeline"
)

// A probersPod is a prober of a test, in this process, at an address of its own.
type probersPod struct {
	*prober
	pod    *corev1.Pod
	server *http.Server
	ended  sync.WaitGroup
}

// startProber starts a prober that listens on an address of the loopback network, as if its Pod ran on a node.
func startProber(t *testing.T, keys deploy.Keys, node, addr string) *probersPod {
	t.Helper()
	p, err := newProber(t.TempDir(), NewLogger(io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	config, err := keys.Prober.Server()
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(addr, strconv.Itoa(agent.ProberPort)))
	if err != nil {
		t.Fatal(err)
	}
	started := &probersPod{prober: p, server: agent.NewProberServer(p, config), pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers-" + node, Namespace: "shop", UID: types.UID(node), Labels: map[string]string{deploy.RunLabel: "lapse-x", deploy.PartLabel: deploy.ProberPart}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr},
	}}
	started.ended.Go(func() {
		if err := started.server.ServeTLS(ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		started.server.Close()
		started.ended.Wait()
		if started.End("") == nil {
			<-started.over
		}
	})
	return started
}

// fleetMeasurement is a measurement of a URL from nodes, whose Pods are known to the API server.
func fleetMeasurement(t *testing.T, keys deploy.Keys, url string, nodes []string, pods ...*corev1.Pod) *measurement {
	t.Helper()
	t.Setenv(deploy.EnvTLSCA, string(keys.Coordinator.CA))
	t.Setenv(deploy.EnvTLSCert, string(keys.Coordinator.Cert))
	t.Setenv(deploy.EnvTLSKey, string(keys.Coordinator.Key))
	t.Setenv(deploy.EnvNamespace, "shop")
	o := &Options{Spec: Spec{
		Targets: []string{url}, Rate: 200, Timeout: 5 * time.Second, Kinds: []string{"new"}, Baseline: 100 * time.Millisecond, Duration: time.Second,
		Connections: 1, Method: "GET", Scheme: "http", Pacing: "economical", Coverage: "99%", MaxDuration: time.Hour, Hold: time.Minute, Join: time.Second,
		Probers: nodes, ProberWait: patience,
	}, ID: "lapse-x"}
	target, err := ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	o.targets = []targetSpec{target}
	m, _ := idleMeasurement(t, o)
	var objects []runtime.Object
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	m.client = kubetest.Client(fake.NewSimpleClientset(objects...))
	return m
}

func newKeys(t *testing.T) deploy.Keys {
	t.Helper()
	keys, err := deploy.NewKeys(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// Each node's prober measures on its own clock, and all of it is one timeline: the same outage is a window of each, at the same time.
func TestProbersOfNodesMeasureOneRun(t *testing.T) {
	server := startServer(t)
	defer server.Close()
	keys := newKeys(t)
	one, two := startProber(t, keys, "node1", "127.0.0.11"), startProber(t, keys, "node2", "127.0.0.12")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1", "node2"}, one.pod, two.pod)
	m.opts.Duration = patience
	reopen := func() {}
	m.entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			reopen = sync.OnceFunc(server.Refuse())
		}
	}
	failed, answered := map[timeline.SourceID]int{}, map[timeline.SourceID]int{}
	m.live.observers = append(m.live.observers, factObserver(func(f timeline.Fact) { // the outage lasts until both have seen it, and the run until both have seen its end
		b, ok := f.(timeline.Batch)
		for i := 0; ok && i < len(b.Requests); i++ {
			switch r := b.Requests[i]; {
			case m.targets[r.Target].Kind != timeline.New:
			case r.Class.Failed():
				if failed[b.Source]++; len(failed) == 2 {
					reopen()
				}
			case len(failed) == 2:
				if answered[b.Source]++; len(answered) == 2 {
					m.request(phaseRequest{timeline.PhaseSettling, ""})
				}
			}
		}
	}))
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Run.Aborted != "" {
		t.Fatalf("aborted: %s", tl.Run.Aborted)
	}
	if len(tl.Sources) != 3 {
		t.Fatalf("%d sources, not the coordinator and two probers: %+v", len(tl.Sources), tl.Sources)
	}
	for _, node := range []string{"node1", "node2"} {
		target := targetNamed(t, tl, "new from "+node)
		if target.Rate != 100 || target.Failed == 0 {
			t.Errorf("%s: %v requests/s, %d of %d failed", target.Name, target.Rate, target.Failed, target.Sent)
		}
		if control := targetNamed(t, tl, "control from "+node); control.Sent == 0 {
			t.Errorf("the prober on %s has no control target", node)
		}
	}
	for _, w := range tl.Windows {
		truth := model.Instant{Earliest: w.Start.Earliest, Latest: w.End.Latest}
		for _, other := range tl.Windows {
			if !other.Span().Overlaps(truth) {
				t.Errorf("windows %v of %s and %v of %s are the same outage", w.Span(), w.Target, other.Span(), other.Target)
			}
		}
	}
	for _, p := range []*probersPod{one, two} {
		select {
		case <-p.acked:
		default:
			t.Errorf("the prober on %s was not told that its recording is safe", p.pod.Spec.NodeName)
		}
	}
}

// A factObserver gets the facts of a run.
type factObserver func(timeline.Fact)

func (o factObserver) Fact(f timeline.Fact)  { o(f) }
func (o factObserver) Wants() Detail         { return Seldom }
func (o factObserver) Judged(Judgement)      {}
func (o factObserver) Close(*model.Timeline) {}

func targetNamed(t *testing.T, tl *model.Timeline, name string) model.Target {
	t.Helper()
	var names []string
	for _, target := range tl.Targets {
		if target.Name == name {
			return target
		}
		names = append(names, target.Name)
	}
	t.Fatalf("no target %q among %q", name, names)
	return model.Target{}
}

// A node whose prober does not start is named, with the reason, and the run goes on with the others.
func TestRunBeginsWithoutAProberThatDoesNotStart(t *testing.T) {
	server := startServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.13")
	two := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers-2", Namespace: "shop", UID: "2", Labels: one.pod.Labels},
		Spec:       corev1.PodSpec{NodeName: "node2"},
		Status: corev1.PodStatus{Phase: corev1.PodPending, ContainerStatuses: []corev1.ContainerStatus{{
			Name: deploy.ContainerName, Image: "lapse:no", State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ErrImagePull", Message: "not found"}},
		}}},
	}
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1", "node2"}, one.pod, two)
	m.opts.ProberWait = 4 * time.Second
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	if err != nil {
		t.Fatal(err)
	}
	var missing []string
	for _, e := range tl.Events {
		if e.Kind == timeline.ProberChanged && e.To == "missing" {
			missing = append(missing, e.Object.Name+": "+e.Detail)
		}
	}
	if len(missing) != 1 || !strings.HasPrefix(missing[0], "node2: ") || !strings.Contains(missing[0], "ErrImagePull") {
		t.Errorf("missing: %q", missing)
	}
	if target := targetNamed(t, tl, "new from node1"); target.OK == 0 {
		t.Errorf("nothing was measured from node1: %+v", target)
	}
}

// A prober that runs and cannot be reached is named with its address.
func TestProberOutOfReachIsNamed(t *testing.T) {
	keys := newKeys(t)
	silent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers-1", Namespace: "shop", UID: "1", Labels: map[string]string{deploy.RunLabel: "lapse-x", deploy.PartLabel: deploy.ProberPart}},
		Spec:       corev1.PodSpec{NodeName: "node1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.16"}, // nobody listens there
	}
	m := fleetMeasurement(t, keys, "http://127.0.0.1:1", []string{"node1"}, silent)
	m.opts.ProberWait = 2 * time.Second
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	if err != nil {
		t.Fatal(err)
	}
	if want := "does not answer at 127.0.0.16:8090"; !strings.Contains(tl.Run.Aborted, want) {
		t.Errorf("aborted: %q, want %q", tl.Run.Aborted, want)
	}
}

// A run that can be measured from nowhere does not begin.
func TestRunWithoutAnyProberDoesNotBegin(t *testing.T) {
	m := fleetMeasurement(t, newKeys(t), "http://127.0.0.1:1", []string{"node1"})
	m.opts.ProberWait = 10 * time.Millisecond
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	if err != nil {
		t.Fatal(err)
	}
	if want := "no prober measured within --wait 10ms: node1: its Pod was not created yet"; tl.Run.Aborted != want {
		t.Errorf("aborted: %q, not %q", tl.Run.Aborted, want)
	}
}

// A prober that was restarted has another clock, and nothing of what it had not handed over: it is a source of its own.
func TestRestartedProberIsAnotherSource(t *testing.T) {
	server := startServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.14")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1"}, one.pod)
	m.opts.Duration = patience
	var restarted sync.WaitGroup
	m.entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			restarted.Go(func() {
				one.server.Close()
				one.ended.Wait()
				startProber(t, keys, "node1", "127.0.0.14")
			})
		}
	}
	m.live.observers = append(m.live.observers, factObserver(func(f timeline.Fact) {
		if b, ok := f.(timeline.Batch); ok && len(b.Requests) > 0 && strings.HasSuffix(m.targets[b.Requests[0].Target].Name, "(prober 2)") {
			m.request(phaseRequest{timeline.PhaseSettling, ""})
		}
	}))
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	restarted.Wait()
	if err != nil {
		t.Fatal(err)
	}
	targetNamed(t, tl, "new from node1 (prober 2)")
	var lost []string
	for _, e := range tl.Events {
		if e.Kind == timeline.ProberChanged && e.To == "lost" {
			lost = append(lost, e.Detail)
		}
	}
	if len(lost) != 1 || !strings.Contains(lost[0], "another process") {
		t.Errorf("lost: %q", lost)
	}
}

// A Pod whose process has ended is asked again, in case the process is started anew, until the Pod is gone. It is lost once.
func TestProberIsLostOnce(t *testing.T) {
	server := startServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.17")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1"}, one.pod)
	m.opts.Duration = patience
	var lost []string
	var gone sync.WaitGroup
	m.live.observers = append(m.live.observers, factObserver(func(f timeline.Fact) {
		e, ok := f.(timeline.Event)
		if !ok || e.Kind != timeline.ProberChanged || e.To != "lost" {
			return
		}
		if lost = append(lost, e.Detail); len(lost) > 1 {
			return
		}
		gone.Go(func() {
			one.server.Close()
			one.ended.Wait()
			waitFor(t, "the Pod is asked again", func() bool { return strings.Contains(m.fleet.missing()["node1"], "does not answer") })
			if err := m.client.Pods("shop").Delete(t.Context(), one.pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			waitFor(t, "the prober's Pod is known to be gone", func() bool { return strings.Contains(m.fleet.missing()["node1"], "its Pod was deleted") })
			m.request(phaseRequest{timeline.PhaseSettling, ""})
		})
	}))
	m.entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			if err := one.End(""); err != nil {
				t.Error(err)
			}
		}
	}
	tl, err := m.run(t.Context(), nil)
	m.live.end(tl)
	gone.Wait()
	if err != nil {
		t.Fatal(err)
	}
	if len(lost) != 1 {
		t.Errorf("lost: %q", lost)
	}
	for _, target := range tl.Targets {
		if target.Kind == timeline.Control && target.Failed > 0 {
			t.Errorf("%s: %d requests to the prober's own server failed", target.Name, target.Failed)
		}
	}
}

// A prober answers to its run's coordinator alone.
func TestProberAnswersToItsCoordinatorAlone(t *testing.T) {
	keys, others := newKeys(t), newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.15")
	at, _ := proberAddress(one.pod)
	for name, pair := range map[string]agent.KeyPair{"another run's coordinator": {CA: keys.Coordinator.CA, Cert: others.Coordinator.Cert, Key: others.Coordinator.Key}, "a prober of this run": keys.Prober} {
		config, err := pair.Client()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := get(config.Clone(), at); err == nil {
			t.Errorf("it answers to %s", name)
		}
	}
	config, err := keys.Coordinator.Client()
	if err != nil {
		t.Fatal(err)
	}
	if code, err := get(config, at); err != nil || code != http.StatusOK {
		t.Errorf("it answers %d, %v to its coordinator", code, err)
	}
}

// get asks a prober for its status, once.
func get(config *tls.Config, at netip.AddrPort) (code int, err error) {
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: config}}
	defer client.CloseIdleConnections()
	response, err := client.Get("https://" + at.String() + "/v1/status")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	return response.StatusCode, nil
}
