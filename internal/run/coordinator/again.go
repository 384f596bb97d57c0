package coordinator

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"lapse/correlate/model"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/signs"
	"lapse/internal/run/spec"
	"lapse/timeline"
)

// A Standby is the state of a measurement that waits for disruptions.
type Standby string

const (
	Idle      Standby = "idle"      // few requests, no sign
	Raised    Standby = "armed"     // a sign announced a disruption: the full rate
	Recording Standby = "recording" // a disruption is measured, until it has settled and is judged
)

// A Keeper gets the runs of [Many.MeasureAgain]. The goroutine that measures calls it: no function may wait for long.
type Keeper struct {
	// Begin completes the description of a run that begins, and returns its recording; nil: it is not recorded.
	Begin func(meta *timeline.Meta) *live.Recording
	// Ended gets each run, judged. Its recording has not ended: [live.Recording.End] waits for the disk.
	Ended func(*model.Timeline)
	// Stands is called at each change of the state. detail names the sign.
	Stands func(state Standby, detail string)
	// Armable is called once, with what raises the full rate until MeasureAgain returns. It may be nil.
	Armable func(Arm)
	// Most returns how many requests per second each target may get, while the Service waits for a disruption or at
	// the full rate. targets is their number, without the Pods' own addresses. It is asked again at each refresh. nil:
	// there is no limit.
	Most func(targets int, full bool) float64

	// What follows is for metrics. Each may be nil.
	Fact   func(timeline.Fact)   // gets each fact once, in all states, on the clock of this measurement
	Signed func(signs.Sign)      // gets each sign
	Judged func(*model.Timeline) // gets the totals of a run that goes on, once a second
}

// An Arm announces a disruption, as a sign would: the full rate for a length of time, or until the disruption has
// settled. why is the sign. Any goroutine may call it. An error says that the Service is not measured.
type Arm func(ctx context.Context, why string, length time.Duration) error

// A follower is the observer of a run that wants its totals.
type follower func(*model.Timeline)

func (f follower) Fact(timeline.Fact)      {}
func (f follower) Wants() live.Detail      { return live.Seldom }
func (f follower) Judged(j live.Judgement) { f(j.Timeline) }
func (f follower) Close(*model.Timeline)   {}

// MeasureAgain measures one disruption of the Service of o after the other, each as a run of its own, until ctx ends.
// A run that goes on then is ended, and judged. Unless --scheme was given, the Service is asked as its port suggests.
// The error says why it is not measured: it cannot be found, or does not answer.
func (all *Many) MeasureAgain(ctx context.Context, o *spec.Options, k Keeper, log *slog.Logger) error {
	o.Kube.Client = all.client
	m := newMeasurement(o, log)
	m.alive = all.life.gives
	if err := m.Find(ctx); err != nil {
		return err
	}
	for _, s := range m.Services {
		o.Scheme = cmp.Or(o.SchemeFor(s.Info), o.Scheme)
	}
	m.Clock, m.Thread, m.Live = all.thread.NewClock(), all.thread, live.New(nil)
	var raised atomic.Bool // idle, the API server is only watched
	m.raised = raised.Load
	m.Armed = &measure.Armed{
		IdleRate: o.IdleRate, Own: o.Own,
		Begin: func(meta *timeline.Meta) *live.Run {
			all.begins(o.Spec, meta)
			run := live.New(o.Gates)
			if m.Rec = k.Begin(meta); m.Rec != nil {
				run.Observers = append(run.Observers, m.Rec)
			}
			if k.Judged != nil {
				run.Observers = append(run.Observers, follower(k.Judged))
			}
			return run
		},
		Ended: k.Ended, Fact: k.Fact, Signed: k.Signed,
		Raise: func(full bool) {
			was := raised.Swap(full)
			m.setProbersRates()
			if m.setBudgets(full); was != full && m.Phase == timeline.PhaseArmed {
				k.Stands(standby(full), m.Announced())
			}
		},
		Say: func(line string) { log.Info(line) },
	}
	all.joinProbers(m)
	if k.Most != nil {
		targets := 0
		for _, s := range m.Resolved() {
			targets += len(o.ProbesOf(s))
		}
		m.Armed.Most = func(full bool) float64 { return k.Most(targets, full) }
	}
	m.Entered = func(phase timeline.Phase, detail string) {
		switch phase {
		case timeline.PhaseArmed:
			if m.fleet != nil {
				m.fleet.begin()
			}
			k.Stands(standby(raised.Load()), m.Announced())
		case timeline.PhaseMeasuring:
			m.tellMissingAnew()
			k.Stands(Recording, detail)
		}
	}
	over := make(chan struct{})
	defer close(over)
	if k.Armable != nil {
		k.Armable(m.armBy(over))
	}
	tl, err := m.run(ctx, nil)
	switch {
	case err != nil:
		return err
	case tl != nil:
		k.Ended(tl)
	}
	if ctx.Err() != nil {
		return nil
	}
	return &UnfitError{m.Ending}
}

// An UnfitError says why a Service is not measured that was found and asked: it does not answer as it should.
type UnfitError struct{ Why string }

func (e *UnfitError) Error() string { return e.Why }

// armBy returns how to arm the measurement until over is closed.
func (m *measurement) armBy(over <-chan struct{}) Arm {
	return func(ctx context.Context, why string, length time.Duration) error {
		sign := signs.Sign{Class: signs.Soon, Name: signs.Announced, Text: why, Holds: length}
		select {
		case m.Calls <- func() { measure.Announce(&m.Loop, sign) }:
			return nil
		case <-over:
			return errors.New("it is not measured any more")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func standby(full bool) Standby {
	if full {
		return Raised
	}
	return Idle
}
