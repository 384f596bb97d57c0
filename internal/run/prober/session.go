package prober

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"reflect"
	"slices"
	"sync"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/record"
	"lapse/internal/run/facts"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/internal/run/version"
	"lapse/loadgen"
	"lapse/timeline"
)

// A Session is what a prober measures for one coordinator, and the recording of it. That of a run has one source. That
// of a guard has one for each Service.
type Session struct {
	name    string // of the run or guard
	process string
	clock   timeline.Clock
	shared  func() *loadgen.Thread // paces a guard's requests, and those of others; nil for a run
	rec     *record.Writer
	queue   *facts.Queue // of all sources
	thinner source.Thinner
	log     *slog.Logger
	*source.Delivery

	measuring sync.WaitGroup
	over      chan struct{} // closed when no more facts come

	mu      sync.Mutex
	sources map[timeline.SourceID]*measured
	used    map[timeline.SourceID]bool // all that were ever assigned
	ending  bool
	ended   bool // all is recorded
}

// A measured source is one that sends requests, or awaits the last responses.
type measured struct {
	assigned agent.Assignment
	source   *source.Source
	rates    map[timeline.TargetID]float64 // in force
	stop     func()
	ended    bool // it awaits the last responses
}

func newSession(
	name, process string, clock timeline.Clock, rec *record.Writer, log *slog.Logger,
) *Session {
	return &Session{
		name: name, process: process, clock: clock, rec: rec, queue: facts.NewQueue(), log: log,
		Delivery: source.NewDelivery(rec), over: make(chan struct{}),
		sources: map[timeline.SourceID]*measured{}, used: map[timeline.SourceID]bool{},
	}
}

// Status returns how far the session has come. It has ended only once its recording is complete.
func (s *Session) Status() agent.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := agent.Status{
		ID: s.name, Version: version.Version, Process: s.process, Phase: timeline.PhaseStarting,
		T0: s.clock.T0(), Now: s.clock.Now(), Size: s.rec.Size(),
	}
	switch {
	case s.ended:
		status.Phase, status.SHA256 = timeline.PhaseEnded, s.rec.Sum()
	case len(s.used) > 0:
		status.Phase = timeline.PhaseMeasuring
	}
	return status
}

// Now returns the instant on the session's clock.
func (s *Session) Now() time.Duration { return s.clock.Now() }

// Facts reads the recording from offset on.
func (s *Session) Facts(ctx context.Context, offset int64) (io.ReadCloser, error) {
	return s.rec.Tail(ctx, offset)
}

// joinable reports whether a coordinator that has read nothing yet can join: nothing was assigned.
func (s *Session) joinable() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !s.ending && len(s.used) == 0 && s.rec.Has(0)
}

// Assign begins to measure a source.
func (s *Session) Assign(a agent.Assignment) error {
	options, err := spec.OptionsOf(a.Spec)
	if err != nil {
		return err
	}
	if options.ByClusterIP { // only `lapse routes` asks so
		awaitRoutes(context.Background(), a.Targets, new(net.Dialer).DialContext)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.sources[a.Source]
	switch {
	case now != nil && !now.ended && reflect.DeepEqual(now.assigned, a):
		return nil
	case s.ending:
		return errors.New("the prober was told to end")
	case now != nil && !now.ended, len(s.used) > 0 && s.shared == nil:
		return errors.New("the prober measures something else already")
	case s.used[a.Source]:
		return fmt.Errorf("source %d has ended: its requests would be numbered from 0 again: assign another", a.Source)
	}
	return s.measure(options, a)
}

// measure starts the assigned targets. Later errors are in the facts. The caller holds the mutex.
func (s *Session) measure(o *spec.Options, a agent.Assignment) error {
	c := source.Config{
		ID: a.Source, Clock: s.clock, Pacing: loadgen.Pacing(o.Pacing), Sink: s.queue.Put, Logger: s.log,
	}
	if s.shared != nil && c.Pacing == loadgen.Economical {
		c.Thread = s.shared()
	}
	m := &measured{assigned: a, source: source.New(c), rates: map[timeline.TargetID]float64{}}
	if err := m.source.StartAll(o.AssignedProbes(a.Targets)); err != nil {
		return err
	}
	for _, t := range a.Targets {
		m.rates[t.ID] = t.Rate
	}
	if len(s.used) == 0 {
		s.measuring.Go(s.handOver)
	}
	s.sources[a.Source], s.used[a.Source] = m, true
	ctx, stop := context.WithCancel(context.Background())
	m.stop = stop
	s.measuring.Go(func() {
		defer stop()
		if err := m.source.Run(ctx); err != nil {
			s.log.Error("probing failed", "error", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.sources, a.Source)
		s.closeIfOver()
	})
	return nil
}

// closeIfOver closes over if no more facts come. The caller holds the mutex.
func (s *Session) closeIfOver() {
	if s.ending && len(s.sources) == 0 {
		close(s.over)
	}
}

// handOver records what is measured, until no more comes.
func (s *Session) handOver() {
	wait := source.Always
	if s.shared != nil {
		wait = source.Seldom
	}
	_ = source.HandOver(s.over, s.queue, wait, s.record) // record returns no error
	s.keep(s.rec.Close())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
}

// record records what was measured.
func (s *Session) record(measured []timeline.Fact, last bool) error {
	if s.shared != nil { // of many Services, a fact each costs the guard more than their few requests
		goesOn := func(id timeline.SourceID) bool { return !last && s.goesOn(id) }
		measured = s.thinner.Thin(measured, s.clock.Now(), goesOn)
	}
	for _, fact := range measured {
		s.keep(s.rec.Append(fact))
	}
	s.keep(s.rec.Flush())
	return nil
}

// goesOn reports whether a source sends requests.
func (s *Session) goesOn(id timeline.SourceID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.sources[id]
	return m != nil && !m.ended
}

func (s *Session) keep(err error) {
	if err != nil {
		s.log.Error("the recording is incomplete from here on", "error", err)
	}
}

// SetRates changes how often targets are asked. The event of each change is on the session's clock. A rate that cannot
// be set keeps no other one from being set.
func (s *Session) SetRates(rates []agent.Rate) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, r := range rates {
		errs = append(errs, s.setRate(r))
	}
	return errors.Join(errs...)
}

// setRate changes how often a target is asked. The caller holds the mutex.
func (s *Session) setRate(r agent.Rate) error {
	m, err := s.source(r.Source)
	if err != nil {
		return err
	}
	was, known := m.rates[r.Target]
	switch {
	case !known:
		return fmt.Errorf("target %d is not assigned", r.Target)
	case !(r.Rate > 0) || r.Rate > loadgen.MaxRate:
		return fmt.Errorf("target %d: a rate of %v", r.Target, r.Rate)
	case r.Rate == was:
		return nil
	}
	at := slices.IndexFunc(m.assigned.Targets, func(t agent.Assigned) bool { return t.ID == r.Target })
	changed := source.RateIs(m.assigned.Targets[at].Name, was, r.Rate, s.clock.Now())
	changed.Source = m.assigned.Source
	s.queue.Put(changed)
	m.source.SetRate(r.Target, r.Rate)
	m.rates[r.Target] = r.Rate
	return nil
}

// source returns the source with an ID, or the only one if it is 0. The caller holds the mutex.
func (s *Session) source(id timeline.SourceID) (*measured, error) {
	if len(s.used) == 0 {
		return nil, errors.New("nothing was assigned")
	}
	if id == 0 && len(s.sources) == 1 {
		for _, m := range s.sources {
			return m, nil
		}
	}
	if m := s.sources[id]; m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("source %d is none of the %d that are measured", id, len(s.sources))
}

// End stops measuring a source, or all of them if it is 0: then no other can be assigned, and the recording ends. A
// second End does nothing.
func (s *Session) End(_ string, id timeline.SourceID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.used) == 0:
		return errors.New("nothing was assigned")
	case id != 0 && !s.used[id]:
		return fmt.Errorf("source %d was not assigned", id)
	case s.ending:
		return nil
	}
	for of, m := range s.sources {
		if id == 0 || id == of {
			m.ended = true
			m.stop()
		}
	}
	if s.ending = id == 0; s.ending {
		s.closeIfOver()
	}
	return nil
}

// abandon stops waiting for responses, and returns when all is recorded. The session was ended before.
func (s *Session) abandon() {
	s.mu.Lock()
	for _, m := range s.sources {
		m.source.Abandon()
	}
	s.mu.Unlock()
	s.measuring.Wait()
}
