package measure

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/record"
	"lapse/internal/run/live"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/timeline"
)

// A Config says what [Measure] measures.
type Config struct {
	Meta      timeline.Meta   // of the run; what this Config says is filled in
	Probes    []loadgen.Probe // the targets: of each its Name, Kind, URL and Rate, and how to ask
	Baseline  time.Duration   // before the function; 0: none, and no check that targets answer
	Settle    time.Duration   // after the function
	Timeout   time.Duration   // of a request; default [loadgen.DefaultTimeout]
	Pacing    loadgen.Pacing  // default: economical
	Gates     []verdict.Gate
	Recording *record.Writer // of every fact; default: none. It is closed at the end
	Logger    *slog.Logger   // default: none

	// Watch puts facts about what happens around the targets, until ctx ends; default: none.
	Watch func(ctx context.Context, clock timeline.Clock, put func(timeline.Fact))
}

// A NotWellError says that a target gave no good answers in the baseline.
type NotWellError struct{ Why string }

func (e *NotWellError) Error() string { return e.Why }

// Measure sends requests while during runs, and returns the judged run. It writes nothing but the recording, installs
// no signal handler, reads no environment and prints nothing. When ctx ends, the context of during does, and Measure
// returns after during.
//
// The run is judged also if there is an error: that of during, of ctx, or of the recording. There is none if during
// was not called, because a target cannot be measured or is not well ([NotWellError]).
func Measure(ctx context.Context, c Config, during func(context.Context) error) (*model.Timeline, error) {
	c.Timeout, c.Pacing = cmp.Or(c.Timeout, loadgen.DefaultTimeout), cmp.Or(c.Pacing, loadgen.Economical)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	l, f := c.loop(), newFunction(ctx, during)
	defer f.cancel()
	l.Work = f
	if err := c.start(l); err != nil {
		l.Prober.Close()
		l.Live.End(nil)
		return nil, err
	}
	tl := l.Measure(ctx, nil)
	err := f.end()
	l.Live.End(tl)
	switch {
	case !l.working && ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case !l.working:
		return nil, &NotWellError{tl.Run.Aborted}
	}
	if l.Rec != nil {
		err = errors.Join(err, l.Rec.Err)
	}
	return tl, cmp.Or(err, context.Cause(ctx))
}

// loop returns the run that c describes.
func (c Config) loop() *Loop {
	rate := source.MostControl
	for _, p := range c.Probes {
		rate = min(rate, p.Rate)
	}
	l := NewLoop(Settings{
		Baseline:    c.Baseline,
		Settle:      c.Settle,
		Timeout:     c.Timeout,
		Pacing:      c.Pacing,
		ControlRate: rate,
		AskedAt:     "this rate",
	}, c.Logger)
	l.Clock = timeline.StartClock()
	l.Live = live.New(c.Gates)
	if c.Recording != nil {
		l.Rec = &live.Recording{Writer: c.Recording, Every: time.Second, Log: c.Logger}
		l.Live.Observers = append(l.Live.Observers, l.Rec)
	}
	if c.Watch != nil {
		watch := func(ctx context.Context) { c.Watch(ctx, l.Clock, l.Queue.Put) }
		l.Parts = append(l.Parts, Part{Watch: watch})
	}
	return &l
}

// start describes the run, and starts its targets.
func (c Config) start(l *Loop) error {
	t0 := l.Clock.T0()
	here := timeline.Source{ID: 1, Name: "here", Role: timeline.Workstation, Version: c.Meta.Tool, T0: t0}
	l.Describe(c.meta(t0), here)
	for _, p := range c.Probes {
		if p.Kind == timeline.Reused {
			p.Target.Connections = cmp.Or(p.Connections, loadgen.DefaultConnections)
		}
		if err := l.StartTarget(p); err != nil {
			return err
		}
	}
	return nil
}

// meta returns the description of a run that begins at t0.
func (c Config) meta(t0 time.Time) timeline.Meta {
	meta := c.Meta
	meta.T0, meta.ID = t0, cmp.Or(meta.ID, t0.UTC().Format("20060102-150405"))
	o := &meta.Options
	o.Baseline, o.Settle, o.Timeout = c.Baseline, c.Settle, c.Timeout
	o.Gates = nil
	for _, g := range c.Gates {
		o.Gates = append(o.Gates, g.String())
	}
	return meta
}

// A function is the work of a run that lasts as long as a Go function.
type function struct {
	do     func(context.Context) error
	ctx    context.Context
	cancel context.CancelFunc
	ended  chan struct{} // nil: not started
	err    error
}

func newFunction(ctx context.Context, do func(context.Context) error) *function {
	f := &function{do: do}
	f.ctx, f.cancel = context.WithCancel(ctx)
	return f
}

// Start calls the function.
func (f *function) Start(done func(exitCode int)) error {
	f.ended = make(chan struct{})
	f.err = errors.New("the function ended its goroutine") // as t.FailNow does
	go func() {
		defer func() {
			close(f.ended)
			done(0)
		}()
		f.err = f.do(f.ctx)
	}()
	return nil
}

// Signal ends the function's context.
func (f *function) Signal(syscall.Signal) { f.cancel() }

// Stop ends the function's context.
func (f *function) Stop(<-chan int) { f.cancel() }

// end waits for the function, if it was started, and returns its error.
func (f *function) end() error {
	f.cancel()
	if f.ended == nil {
		return nil
	}
	<-f.ended
	return f.err
}
