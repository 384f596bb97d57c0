package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/guard/budget"
	"lapse/internal/guard/gate"
	"lapse/internal/guard/series"
	"lapse/internal/guard/store"
	"lapse/internal/hint"
	"lapse/internal/run/coordinator"
	"lapse/internal/run/live"
	"lapse/internal/run/signs"
	"lapse/internal/run/spec"
	"lapse/timeline"
	"lapse/watcher"
)

// retryAfter is how long a Service that cannot be measured is left alone. It doubles up to mostRetryAfter while it does
// not answer as it should: each such attempt lists what is to be watched.
const retryAfter, mostRetryAfter = 30 * time.Second, 5 * time.Minute

// failsFor is how long a run must have failed for the gate to say so before its end: a request may turn out to be late
// by this machine's fault.
const failsFor = 5 * time.Second

// States of a service in addition to those of [coordinator.Standby].
const (
	starting    coordinator.Standby = "starting"
	notMeasured coordinator.Standby = "not measured"
)

// A service is a Service that is guarded.
type service struct {
	watcher.Marked
	g     *guard
	log   *slog.Logger
	told  *series.Service // to Prometheus
	after []chan struct{} // closed when those have ended that measured it before
	ended chan struct{}   // closed when it is not measured any more

	failing time.Time // since when the run that goes on fails for good; of the goroutine that measures

	mu        sync.Mutex
	by        *Settings // that it is measured by
	status    Status
	run       *store.Run // that goes on; nil: none
	lasts     bool       // it began with what had lasted for long, and nothing else has happened since
	storing   sync.WaitGroup
	share     *budget.Share     // of --max-rate; nil: none
	unwatched map[string]string // since when and why, by kind
	leaving   bool              // it ends when it is idle, with the next run at the latest
	late      bool              // a run has ended since then
	awaited   bool              // another one measures the same Service after it
	began     time.Time         // the last run
	deleted   *time.Timer       // ends it after its deletion; nil: it is there
	cancel    func(why error)   // ends the measurement
	arm       coordinator.Arm   // nil: it is not measured
}

func newService(g *guard, m watcher.Marked) *service {
	return &service{
		Marked: m, g: g, by: g.Settings, log: g.Log.With("service", m.Key()), told: g.told.Service(m.Key()),
		ended: make(chan struct{}), cancel: func(error) {}, unwatched: map[string]string{},
		status: Status{Service: m.Key(), State: starting, Since: g.now()},
	}
}

// isAs reports whether a Service is still to be measured as it is. If so, it is measured by these settings from now on.
func (s *service) isAs(m watcher.Marked, by *Settings) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	same := maps.Equal(s.Annotations, m.Annotations) && s.Reached == m.Reached && s.by.alike(by, m)
	if same {
		s.by = by
	}
	return same
}

const (
	// lingers is how long an idle Service that is no longer guarded is measured on. It may have been deleted: that is
	// known before its endpoints are gone.
	lingers = 10 * time.Second
	// mostDeleted is how long a Service is measured after its deletion.
	mostDeleted = 2 * time.Minute
)

var (
	errUnguarded = errors.New("the Service is no longer guarded")
	errChanged   = errors.New("the Service or the guard's settings have changed")
	errDeleted   = errors.New("the Service was deleted 2 minutes before")
)

// leave ends the measurement, after the run that goes on or is announced. byOwner: whose Service it is wants no more of
// this, and does not wait for hours for the end of what lasts.
func (s *service) leave(byOwner bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leaving = true
	switch idle := s.run == nil; {
	case idle && byOwner:
		time.AfterFunc(lingers, s.stopUnlessDeleted)
	case idle && s.status.State != coordinator.Raised, byOwner && s.lasts:
		s.cancel(errChanged)
	}
}

// stopUnlessDeleted ends the measurement, and the run that goes on unless that shows the deletion of the Service, or is
// awaited by the next measurement.
func (s *service) stopUnlessDeleted() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.run == nil || s.deleted == nil && !s.awaited {
		s.cancel(errUnguarded)
	}
}

// await returns what is closed when the measurement has ended. The Service is guarded again then.
func (s *service) await() chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.awaited = true
	return s.ended
}

// noteDeletion ends the measurement some time after the Service was deleted, unless it is created again.
func (s *service) noteDeletion(deleted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.deleted != nil {
		s.deleted.Stop()
		s.deleted = nil
	}
	if deleted {
		cancel := s.cancel
		s.deleted = time.AfterFunc(mostDeleted, func() { cancel(errDeleted) })
	}
}

// records reports whether a run goes on.
func (s *service) records() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil
}

// guard measures until ctx ends or the Service is left, again and again if it cannot be measured.
func (s *service) guard(ctx context.Context) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	for _, ended := range s.after {
		<-ended
	}
	s.mu.Lock()
	if s.cancel = cancel; s.leaving {
		cancel(errChanged)
	}
	s.mu.Unlock()
	for pause, again := retryAfter, false; ctx.Err() == nil; {
		if err := s.measure(ctx); err != nil && ctx.Err() == nil {
			_, unfit := errors.AsType[*coordinator.UnfitError](err)
			if pause = min(2*pause, mostRetryAfter); !unfit || !again {
				pause = retryAfter
			}
			again = unfit
			s.fails(err, pause)
			wait(ctx, pause)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.leaving {
		s.g.gate.Change(func(b *gate.Book) { b.Measured(s.Key(), time.Time{}, "") })
	}
}

// welcome makes the gate answer for a Service, unless it does. The caller holds mu.
func (g *guard) welcome(name string) {
	earlier, first := g.earlier[name]
	delete(g.earlier, name)
	g.gate.Change(func(b *gate.Book) {
		if first || !b.Knows(name) {
			b.Guard(name, earlier...)
		}
	})
}

func wait(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// measure measures until ctx ends, or it cannot.
func (s *service) measure(ctx context.Context) error {
	s.mu.Lock()
	by, problem := s.by, s.status.Problem
	s.mu.Unlock()
	s.g.gate.Change(func(b *gate.Book) { b.Measured(s.Key(), time.Time{}, problem) })
	o, err := by.Options(s.Marked)
	if err != nil {
		return err
	}
	share, err := s.join(o)
	if err != nil {
		return err
	}
	longerBaseline(o, share.Rate(len(o.Kinds), false, s.g.now()))
	defer func() { share.Rate(len(o.Kinds), false, s.g.now()) }()
	s.stands(starting, "", "")
	keeper := coordinator.Keeper{
		Begin: s.begin, Ended: s.end,
		Stands:  func(state coordinator.Standby, sign string) { s.stands(state, sign, "") },
		Armable: s.armBy,
		Most:    func(targets int, full bool) float64 { return share.Rate(targets, full, s.g.now()) },
		Fact:    s.fact, Signed: s.signed, Judged: s.judged,
	}
	defer s.armBy(nil)
	return s.g.measure(ctx, o, keeper, s.log)
}

// fact takes in what is measured and seen.
func (s *service) fact(f timeline.Fact) {
	if s.told.Fact(f) {
		s.missed()
	}
	e, _ := f.(timeline.Event)
	switch {
	case e.Kind == timeline.ServiceChanged && (e.To == "absent" || e.From == "absent"):
		s.noteDeletion(e.To == "absent")
	case hides(e) && !s.covers(e.Seen-e.Since):
		s.missed()
	case e.Kind == timeline.WatchLane:
		s.noteLane(e)
	}
}

// covers reports whether a run goes on that began longer ago.
func (s *service) covers(length time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run != nil && s.g.now().Sub(s.began) > length
}

// noteLane notes what is not watched for lack of a right, and that it is again.
func (s *service) noteLane(e timeline.Event) {
	kind := e.Object.Kind
	s.mu.Lock()
	was := s.unwatched[kind] != ""
	if e.To != "off" {
		delete(s.unwatched, kind)
	} else if !was {
		s.unwatched[kind] = "since " + s.g.now().UTC().Format(time.RFC3339) + ": " + e.Detail
	}
	s.mu.Unlock()
	if showsDisruptions(kind) && was != (e.To == "off") {
		s.missed()
	}
}

// blind returns why a disruption may not be seen now: no right to watch what shows it; "" if it is.
func (s *service) blind() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, kind := range slices.Sorted(maps.Keys(s.unwatched)) {
		if showsDisruptions(kind) {
			return fmt.Sprintf("%ss are not watched %s", kind, s.unwatched[kind])
		}
	}
	return ""
}

// signed takes in a sign. One of something else ends what lasts.
func (s *service) signed(sign signs.Sign) {
	if s.told.Signed(sign); sign.Class >= signs.Soon && !sign.MayLast() {
		s.setLasts(false)
	}
}

// setLasts notes whether the run that goes on shows only what began long before.
func (s *service) setLasts(lasts bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if run := s.status.Run; s.lasts != lasts {
		s.lasts = lasts
		s.g.gate.Change(func(b *gate.Book) { b.Lasts(s.Key(), run, lasts) })
	}
}

// missed notes that a while was not measured: a disruption in it may have been seen by nobody.
func (s *service) missed() {
	s.mu.Lock()
	measured := s.status.State != starting && s.status.State != notMeasured
	s.mu.Unlock()
	if measured {
		s.watches(s.g.now())
	}
}

// watches tells the gate since when all disruptions are seen, or that they may not be.
func (s *service) watches(since time.Time) {
	blind := s.blind()
	s.g.gate.Change(func(b *gate.Book) { b.Measured(s.Key(), since, blind) })
}

func (s *service) armBy(arm coordinator.Arm) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.arm = arm
}

// fails notes why the Service is not measured, and what to do about it. It is tried again after a while.
func (s *service) fails(err error, again time.Duration) {
	problem := err.Error()
	if advice := hint.Of(err); advice != "" {
		problem += " (" + advice + ")"
	}
	problem = strings.Join(strings.Fields(problem), " ") // a line of the status, and of the gate
	s.mu.Lock()
	same := s.status.Problem == problem
	s.mu.Unlock()
	if s.stands(notMeasured, "", problem); !same {
		s.log.Warn("not measured", "problem", problem, "again", again)
	}
	s.g.gate.Change(func(b *gate.Book) { b.Measured(s.Key(), time.Time{}, problem) })
}

// stands notes a state.
func (s *service) stands(state coordinator.Standby, sign, problem string) {
	s.mu.Lock()
	was, now := s.status, s.g.now()
	s.status.State, s.status.Sign, s.status.Since = state, sign, now
	s.status.Problem = problem
	if state == starting { // until it is known whether that has passed
		s.status.Problem = was.Problem
	}
	first := state == coordinator.Idle && (was.State == starting || was.State == notMeasured)
	if (state == coordinator.Idle || state == notMeasured) && s.leaving && s.run == nil {
		s.cancel(errUnguarded)
	}
	s.mu.Unlock()
	_, begins, _ := strings.Cut(sign, "first sign: ")
	s.setLasts(state == coordinator.Recording && signs.Lasts(begins))
	s.told.Stands(string(state), state != starting && state != notMeasured)
	if was.State == state && was.Sign == sign {
		return
	}
	s.log.Debug("now "+string(state), "sign", sign)
	if first {
		s.watches(now)
	}
}

// judged gets a run that goes on. The gate says that it fails before its end: if each request of a new version fails,
// it does not settle for half an hour.
func (s *service) judged(tl *model.Timeline) {
	s.told.Judged(tl)
	s.mu.Lock()
	s.status.Sent, s.status.Failed = tl.Verdict.Sent, tl.Verdict.Failed
	s.mu.Unlock()
	if !verdict.FailsForGood(tl) {
		s.failing = time.Time{}
		return
	}
	now := s.g.now()
	if s.failing.IsZero() {
		s.failing = now
	}
	if r := about(tl); r.Verdict == gate.Fail && now.Sub(s.failing) >= failsFor {
		r.Changed = now
		s.g.gate.Change(func(b *gate.Book) { b.Fails(s.Key(), r) })
	}
}

// begin begins a run.
func (s *service) begin(meta *timeline.Meta) *live.Recording {
	meta.ID, s.failing = spec.NewID(), time.Time{}
	run := s.g.store.Begin(meta.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.run, s.status.Run, s.status.Sent, s.status.Failed, s.lasts, s.began = run, meta.ID, 0, 0, false, s.g.now()
	s.told.Begin(meta.ID)
	s.g.gate.Change(func(b *gate.Book) { b.Begin(s.Key(), meta.ID, s.g.now().UTC().Truncate(time.Millisecond)) })
	return run.Rec
}

// end keeps a judged run. It does not wait for the disk: meanwhile the next disruption may begin.
func (s *service) end(tl *model.Timeline) {
	s.mu.Lock()
	run := s.run
	s.run, s.status.Run, s.status.Sent, s.status.Failed = nil, "", 0, 0
	if s.late {
		s.cancel(errUnguarded)
	}
	s.late = s.leaving
	s.mu.Unlock()
	s.told.Over(tl)
	s.storing.Go(func() { s.keep(run, tl) })
}

// keep stores a judged run, lets the gate answer for it, and writes Events.
func (s *service) keep(run *store.Run, tl *model.Timeline) {
	line, err := run.End(tl)
	if err != nil {
		s.log.Error("not all of a run is on disk", "run", tl.Run.ID, "error", err)
		s.g.told.StoreErrors.Inc()
	}
	s.g.note(&s.g.unsaved, err)
	if s.g.bucket != nil {
		s.g.bucket.Add(line)
	}
	r := about(tl)
	s.g.gate.Change(func(b *gate.Book) { b.End(s.Key(), r) })
	s.told.End(tl, r)
	s.log.Info("a disruption was measured", "run", r.ID, "verdict", r.Verdict, "reason", r.Reason)
	s.g.running.Go(func() { s.g.conclude(tl, line) })
}
