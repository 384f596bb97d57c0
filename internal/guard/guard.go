// Package guard measures every disruption of the Services that are annotated lapse/guard: "on", from before it begins.
//
//	watcher: which Services ──> one [coordinator.Many.MeasureAgain] each ──> store: runs, history ──> gate ──> events
//
// Each Service is idle, armed (a sign: the full rate) or recording (a disruption, until it has settled), and then idle
// again. Two disruptions within --settle are one run.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard/places"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/configmap"
	"lapse/internal/guard/events"
	"lapse/internal/guard/flagger"
	"lapse/internal/guard/gate"
	"lapse/internal/guard/outbox"
	"lapse/internal/guard/series"
	"lapse/internal/guard/store"
	"lapse/internal/history"
	"lapse/internal/kube"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/exit"
	"lapse/internal/run/spec"
	"lapse/watcher"
)

// Annotation is that of the Services that are guarded, without its prefix.
const Annotation = "guard"

// A Config says what is guarded, and where what is found goes.
type Config struct {
	Client    kube.Client
	Namespace string // of the Services; empty: all
	Home      string // the namespace in which the guard runs
	Out       string // the directory of the runs
	Listen    string // where the gate answers
	Private   string // where the status is told: names of Services, which a stranger need not know
	TokenFile string // who arms a Service or calls a hook must send the token in it; empty: nobody may
	Log       *slog.Logger

	*Settings
	// Probers measure from other nodes, too; nil: nobody does.
	Probers *Probers
	// Leader says which guard speaks, if there are several; nil: this one.
	Leader Leader
	// Past keeps what is known of the last runs when their directory is gone; nil: nothing does.
	Past *configmap.Map
	// Bucket keeps all runs; nil: none does.
	Bucket Bucket
	// Reread returns the settings that count from now on, nil if those before do, or why they have to. It may be nil.
	Reread func() (*Settings, error)

	measure measureFunc // default: [coordinator.Many.MeasureAgain]
	follow  followFunc  // default: watcher.FollowMarked
	write   writeFunc   // default: events.Write
}

type (
	measureFunc func(context.Context, *spec.Options, coordinator.Keeper, *slog.Logger) error
	followFunc  func(ctx context.Context, changed func([]watcher.Marked)) error
	writeFunc   func(context.Context, time.Time, ...events.Event) (others []string, _ error)
	dialFunc    func(ctx context.Context, network, address string) (net.Conn, error)
)

// Probers measure for a guard from other nodes.
type Probers = coordinator.Probers

// A guard is a running [Run].
type guard struct {
	Config
	gate   *gate.Gate
	store  *store.Store
	told   *series.Guard // to Prometheus
	budget *budget.Budget
	rates  string // by how much that lowers rates, as it was logged; of [guard.rated], which is called once at a time

	many    *coordinator.Many          // nil in tests that make measurements up
	dial    dialFunc                   // to the guard that leads; nil: that of [net.Dialer]
	flagger flagger.Hooks              // for who has the token
	past    *outbox.Box[configmap.Run] // nil without Past
	bucket  *outbox.Box[history.Line]  // nil without Bucket

	rereading sync.Mutex // one question about what Past has
	rereadAt  time.Time  // when Past was read for the last one

	mu      sync.Mutex
	problem string              // of the settings; empty: they are those that were read last
	left    []*model.Timeline   // what the guard before had not judged
	unsaid  string              // why the newest run has no Event
	shared  map[string][]string // the namespaces of other guards that measure a Service, too
	unsaved string              // why not all of the newest run is on disk
	unkept  string              // why a run could not be stored, as it was logged last
	// the bucket took no run when it was asked last
	bucketAway bool
	marked     []watcher.Marked      // the Services that are to be guarded
	listed     bool                  // they are known
	ready      bool                  // those that were annotated at first are measured
	services   map[string]*service   // by NAMESPACE/NAME
	earlier    map[string][]gate.Run // of the guard before, by Service
	guarding   map[*service]struct{} // those that still measure, though others may have taken their place
	refused    *Refusal              // the last one
	logged     time.Time             // when a refusal was logged last
	running    sync.WaitGroup        // of them, and of what reads the settings again
	now        func() time.Time
	over       <-chan struct{} // closed when it ends
}

// Run guards until ctx ends, and then ends the runs that go on. An [exit.UsageError] says why it does not begin.
func Run(ctx context.Context, c Config) error {
	g, err := newGuard(c)
	if err != nil {
		return err
	}
	defer g.store.Close()
	guarding, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var serving sync.WaitGroup
	defer serving.Wait()
	for _, at := range []struct {
		flag, address string
		handler       http.Handler
	}{{"listen", c.Listen, g.public()}, {"status-listen", c.Private, g.private()}} {
		stop, err := serve(at.address, at.handler, &serving, cancel)
		if err != nil {
			advice := "as in --" + at.flag + " 127.0.0.1:7200, where nothing else listens"
			return exit.Usagef(advice, "--%s: %w", at.flag, err)
		}
		defer stop()
	}
	g.Log.Info("guarding", "gate", c.Listen, "status", c.Private, "runs", c.Out)
	if err := g.guard(guarding); err != nil || ctx.Err() != nil {
		return err
	}
	return context.Cause(guarding) // an address is not served any more
}

func newGuard(c Config) (*guard, error) {
	g := &guard{
		Config: c, gate: gate.New(), services: map[string]*service{}, earlier: map[string][]gate.Run{},
		guarding: map[*service]struct{}{}, now: time.Now, shared: map[string][]string{},
	}
	g.told = series.New(g.now, string(coordinator.Idle), string(coordinator.Raised),
		string(coordinator.Recording), string(starting), string(notMeasured))
	g.budget = budget.New(c.mostRate())
	g.budget.Changed, g.told.Budget = g.rated, g.budget.State
	if c.Past != nil {
		g.gate.Elsewhere = g.ofAnother
	}
	g.told.Leads = func() bool { return c.Leader == nil || c.Leader.Leads() }
	g.flagger = flagger.Hooks{
		Answer: g.gate.Answer, Now: g.now,
		Arm: func(ctx context.Context, service, why string) error {
			_, err := g.arm(ctx, service, why, DefaultArmed)
			return err
		},
	}
	if g.measure == nil {
		g.many = coordinator.NewMany(c.Client, c.Namespace, c.Log)
		g.measure = g.many.MeasureAgain
		if c.Probers != nil {
			g.many.MeasureFrom(*c.Probers, c.Log)
		}
	}
	if g.follow == nil {
		g.follow = func(ctx context.Context, changed func([]watcher.Marked)) error {
			return exit.AsUsage(watcher.FollowMarked(ctx, c.Client, c.Namespace, Annotation, c.Log, changed))
		}
	}
	if g.write == nil {
		g.write = func(ctx context.Context, at time.Time, all ...events.Event) ([]string, error) {
			return events.Write(ctx, c.Client, at, all...)
		}
	}
	var err error
	g.store, err = store.Open(c.Out, c.Limits, c.Log, func(tl *model.Timeline, now bool) {
		if g.knew(history.Of(tl, "")[0], about(tl)); now {
			g.left = append(g.left, tl)
		}
	})
	if err != nil {
		return nil, exit.Usagef("name another directory with --out", "%w", err)
	}
	if c.Bucket != nil { // the status asks it before it is used
		g.bucket = outbox.New(mostWaiting, g.put, g.notPut)
		g.bucket.Refill = g.store.Waiting
		g.bucket.Attempt, g.bucket.AtTheEnd = putFor, putAtTheEnd
	}
	return g, nil
}

// maxConns is how many connections an address holds open: twice as many as wait at the gate.
const maxConns = 2 * gate.MostWaiting

// serve answers at an address until stop is called.
func serve(address string, h http.Handler, serving *sync.WaitGroup, failed func(error)) (stop func(), err error) {
	ln, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	server := &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
		ReadTimeout: gate.MostWait + 10*time.Second, WriteTimeout: gate.MostWait + 10*time.Second,
	}
	serving.Go(func() {
		if err := server.Serve(places.Limit(server, ln, maxConns)); !errors.Is(err, http.ErrServerClosed) {
			failed(fmt.Errorf("serve %s: %w", address, err))
		}
	})
	return func() { _ = server.Close() }, nil
}

// guard follows which Services are to be guarded until ctx ends, or it may not, and waits for the last of their runs.
func (g *guard) guard(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	g.over = ctx.Done()
	if g.many != nil {
		over, ended := make(chan struct{}), make(chan struct{})
		go func() { g.many.Run(over); close(ended) }()
		defer func() { close(over); <-ended }()
	}
	defer g.keep()()
	defer g.keepInBucket()()
	if g.Leader != nil {
		g.running.Go(func() { g.Leader.Run(ctx, func() bool { return g.waitsFor() == "" }) })
		g.running.Go(func() { g.armToo(ctx) })
	}
	g.running.Go(func() {
		for _, tl := range g.left {
			g.conclude(tl, history.Of(tl, "")[0])
		}
		g.left = nil
	})
	g.running.Go(func() { g.observe(ctx) })
	if g.Reread != nil {
		g.running.Go(func() { g.reread(ctx) })
	}
	g.recall(ctx)
	err := g.follow(ctx, func(marked []watcher.Marked) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.marked, g.listed = marked, true
		g.reconcile(ctx)
	})
	cancel() // it may not list Services
	g.running.Wait()
	return err
}

// observe keeps how long each Service was observed, until ctx ends. That it fails is logged once, until it succeeds.
// Before it is known which Services are guarded, none has ended to be.
func (g *guard) observe(ctx context.Context) {
	failed := false
	for ctx.Err() == nil {
		if wait(ctx, time.Minute); !g.isListed() {
			continue
		}
		err := g.store.Observe(g.now(), g.told.Observed())
		if err != nil && !failed {
			g.Log.Warn("how long Services are observed is not on disk", "error", err)
		}
		failed = err != nil
	}
}

func (g *guard) isListed() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listed
}

// reconcile begins to guard what is new, and ends what is not meant any more. The caller holds mu.
func (g *guard) reconcile(ctx context.Context) {
	meant := map[string]watcher.Marked{}
	for _, m := range g.marked {
		meant[m.Key()] = m
	}
	for name, s := range g.services {
		switch m, ok := meant[name]; {
		case !ok:
			delete(g.services, name)
			g.Log.Info("no longer guarded", "service", name)
		case !s.isAs(m, g.Settings):
			delete(g.services, name)
			s.leave(false)
		}
	}
	for s := range g.guarding {
		if m, ok := meant[s.Key()]; !ok || !maps.Equal(s.Annotations, m.Annotations) {
			s.leave(true)
		}
	}
	recording := g.recording()
	var fresh []*service
	for _, m := range g.marked {
		if g.services[m.Key()] == nil {
			s := newService(g, m)
			if recording[m.Key()] == nil { // whose share it gets after its end
				s.reserve()
			}
			fresh = append(fresh, s)
		}
	}
	for _, s := range fresh { // now each knows its rate
		g.begin(ctx, s)
	}
	if g.listed {
		g.gate.Change((*gate.Book).Listed)
	}
}

// recording returns the services whose run goes on, by name. Others may have taken their place, and measure after its
// end. The caller holds mu.
func (g *guard) recording() map[string]*service {
	all := map[string]*service{}
	for s := range g.guarding {
		if s.records() {
			all[s.Key()] = s
		}
	}
	return all
}

// begin begins to guard a Service, once what measured it before has ended.
func (g *guard) begin(ctx context.Context, s *service) {
	m := s.Marked
	for other := range g.guarding {
		if other.Key() == m.Key() {
			s.after = append(s.after, other.await())
		}
	}
	g.services[m.Key()], g.guarding[s] = s, struct{}{}
	g.welcome(m.Key())
	g.running.Go(func() {
		s.guard(ctx)
		close(s.ended)
		s.storing.Wait()
		g.mu.Lock()
		defer g.mu.Unlock()
		if delete(g.guarding, s); g.services[m.Key()] == nil {
			g.gate.Change(func(b *gate.Book) { b.Drop(m.Key()) })
			g.told.Drop(m.Key())
			delete(g.shared, m.Key())
			g.budget.Leave(m.Key(), g.now())
		}
	})
}
