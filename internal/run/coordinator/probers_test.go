package coordinator

import (
	"context"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/fake"

	"lapse/correlate/model"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/kube/kubetest"
	"lapse/internal/layer"
	"lapse/internal/run/live"
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

	mu     sync.Mutex
	state  Standby
	names  map[timeline.TargetID]string
	asked  map[string]int // requests by target
	failed map[string]int
}

// guardServer begins to guard a server.
func guardServer(t *testing.T, many *Many) *guarded {
	t.Helper()
	g := &guarded{
		Server: runtest.StartServer(t), ended: make(chan error, 1), runs: make(chan *model.Timeline, 10),
		names: map[timeline.TargetID]string{}, asked: map[string]int{}, failed: map[string]int{},
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
		Fact:   g.fact,
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
		g.names[f.ID] = f.Name
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

// An outage of one of two Services is one run, from this process and from each node. The other has none. A prober that
// comes again is measured from again, and one whose Service is not guarded any more asks it no more.
func TestAGuardMeasuresFromItsProbersToo(t *testing.T) {
	layer.Real(t)
	keys := newKeys(t)
	one, two := startProber(t, keys, "node1", "127.0.0.41"), startProber(t, keys, "node2", "127.0.0.42")
	log := slog.New(slog.NewTextHandler(t.Output(), nil))
	many := NewMany(kubetest.Client(fake.NewSimpleClientset(one.pod, two.pod)), "", log)
	many.MeasureFrom(Probers{
		Namespace: "shop", Selector: deploy.ProberSelector("lapse-x"), Me: "lapse-guard-1",
		Keys: func(context.Context) (agent.KeyPair, error) { return keys.Coordinator, nil },
	}, log)
	over, ended := make(chan struct{}), make(chan struct{})
	go func() { many.Run(over); close(ended) }()
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
	one.server.Close()
	one.ended.Wait()
	one.close()
	again := "new from node1 (prober 2)"
	startProber(t, keys, "node1", "127.0.0.41")
	runtest.WaitFor(t, "requests from the process that has come again", web.least(&web.asked, 10, again))
	runtest.WaitFor(t, "such requests to the other Service", api.least(&api.asked, 10, again))
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
	close(over)
	<-ended
}

func ratesOf(tl *model.Timeline, target string) (rates []string) {
	for _, e := range tl.Events {
		if e.Kind == timeline.RateChanged && e.Object.Name == target && e.Seen < tl.Windows[0].End.Latest {
			rates = append(rates, strings.Join([]string{e.From, e.To}, " "))
		}
	}
	return rates
}
