package coordinator

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	ktesting "k8s.io/client-go/testing"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/prober"
	"lapse/internal/run/runtest"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A probersPod is a prober of a test, in this process, at an address of its own.
type probersPod struct {
	*prober.Session
	pod    *corev1.Pod
	server *http.Server
	ended  sync.WaitGroup
	close  func() // all that it measures

	mu      sync.Mutex
	calls   map[string]int // of its API, by path
	holding chan struct{}  // calls that set rates are not taken before it is closed; nil: they are
}

// count counts a call of the prober's API.
func (p *probersPod) count(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.calls[r.URL.Path]++
		holding := p.holding
		p.mu.Unlock()
		if holding != nil && r.URL.Path == "/v1/rates" {
			<-holding
		}
		api.ServeHTTP(w, r)
	})
}

// called returns how often a path of the prober's API was called.
func (p *probersPod) called(path string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[path]
}

// startProber starts a prober that listens on an address of the loopback network, as if its Pod ran on a node.
func startProber(t *testing.T, keys deploy.Keys, node, addr string) *probersPod {
	t.Helper()
	p := prober.New(terminal.NewLogger(io.Discard))
	session, err := p.BeginRun("lapse-x", t.TempDir())
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
	started := &probersPod{Session: session, close: sync.OnceFunc(p.Close), server: agent.NewProberServer(p.Find, config), calls: map[string]int{}, pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers-" + node, Namespace: "shop", UID: types.UID(node), Labels: map[string]string{deploy.RunLabel: "lapse-x", deploy.PartLabel: deploy.ProberPart}},
		Spec:       corev1.PodSpec{NodeName: node},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: addr},
	}}
	started.server.Handler = started.count(started.server.Handler)
	started.ended.Go(func() {
		if err := started.server.ServeTLS(ln, "", ""); !errors.Is(err, http.ErrServerClosed) {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		started.server.Close()
		started.ended.Wait()
		if started.End("", 0) == nil {
			runtest.WaitFor(t, "the prober's end", func() bool { return started.Status().Phase == timeline.PhaseEnded })
		}
		started.close()
	})
	return started
}

// fleetMeasurement returns a measurement of a URL from nodes. The API server has the Pods of their probers.
func fleetMeasurement(t *testing.T, keys deploy.Keys, url string, nodes []string, pods ...*corev1.Pod) *measurement {
	t.Helper()
	o := &spec.Options{Spec: spec.Spec{
		Targets: []string{url}, Rate: 200, Timeout: 5 * time.Second, Kinds: []string{"new"}, Baseline: 100 * time.Millisecond, Duration: time.Second,
		Connections: 1, Method: "GET", Scheme: "http", Pacing: "economical", Coverage: "99%", MaxDuration: time.Hour, Hold: time.Minute, Join: time.Second,
		Probers: nodes, ProberWait: runtest.Patience,
	}, ID: "lapse-x", Env: spec.Env{
		deploy.EnvTLSCA: string(keys.Coordinator.CA), deploy.EnvTLSCert: string(keys.Coordinator.Cert),
		deploy.EnvTLSKey: string(keys.Coordinator.Key), deploy.EnvNamespace: "shop",
	}}
	target, err := spec.ParseTarget(url)
	if err != nil {
		t.Fatal(err)
	}
	o.Parsed = []spec.Target{target}
	m, _ := idleMeasurement(t, o)
	var objects []runtime.Object
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	m.Client = kubetest.Client(fake.NewSimpleClientset(objects...))
	return m
}

// fromTwoNodes returns a measurement of a server from node1 and node2, whose probers listen at two addresses.
func fromTwoNodes(t *testing.T, at, other string) (*measurement, *faultserver.Server) {
	t.Helper()
	server := runtest.StartServer(t)
	t.Cleanup(func() { server.Close() })
	keys := newKeys(t)
	one, two := startProber(t, keys, "node1", at), startProber(t, keys, "node2", other)
	return fleetMeasurement(t, keys, server.URL(), []string{"node1", "node2"}, one.pod, two.pod), server
}

func newKeys(t *testing.T) deploy.Keys {
	t.Helper()
	keys, err := deploy.NewKeys(time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// outageSeenByTwo refuses connections once m measures, until two sources have seen it, and ends m when both have seen
// the end.
func outageSeenByTwo(m *measurement, server *faultserver.Server) {
	reopen := func() {}
	m.Entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			reopen = sync.OnceFunc(server.Refuse())
		}
	}
	failed, answered := map[timeline.SourceID]int{}, map[timeline.SourceID]int{}
	m.Live.Observers = append(m.Live.Observers, factObserver(func(f timeline.Fact) {
		b, ok := f.(timeline.Batch)
		for i := 0; ok && i < len(b.Requests); i++ {
			switch r := b.Requests[i]; {
			case m.Targets[r.Target].Kind != timeline.New:
			case r.Class.Failed():
				if failed[b.Source]++; len(failed) == 2 {
					reopen()
				}
			case len(failed) == 2:
				if answered[b.Source]++; len(answered) == 2 {
					m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
				}
			}
		}
	}))
}

// Each node's prober measures on its own clock, and all of it is one timeline: the same outage is a window of each,
// at the same time.
func TestProbersOfNodesMeasureOneRun(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	keys := newKeys(t)
	one, two := startProber(t, keys, "node1", "127.0.0.11"), startProber(t, keys, "node2", "127.0.0.12")
	unasked := startProber(t, keys, "node3", "127.0.0.18") // the DaemonSet is for all nodes, and this one has come later
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1", "node2"}, one.pod, two.pod, unasked.pod)
	m.opts.Duration = runtest.Patience
	outageSeenByTwo(m, server)
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
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
		case <-p.Acked():
		default:
			t.Errorf("the prober on %s was not told that its recording is safe", p.pod.Spec.NodeName)
		}
	}
}

// A run that waits measures from each node at the idle rate, and at the full rate from its first sign on. It begins
// before that on the probers' clocks, too.
func TestAnArmedRunMeasuresFromEachNode(t *testing.T) {
	layer.Real(t)
	m, server := fromTwoNodes(t, "127.0.0.25", "127.0.0.26")
	m.opts.Armed, m.opts.IdleRate, m.opts.Settle = true, 20, 2*time.Second
	m.opts.Timeout = time.Second
	m.arm(func() *live.Run { return live.New(nil) }, func(string) {})
	reopen := func() {}
	asked := map[timeline.SourceID]int{}
	refused := false
	m.Armed.Fact = func(f timeline.Fact) {
		b, ok := f.(timeline.Batch)
		if !ok || m.Phase != timeline.PhaseArmed && !refused {
			return
		}
		for i := range b.Requests {
			switch r := &b.Requests[i]; {
			case m.Targets[r.Target].Kind != timeline.New:
			case !refused:
				if asked[b.Source]++; len(asked) == 2 && asked[2] > 10 && asked[3] > 10 {
					refused, reopen = true, sync.OnceFunc(server.Refuse())
				}
			case r.Class.Failed():
				if asked[b.Source]++; asked[2] > 30 && asked[3] > 30 {
					reopen()
				}
			}
		}
	}
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Run.Aborted != "" {
		t.Fatalf("aborted: %s", tl.Run.Aborted)
	}
	for _, node := range []string{"node1", "node2"} {
		target := targetNamed(t, tl, "new from "+node)
		if target.Failed < 10 || target.OK == 0 {
			t.Errorf("%s: %d of %d failed", target.Name, target.Failed, target.Sent)
		}
		var rates []string
		for _, e := range tl.Events {
			if e.Kind == timeline.RateChanged && e.Object.Name == target.Name {
				rates = append(rates, e.From+" "+e.To)
			}
		}
		if want := []string{"10 100"}; !slices.Equal(rates, want) {
			t.Errorf("the rates of %s: %q, want %q", target.Name, rates, want)
		}
	}
	if len(tl.Windows) < 2 {
		t.Fatalf("%d windows, of two nodes", len(tl.Windows))
	}
	truth := tl.Windows[0].Span()
	for _, w := range tl.Windows {
		if !w.Span().Overlaps(truth) {
			t.Errorf("window %v of %s is not at the time of the first one, %v", w.Span(), w.Target, truth)
		}
		if w.Start.Earliest < time.Second/2 {
			t.Errorf("a window begins at %v: the run has not the time before", w.Start.Earliest)
		}
	}
}

// A factObserver gets the facts of a run.
type factObserver func(timeline.Fact)

func (o factObserver) Fact(f timeline.Fact)  { o(f) }
func (o factObserver) Wants() live.Detail    { return live.Seldom }
func (o factObserver) Judged(live.Judgement) {}
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

// Many nodes share a target's rate, so that each asks it seldom: the baseline lasts until all of them have asked.
func TestBaselineLastsUntilEachNodeHasAsked(t *testing.T) {
	layer.Real(t)
	m, _ := fromTwoNodes(t, "127.0.0.21", "127.0.0.22")
	m.opts.Rate, m.opts.Kinds = 1, []string{"new", "reused"} // each node asks for the first time within 2 s, and four baselines are 400 ms
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	if tl.Run.Aborted != "" {
		t.Errorf("aborted: %s", tl.Run.Aborted)
	}
	for _, target := range tl.Targets {
		if target.Kind.Judged() && target.OK == 0 {
			t.Errorf("%s was never asked", target.Name)
		}
	}
}

// It lasts no longer: a Service that answers nobody ends the run.
func TestBaselineEndsWhereNoNodeGetsAnAnswer(t *testing.T) {
	layer.Real(t)
	m, server := fromTwoNodes(t, "127.0.0.23", "127.0.0.24")
	defer server.Stall()()
	m.opts.Rate = 5
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	within := strings.Contains(tl.Run.Aborted, "gave no good answer within") && strings.Contains(tl.Run.Aborted, "--rate 5 shared by 2 nodes")
	failed := strings.Contains(tl.Run.Aborted, "baseline failed") // on a machine so slow that both were asked, and had no answer, by then
	if !within && !failed {
		t.Errorf("aborted: %q", tl.Run.Aborted)
	}
}

// A node whose prober does not start is named, with the reason, and the run goes on with the others.
func TestRunBeginsWithoutAProberThatDoesNotStart(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
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
	m.opts.ProberWait = 8 * time.Second
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
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

// A quota leaves room for the prober of one node: the other is named with the quota, and the run goes on without it.
func TestRunBeginsWithoutAProberThatAQuotaRefuses(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.19")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1", "node2"})
	m.Client = kubetest.Client(fake.NewSimpleClientset(one.pod, &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "shop"}, Reason: "FailedCreate",
		InvolvedObject: corev1.ObjectReference{Kind: "DaemonSet", Name: "lapse-x-probers"},
		Message:        `Error creating: pods "lapse-x-probers-" is forbidden: exceeded quota: small, requested: cpu=300m, used: cpu=900m, limited: cpu=1`,
	}))
	m.opts.ProberWait = 8 * time.Second
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	want := "its Pod cannot be created: Error creating: "
	if i := slices.IndexFunc(tl.Events, func(e model.Event) bool { return e.Kind == timeline.ProberChanged && e.To == "missing" }); i < 0 ||
		tl.Events[i].Object.Name != "node2" || !strings.HasPrefix(tl.Events[i].Detail, want) || !strings.Contains(tl.Events[i].Detail, "the quota small leaves no room") {
		t.Errorf("no event says that node2's prober met a quota: %+v", tl.Events)
	}
	if target := targetNamed(t, tl, "new from node1"); target.OK == 0 {
		t.Errorf("nothing was measured from node1: %+v", target)
	}
}

// A run that somebody has applied has no workstation: its coordinator makes the keys, hands the prober's to the
// Secret that this waits for, and ends the probers when it has all that they measured.
func TestAppliedRunMakesItsKeysAndDismissesItsProbers(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	m := fleetMeasurement(t, deploy.Keys{}, server.URL(), []string{"node1"})
	m.opts.Env[deploy.EnvKeys], m.opts.Env[deploy.EnvPod] = "lapse-x-keys", "lapse-x-abcde"
	set := fake.NewSimpleClientset(
		&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-abcde", Namespace: "shop"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-keys", Namespace: "shop"}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers", Namespace: "shop"}},
	)
	m.Client = kubetest.Client(set)
	set.PrependReactor("patch", "secrets", func(action ktesting.Action) (bool, runtime.Object, error) { // as the kubelet, which has waited for it
		var patched struct{ Data map[string][]byte }
		if err := json.Unmarshal(action.(ktesting.PatchAction).GetPatch(), &patched); err != nil {
			t.Fatal(err)
		}
		pair := agent.KeyPair{CA: patched.Data["ca.crt"], Cert: patched.Data["prober.crt"], Key: patched.Data["prober.key"]}
		one := startProber(t, deploy.Keys{Prober: pair}, "node1", "127.0.0.20")
		return false, nil, set.Tracker().Add(one.pod)
	})
	tl, err := m.run(t.Context(), nil)
	m.dismissProbers()
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	if target := targetNamed(t, tl, "new from node1"); target.OK == 0 {
		t.Errorf("nothing was measured from node1: %+v, aborted %q", target, tl.Run.Aborted)
	}
	if sets, err := set.AppsV1().DaemonSets("shop").List(t.Context(), metav1.ListOptions{}); err != nil || len(sets.Items) > 0 {
		t.Errorf("%d DaemonSets are left, %v", len(sets.Items), err)
	}
}

// The agent of a run that somebody has applied finds out which nodes are meant, and refuses what names none before it
// measures.
func TestAppliedRunFindsItsNodes(t *testing.T) {
	node := func(name string) *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}} }
	m := fleetMeasurement(t, newKeys(t), "http://127.0.0.1:1", nil)
	defer m.Live.End(nil)
	m.Client = kubetest.Client(fake.NewSimpleClientset(node("node2"), node("node1")))
	for from, want := range map[string]string{"all": "node1 node2", "node2": "node2"} {
		m.opts.From = from
		if err := m.Find(t.Context()); err != nil || strings.Join(m.opts.Probers, " ") != want {
			t.Errorf("--from %s: %q, %v", from, m.opts.Probers, err)
		}
	}
	m.opts.From = "node1,node9"
	if err := m.Find(t.Context()); err == nil || !strings.Contains(err.Error(), `there is no node "node9"`) {
		t.Errorf("--from node1,node9: %v", err)
	}
}

// A run whose workstation is there leaves the DaemonSet to it.
func TestAttendedRunDismissesNobody(t *testing.T) {
	m := fleetMeasurement(t, newKeys(t), "http://127.0.0.1:1", []string{"node1"})
	set := fake.NewSimpleClientset(&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers", Namespace: "shop"}})
	m.Client = kubetest.Client(set)
	m.dismissProbers()
	m.Live.End(nil)
	if sets, err := set.AppsV1().DaemonSets("shop").List(t.Context(), metav1.ListOptions{}); err != nil || len(sets.Items) != 1 {
		t.Errorf("%d DaemonSets, %v", len(sets.Items), err)
	}
}

// A prober that runs and cannot be reached is named with its address.
func TestProberOutOfReachIsNamed(t *testing.T) {
	layer.Real(t)
	keys := newKeys(t)
	silent := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "lapse-x-probers-1", Namespace: "shop", UID: "1", Labels: map[string]string{deploy.RunLabel: "lapse-x", deploy.PartLabel: deploy.ProberPart}},
		Spec:       corev1.PodSpec{NodeName: "node1"},
		Status:     corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.16"}, // nobody listens there
	}
	m := fleetMeasurement(t, keys, "http://127.0.0.1:1", []string{"node1"}, silent)
	m.opts.ProberWait = 5 * time.Second
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
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
	m.Live.End(tl)
	if err != nil {
		t.Fatal(err)
	}
	if want := "no prober measured within 10 ms (--wait): node1: its Pod was not created yet"; tl.Run.Aborted != want {
		t.Errorf("aborted: %q, not %q", tl.Run.Aborted, want)
	}
}

// A prober that was restarted has another clock, and nothing of what it had not handed over: it is a source of its
// own.
func TestRestartedProberIsAnotherSource(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.14")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1"}, one.pod)
	m.opts.Duration = runtest.Patience
	var restarted sync.WaitGroup
	m.Entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			restarted.Go(func() {
				one.server.Close()
				one.ended.Wait()
				startProber(t, keys, "node1", "127.0.0.14")
			})
		}
	}
	m.Live.Observers = append(m.Live.Observers, factObserver(func(f timeline.Fact) {
		if b, ok := f.(timeline.Batch); ok && len(b.Requests) > 0 && strings.HasSuffix(m.Targets[b.Requests[0].Target].Name, "(prober 2)") {
			m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
		}
	}))
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
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

// A Pod whose process has ended is asked again, in case the process is started again, until the Pod is gone. It is
// lost once.
func TestProberIsLostOnce(t *testing.T) {
	layer.Real(t)
	server := runtest.StartServer(t)
	defer server.Close()
	keys := newKeys(t)
	one := startProber(t, keys, "node1", "127.0.0.17")
	m := fleetMeasurement(t, keys, server.URL(), []string{"node1"}, one.pod)
	m.opts.Duration = runtest.Patience
	var lost []string
	var gone sync.WaitGroup
	m.Live.Observers = append(m.Live.Observers, factObserver(func(f timeline.Fact) {
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
			runtest.WaitFor(t, "the Pod is asked again", func() bool { return strings.Contains(m.fleet.missing()["node1"], "does not answer") })
			if err := m.Client.Pods("shop").Delete(t.Context(), one.pod.Name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
			runtest.WaitFor(t, "the prober's Pod is known to be gone", func() bool { return strings.Contains(m.fleet.missing()["node1"], "its Pod was deleted") })
			m.Request(measure.PhaseRequest{Phase: timeline.PhaseSettling, Reason: ""})
		})
	}))
	m.Entered = func(phase timeline.Phase, _ string) {
		if phase == timeline.PhaseMeasuring {
			if err := one.End("", 0); err != nil {
				t.Error(err)
			}
		}
	}
	tl, err := m.run(t.Context(), nil)
	m.Live.End(tl)
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
