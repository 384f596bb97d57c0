// Package prober measures what the coordinator of a run assigns: in a Pod on each node of --from, and on the
// workstation for --from outside.
package prober

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync"
	"time"

	"lapse/dashboard/places"
	"lapse/deploy"
	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/internal/run/exit"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/internal/run/terminal"
	"lapse/internal/run/version"
	"lapse/loadgen"
	"lapse/timeline"
)

// A Prober is the process in a Pod on a node of --from. It measures what the run's coordinator assigns, and hands over
// its recording. It watches nothing and judges nothing.
type Prober struct {
	run     string // its name
	process string
	clock   timeline.Clock
	rec     *record.Writer
	log     *slog.Logger
	*source.Delivery

	mu       sync.Mutex
	assigned *agent.Assignment             // nil: nothing yet
	rates    map[timeline.TargetID]float64 // in force
	source   *source.Source
	stop     func() // ends the measuring
	ended    bool   // all is recorded
}

// lastChance is how long a prober that got SIGTERM waits for its recording to be fetched: a drain may wait for its
// Pod.
const lastChance = 20 * time.Second

// maxConns is how many connections a prober's API holds open. The coordinator needs a few.
const maxConns = 64

// Run measures for a coordinator, until a signal ends it.
func Run(ctx context.Context, env spec.Env, signals <-chan os.Signal, stderr io.Writer) error {
	listen := env[deploy.EnvProbe]
	if listen == "" {
		return exit.Usagef("`lapse run svc/NAME --from all` starts probers",
			"%s is not set: this verb is for the Pods of a run's DaemonSet", deploy.EnvProbe)
	}
	keys, err := env.ProberKeys().Server()
	if err != nil {
		return err
	}
	p, err := New(env[deploy.EnvRun], cmp.Or(env[deploy.EnvDir], deploy.DefaultDir), terminal.NewLogger(stderr))
	if err != nil {
		return err
	}
	defer func() { _ = p.rec.Close() }() // a second Close, unless nothing was measured
	ln, err := net.Listen("tcp", listen)
	if err != nil {
		return fmt.Errorf("serve the prober's API: %w", err)
	}
	server := agent.NewProberServer(p, keys)
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := server.ServeTLS(places.Limit(server, ln, maxConns), "", ""); !errors.Is(err, http.ErrServerClosed) {
			p.log.Error("the prober's API ended", "error", err)
		}
	})
	select {
	case <-ctx.Done():
	case <-signals:
	}
	p.leave(signals)
	stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if server.Shutdown(stopping) != nil {
		server.Close()
	}
	serving.Wait()
	return nil
}

// New returns a prober of a run, which records into a file in dir.
func New(run, dir string, log *slog.Logger) (*Prober, error) {
	p := &Prober{run: run, process: rand.Text(), clock: timeline.StartClock(), log: log}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make a place for the recording: %w", err)
	}
	var err error
	p.rec, err = record.Create(filepath.Join(dir, p.process+".lapse"))
	p.Delivery = source.NewDelivery(p.rec)
	return p, err
}

// Status returns how far the prober has come. It has ended only once its recording is complete.
func (p *Prober) Status() agent.Status {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := agent.Status{
		ID: p.run, Version: version.Version, Process: p.process, Phase: timeline.PhaseStarting,
		T0: p.clock.T0(), Now: p.clock.Now(), Size: p.rec.Size(),
	}
	switch {
	case p.ended:
		s.Phase, s.SHA256 = timeline.PhaseEnded, p.rec.Sum()
	case p.assigned != nil:
		s.Phase = timeline.PhaseMeasuring
	}
	return s
}

// Now returns the instant on the prober's clock.
func (p *Prober) Now() time.Duration { return p.clock.Now() }

// Facts reads the recording from offset on.
func (p *Prober) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return p.rec.Tail(ctx, offset)
}

// Assign begins to measure.
func (p *Prober) Assign(a agent.Assignment) error {
	options, err := spec.OptionsOf(a.Spec)
	if err != nil {
		return err
	}
	if options.ByClusterIP { // only `lapse routes` asks so
		awaitRoutes(context.Background(), a.Targets, new(net.Dialer).DialContext)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned != nil {
		if !reflect.DeepEqual(*p.assigned, a) {
			return errors.New("the prober measures something else already")
		}
		return nil
	}
	ctx, stop := context.WithCancel(context.Background())
	if err := p.measure(ctx, options, a); err != nil {
		stop()
		return err
	}
	p.assigned, p.stop = &a, stop
	return nil
}

// measure starts the assigned targets. Later errors are in the facts.
func (p *Prober) measure(ctx context.Context, o *spec.Options, a agent.Assignment) error {
	config := source.Config{ID: a.Source, Clock: p.clock, Pacing: loadgen.Pacing(o.Pacing), Logger: p.log}
	measuring := source.New(config)
	if err := measuring.StartAll(o.AssignedProbes(a.Targets)); err != nil {
		return err
	}
	p.source, p.rates = measuring, map[timeline.TargetID]float64{}
	for _, t := range a.Targets {
		p.rates[t.ID] = t.Rate
	}
	go func() {
		_ = measuring.Measure(ctx, p.record) // record returns no error
		p.keep(p.rec.Close())
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = true
	}()
	return nil
}

// SetRates changes how often targets are asked. The event of each change is on the prober's clock.
func (p *Prober) SetRates(rates []agent.Rate) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned == nil {
		return errors.New("nothing was assigned")
	}
	for _, r := range rates {
		was, known := p.rates[r.Target]
		switch {
		case !known:
			return fmt.Errorf("target %d is not assigned", r.Target)
		case !(r.Rate > 0) || r.Rate > loadgen.MaxRate:
			return fmt.Errorf("target %d: a rate of %v", r.Target, r.Rate)
		case r.Rate == was:
			continue
		}
		at := slices.IndexFunc(p.assigned.Targets, func(t agent.Assigned) bool { return t.ID == r.Target })
		changed := source.RateIs(p.assigned.Targets[at].Name, was, r.Rate, p.clock.Now())
		changed.Source = p.assigned.Source
		p.source.Facts.Put(changed)
		p.source.SetRate(r.Target, r.Rate)
		p.rates[r.Target] = r.Rate
	}
	return nil
}

// record records what was measured.
func (p *Prober) record(measured []timeline.Fact, _ bool) error {
	for _, fact := range measured {
		p.keep(p.rec.Append(fact))
	}
	p.keep(p.rec.Flush())
	return nil
}

func (p *Prober) keep(err error) {
	if err != nil {
		p.log.Error("the recording is incomplete from here on", "error", err)
	}
}

// End stops measuring.
func (p *Prober) End(string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.assigned == nil {
		return errors.New("nothing was assigned")
	}
	p.stop()
	return nil
}

// leave stops measuring after SIGTERM, and waits until the coordinator has the whole recording, or for lastChance.
func (p *Prober) leave(signals <-chan os.Signal) {
	if p.End("") != nil {
		return
	}
	last := time.NewTimer(lastChance)
	defer last.Stop()
	select {
	case <-p.Acked():
	case <-last.C:
		p.log.Warn("the coordinator has not fetched all of the recording")
	case <-signals:
	}
}
