package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/runtest"
	"lapse/internal/run/spec"
	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

// A guarded server is measured again and again.
type guarded struct {
	*faultserver.Server
	stop  func()
	ended chan error
	runs  chan *model.Timeline
	arm   Arm // once it waits

	mu     sync.Mutex
	state  Standby
	names  map[timeline.TargetID]string
	rate   float64           // of all assigned targets together, when they were assigned
	rates  map[string]string // as they were changed last, by target
	asked  map[string]int    // requests by target
	failed map[string]int
}

// guardServer begins to guard a server.
func guardServer(t *testing.T, many *Many) *guarded {
	t.Helper()
	g := &guarded{
		Server: runtest.StartServer(t), ended: make(chan error, 1), runs: make(chan *model.Timeline, 10),
		names: map[timeline.TargetID]string{}, rates: map[string]string{}, asked: map[string]int{}, failed: map[string]int{},
	}
	t.Cleanup(func() { g.Close() })
	o := &spec.Options{Spec: spec.Spec{
		Targets: []string{g.URL()}, Rate: 90, IdleRate: 30, Armed: true, Timeout: time.Second, Kinds: []string{"new"}, Baseline: 100 * time.Millisecond,
		Settle: time.Second, Connections: 1, Method: "GET", Scheme: "http", Pacing: "economical", Coverage: "99%", Join: time.Second, MaxDuration: time.Hour, Hold: time.Minute,
	}, ID: "lapse-guard", Env: spec.Env{}}
	target, err := spec.ParseTarget(g.URL())
	if err != nil {
		t.Fatal(err)
	}
	o.Parsed = []spec.Target{target}
	keeper := Keeper{
		Begin:  func(*timeline.Meta) *live.Recording { return nil },
		Ended:  func(tl *model.Timeline) { g.runs <- tl },
		Stands: func(state Standby, _ string) { g.mu.Lock(); defer g.mu.Unlock(); g.state = state },
		Fact:   g.fact, Armable: func(arm Arm) { g.arm = arm },
	}
	ctx, stop := context.WithCancel(t.Context())
	g.stop = stop
	go func() { g.ended <- many.MeasureAgain(ctx, o, keeper, slog.New(slog.NewTextHandler(t.Output(), nil))) }()
	return g
}

func (g *guarded) fact(f timeline.Fact) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch f := f.(type) {
	case timeline.Target:
		if g.names[f.ID] = f.Name; f.Kind.Judged() && f.Source != 1 {
			g.rate += f.Rate
		}
	case timeline.Event:
		if f.Kind == timeline.RateChanged {
			g.rates[f.Object.Name] = f.To
		}
	case timeline.Batch:
		for _, q := range f.Requests {
			name := g.names[q.Target]
			if g.asked[name]++; q.Class.Failed() {
				g.failed[name]++
			}
		}
	}
}

func (g *guarded) count(target string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.asked[target]
}

// least reports whether each of some targets has so many requests, or failures.
func (g *guarded) least(of *map[string]int, n int, targets ...string) func() bool {
	return func() bool {
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, target := range targets {
			if (*of)[target] < n {
				return false
			}
		}
		return true
	}
}

func (g *guarded) is(state Standby) func() bool {
	return func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.state == state }
}

// runMany runs what measures several Services from Pods with probers, until stop is called.
func runMany(t *testing.T, keys deploy.Keys, client *fake.Clientset) (many *Many, stop func()) {
	t.Helper()
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	many = NewMany(kubetest.Client(client), "", log)
	many.MeasureFrom(Probers{
		Namespace: "shop", Selector: deploy.ProberSelector("lapse-x"), Me: "lapse-guard-1",
		Keys: func(context.Context) (agent.KeyPair, error) { return keys.Coordinator, nil },
	}, log)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { many.Run(over); close(ended) }()
	return many, func() { close(over); <-ended }
}

// An outage of one of two Services is one run, from this process and from each node. The other has none. A prober that
// comes again is measured from again, also at another address, and one whose Service is not guarded any more asks it no
// more.
func TestAGuardMeasuresFromItsProbersToo(t *testing.T) {
	layer.Real(t)
	keys := newKeys(t)
	one, two := startProber(t, keys, "node1", "127.0.0.41"), startProber(t, keys, "node2", "127.0.0.42")
	client := fake.NewSimpleClientset(one.pod, two.pod)
	many, stop := runMany(t, keys, client)
	web, api := guardServer(t, many), guardServer(t, many)
	all := []string{"new", "new from node1", "new from node2"}
	runtest.WaitFor(t, "requests from each place", web.least(&web.asked, 10, all...))
	runtest.WaitFor(t, "requests from each place to the other Service", api.least(&api.asked, 10, all...))
	if got := many.Probers(); !maps.Equal(got, map[string]string{"node1": "", "node2": ""}) {
		t.Errorf("the probers: %v", got)
	}
	reopen := web.Refuse()
	runtest.WaitFor(t, "failures from each place", web.least(&web.failed, 20, all...))
	reopen()
	tl := <-web.runs
	if tl.Run.Aborted != "" || len(tl.Sources) != 3 || tl.Verdict.Failed < 60 {
		t.Errorf("aborted %q, %d sources, %d failures", tl.Run.Aborted, len(tl.Sources), tl.Verdict.Failed)
	}
	for _, name := range all {
		target := targetNamed(t, tl, name)
		rates := ratesOf(tl, name) // before, each prober that joins takes its share
		if target.Failed < 20 || target.OK == 0 || len(rates) == 0 || rates[len(rates)-1] != "10 30" {
			t.Errorf("%s: %d of %d failed, at the rates %q", name, target.Failed, target.Sent, rates)
		}
	}
	runtest.WaitFor(t, "it to wait again", web.is(Idle))
	again := ""
	for n, addr := range []string{"127.0.0.41", "127.0.0.43"} { // as after a crash, and after a reboot of the node
		one.server.Close()
		one.ended.Wait()
		one.close()
		one = startProber(t, keys, "node1", addr)
		if _, err := client.CoreV1().Pods("shop").UpdateStatus(t.Context(), one.pod, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		again = fmt.Sprintf("new from node1 (prober %d)", n+2)
		runtest.WaitFor(t, "requests from the process that has come again", web.least(&web.asked, 10, again))
		runtest.WaitFor(t, "such requests to the other Service", api.least(&api.asked, 10, again))
	}
	api.stop()
	if err := <-api.ended; err != nil {
		t.Error(err)
	}
	select {
	case tl := <-api.runs:
		t.Errorf("a run of the other Service: %+v", tl.Verdict)
	default:
	}
	runtest.WaitFor(t, "the other Service to be left", func() bool {
		answered, more := api.Answered(), web.count(again)+10
		runtest.WaitFor(t, "requests to the first one", web.least(&web.asked, more, again))
		return api.Answered() == answered
	})
	web.stop()
	if err := <-web.ended; err != nil {
		t.Error(err)
	}
	stop()
}

// Probers that join a guard at once have the rates of all of them from the beginning: no call changes them again. What
// raises the rates of many Services takes one call for each prober, besides one that is on its way.
func TestProbersThatJoinAtOnceHaveTheirRates(t *testing.T) {
	layer.Real(t)
	keys := newKeys(t)
	var all []*probersPod
	var pods []runtime.Object
	for n := range 12 {
		p := startProber(t, keys, fmt.Sprint("node", n), fmt.Sprint("127.0.0.", 50+n))
		all, pods = append(all, p), append(pods, p.pod)
	}
	calls := func(path string) (n int) {
		for _, p := range all {
			n += p.called(path)
		}
		return n
	}
	many, stop := runMany(t, keys, fake.NewSimpleClientset(pods...))
	runtest.WaitFor(t, "all probers to be ready", func() bool {
		many.crew.mu.Lock()
		defer many.crew.mu.Unlock()
		return len(many.crew.processes) == len(all)
	})
	services := []*guarded{guardServer(t, many), guardServer(t, many), guardServer(t, many)}
	for _, g := range services {
		runtest.WaitFor(t, "requests from each node", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return len(g.asked) == 2+2*len(all) })
		if g.rate > 30*2 { // twice that if the last ones have joined later than the others
			t.Errorf("the probers were assigned %v requests per second in all, of 30", g.rate)
		}
	}
	if n := calls("/v1/assignment"); n != len(services)*len(all) {
		t.Errorf("%d assignments", n)
	}
	if n := calls("/v1/rates"); n > len(services)*len(all) { // none, unless the last ones have joined later
		t.Errorf("%d calls have changed rates", n)
	}

	late := all[0]
	before := late.called("/v1/rates")
	late.mu.Lock()
	late.holding = make(chan struct{})
	late.mu.Unlock()
	for _, g := range services {
		if err := g.arm(t.Context(), "an exercise", time.Hour); err != nil {
			t.Fatal(err)
		}
		runtest.WaitFor(t, "the full rate", g.is(Raised))
		runtest.WaitFor(t, "a call that tells of it", func() bool { return late.called("/v1/rates") > before })
	}
	close(late.holding)
	for _, g := range services {
		target, rate := "new from node0", fmt.Sprint(90./float64(1+len(all)))
		runtest.WaitFor(t, "a fact that the prober has the full rate", func() bool { g.mu.Lock(); defer g.mu.Unlock(); return g.rates[target] == rate })
	}
	if n := late.called("/v1/rates") - before; n != 2 {
		t.Errorf("a prober got %d calls that raise the rates of three Services", n)
	}
	for _, g := range services {
		g.stop()
	}
	for _, g := range services {
		if err := <-g.ended; err != nil {
			t.Error(err)
		}
	}
	stop()
}

// sharedMeasurement returns a measurement that waits for a sign, whose rates probers share.
func sharedMeasurement(idle float64) *measurement {
	m := newMeasurement(&spec.Options{Spec: spec.Spec{Rate: 90, IdleRate: idle, Armed: true}, ID: "lapse-guard"}, slog.New(slog.DiscardHandler))
	m.Clock, m.Live, m.Armed = timeline.StartClock(), live.New(nil), &measure.Armed{IdleRate: idle}
	m.fleet = m.newFleet(newCrew(nil, "shop", "", m.log))
	m.fleet.also = true
	m.Describe(m.meta(), m.describeSource())
	return m
}

// A hundred control targets do not get more requests than the Service does.
func TestProbersAskTheirControlTargetsAsSeldomAsTheService(t *testing.T) {
	m := sharedMeasurement(5)
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Control} {
		if got := m.rateFrom(kind, 100, 100); got != 0.05 {
			t.Errorf("%s: %v requests per second of each of 100 places", kind, got)
		}
	}
	if got := m.rateFrom(timeline.Control, 100, 2); got != 1 {
		t.Errorf("of two places: %v", got)
	}
}

// An autoscaler makes nodes of new names for months. A measurement keeps what is of nodes that are there, or that a run
// may have, and no process gets the number or the names of one that measures.
func TestAMeasurementForgetsNodesThatAreGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := sharedMeasurement(30)
		join := func(node string) timeline.SourceID {
			j := &joining{node: node, pod: "prober-of-" + node, assigned: make(chan agent.Assignment, 1)}
			m.join(j)
			m.assignReady(0)
			return (<-j.assigned).Source
		}
		stays, names := join("node0"), ""
		m.LastSource = 65_400 // after as many
		for n := range 300 {
			node := fmt.Sprint("node", n+1)
			of := join(node)
			if of <= 1 || of == stays {
				t.Fatalf("process %d is source %d", n, of)
			}
			for _, target := range m.fleet.full[of] {
				names = m.Targets[target.id].Name
			}
			m.join(&joining{node: node, lost: errEnded, source: of})
			time.Sleep(10 * time.Minute) // of virtual time
		}
		if names != "control from node300" {
			t.Errorf("its target is %q", names)
		}
		if n := len(m.fleet.processes); n > 1+24*6+1 || m.fleet.processes["node0"] == nil {
			t.Errorf("%d nodes are kept", n)
		}
		if len(m.Targets) != 1 || len(m.fleet.full) != 1 {
			t.Errorf("%d targets, %d sources", len(m.Targets), len(m.fleet.full))
		}
		again := m.fleet.full[join("node300")][0]
		if name := m.Targets[again.id].Name; name != "control from node300 (prober 2)" {
			t.Errorf("one that has come again so soon asks %q", name)
		}
	})
}

// Each run of a guard tells of a node that is up and that no prober has measured from, once it has had the time to
// start. A loss is told at once, and not again.
func TestAGuardTellsOfANodeThatNoProberMeasuresFrom(t *testing.T) {
	const noAnswer = "Pod prober-of-node3 runs, and does not answer"
	nodeIs := func(m *measurement, kind timeline.EventKind, to string) {
		m.Add(timeline.Event{Kind: kind, To: to, Object: timeline.Object{Kind: "Node", Name: "node3"}})
	}
	joins := func(m *measurement) timeline.SourceID {
		j := &joining{node: "node3", pod: "prober-of-node3", assigned: make(chan agent.Assignment, 1)}
		m.join(j)
		m.assignReady(0)
		return (<-j.assigned).Source
	}
	phase := func(p timeline.Phase) func(*measurement) {
		return func(m *measurement) {
			if m.Phase = p; p == timeline.PhaseMeasuring {
				m.tellMissingAnew()
			}
		}
	}
	for name, tt := range map[string]struct {
		do   map[time.Duration]func(m *measurement)
		want []string
	}{
		"in each run": {map[time.Duration]func(*measurement){
			130 * time.Second: phase(timeline.PhaseSettling), 150 * time.Second: phase(timeline.PhaseArmed),
			200 * time.Second: phase(timeline.PhaseMeasuring), 230 * time.Second: phase(timeline.PhaseMeasuring),
		}, []string{"120 missing", "200 missing", "230 missing"}},
		"no run": {map[time.Duration]func(*measurement){0: phase(timeline.PhaseArmed)}, nil},
		"it answers late and before the run": {map[time.Duration]func(*measurement){
			0: phase(timeline.PhaseArmed), 140 * time.Second: func(m *measurement) { joins(m) }, 150 * time.Second: phase(timeline.PhaseMeasuring),
		}, []string{"140 measuring"}},
		"it does not answer": {nil, []string{"120 missing"}},
		"it answers in time": {map[time.Duration]func(*measurement){110 * time.Second: func(m *measurement) { joins(m) }}, []string{"110 measuring"}},
		"it answers late":    {map[time.Duration]func(*measurement){200 * time.Second: func(m *measurement) { joins(m) }}, []string{"120 missing", "200 measuring"}},
		"its node is ready late": {map[time.Duration]func(*measurement){
			0: func(m *measurement) {
				nodeIs(m, timeline.NodeReady, "false")
			},
			90 * time.Second: func(m *measurement) { nodeIs(m, timeline.NodeReady, "true") },
		}, []string{"210 missing"}},
		"its node is gone before": {map[time.Duration]func(*measurement){
			0: func(m *measurement) {
				m.Add(timeline.Event{Kind: timeline.NodeReady, To: "true", Object: timeline.Object{Kind: "Node", Name: "node1"}})
			},
		}, nil},
		"its Pod is gone before": {map[time.Duration]func(*measurement){
			110 * time.Second: func(m *measurement) { m.fleet.forgetNodes(nil) },
			115 * time.Second: func(m *measurement) { m.fleet.note("node3", noAnswer) },
		}, []string{"235 missing"}},
		"it measured, is silent, and is lost": {map[time.Duration]func(*measurement){
			0:                 func(m *measurement) { joins(m) },
			10 * time.Second:  func(m *measurement) { m.fleet.note("node3", noAnswer) },
			180 * time.Second: func(m *measurement) { m.join(&joining{node: "node3", lost: errEnded, source: 2}) },
		}, []string{"0 measuring", "180 lost"}},
		"it measured, and its next Pod does not answer": {map[time.Duration]func(*measurement){
			0: func(m *measurement) { joins(m) },
			10 * time.Second: func(m *measurement) {
				m.join(&joining{node: "node3", lost: errEnded, source: 2})
				m.fleet.forgetNodes(nil)
			},
			20 * time.Second: func(m *measurement) { m.fleet.note("node3", noAnswer) },
		}, []string{"0 measuring", "10 lost", "140 missing"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := sharedMeasurement(30)
				m.fleet.note("node3", noAnswer)
				m.Phase = timeline.PhaseMeasuring
				var told []string
				m.Armed.Fact = func(f timeline.Fact) {
					if e, ok := f.(timeline.Event); ok && e.Kind == timeline.ProberChanged {
						told = append(told, fmt.Sprint(e.Seen.Seconds(), " ", e.To))
					}
				}
				for range 300 {
					if do := tt.do[m.Clock.Now()]; do != nil {
						do(m)
					}
					m.noteMissing(m.Clock.Now())
					time.Sleep(time.Second) // of virtual time
				}
				if !slices.Equal(told, tt.want) {
					t.Errorf("told %q, want %q", told, tt.want)
				}
			})
		})
	}
}

// Who is idle seldom gets a comparison of clocks, and who is not gets each one. While all are idle there are few, fewest
// if the process is heard from.
func TestClocksAreComparedSeldomWhileNothingHappens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(nil, "shop", "", slog.New(slog.DiscardHandler))
		c.clock = timeline.StartClock()
		p := &process{of: c, tasks: map[timeline.SourceID]task{}}
		full := make([]atomic.Bool, 2)
		got := make([]int, len(full)) // comparisons
		for i := range full {
			to := &party{clock: c.clock, full: full[i].Load, put: func(timeline.Fact) { got[i]++ }}
			c.parties[to] = struct{}{}
			p.tasks[timeline.SourceID(i)] = task{party: to}
		}
		calls := 0
		ctx, stop := context.WithCancel(t.Context())
		go p.keepComparing(ctx, func() (timeline.ClockOffset, error) {
			time.Sleep(time.Millisecond) // of virtual time
			calls++
			return timeline.ClockOffset{}, nil
		})
		for _, step := range []struct {
			full, heard bool // the first one; the process
			want        []int
		}{{false, false, []int{4, 2, 2}}, {true, true, []int{20, 20, 2}}, {false, false, []int{4, 2, 2}}, {false, true, []int{1, 1, 1}}} {
			full[0].Store(step.full)
			for range 10 {
				if time.Sleep(2 * time.Second); step.heard { // of virtual time
					p.take(timeline.Batch{Source: 9})
				}
			}
			time.Sleep(100 * time.Millisecond)
			synctest.Wait()
			if is := append([]int{calls}, got...); !slices.Equal(is, step.want) {
				t.Errorf("full %v: %v calls and comparisons, want %v", step.full, is, step.want)
			}
			calls, got[0], got[1] = 0, 0, 0
		}
		stop()
	})
}

func ratesOf(tl *model.Timeline, target string) (rates []string) {
	for _, e := range tl.Events {
		if e.Kind == timeline.RateChanged && e.Object.Name == target && e.Seen < tl.Windows[0].End.Latest {
			rates = append(rates, strings.Join([]string{e.From, e.To}, " "))
		}
	}
	return rates
}
