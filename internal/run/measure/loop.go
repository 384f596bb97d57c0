// Package measure is one run on this machine: it sends requests through the phases of a run, and judges what it
// measures. It knows no cluster, no terminal and no command line. What else takes part is a [Part].
package measure

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/run/exit"
	"lapse/internal/run/facts"
	"lapse/internal/run/live"
	"lapse/internal/run/mask"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/timeline"
)

// Settings say how long the phases of a run take, and how it measures.
type Settings struct {
	Baseline    time.Duration
	Duration    time.Duration // of the measuring phase; 0: until the work or the workstation's command has ended
	Settle      time.Duration
	Longest     time.Duration // of the workstation's command; 0: there is none
	Timeout     time.Duration // of a request
	Pacing      loadgen.Pacing
	ControlRate float64 // requests per second to the control target

	AskedAt    string        // the rate, as a message about the baseline says it
	FirstAsked time.Duration // the shortest baseline while no answer is known
}

// A Loop is one run on this machine. One goroutine, in [Loop.Measure], owns its facts. Sources and watchers put facts
// into the queue. A change of the phase comes as a [PhaseRequest], all else as a call.
type Loop struct {
	Settings
	Clock  timeline.Clock
	Thread *loadgen.Thread // paces its requests among others'; nil: one of its own
	source timeline.Source
	Log    *slog.Logger
	Queue  *facts.Queue
	Prober *source.Source
	current

	Work     Work     // what the run lasts as long as; nil: a duration, or the workstation's command
	workExit chan int // its exit code
	Parts    []Part
	Waits    *Awaited // before the baseline; nil: for nobody
	Armed    *Armed   // the run begins at the first sign of a disruption; nil: at once
	armed    armed
	requests chan PhaseRequest
	Calls    chan func() // of other goroutines, for the one that owns the facts

	// Entered is called at each phase of the run, and when it begins to wait for a sign; nil: nothing is.
	Entered func(phase timeline.Phase, detail string)
	// Overdue returns why the run stops waiting for the workstation's command, or ""; nil: it waits.
	Overdue func(now time.Duration) string
	// Removal returns why Kubernetes ended this process, or ""; nil: unknown.
	Removal func() string

	Phase      timeline.Phase
	NextTarget timeline.TargetID
	LastSource timeline.SourceID
	Targets    map[timeline.TargetID]timeline.Target
	errors     map[errorKey]string // in the baseline: the first error of each target and class that needs one
	stopped    bool                // no more requests are sent: the run waits for the last responses
	Signalled  bool                // a signal ended the run
	Ending     string              // why the last run ended early; empty: it did not

	timer          *time.Timer   // ends the phase; the measuring phase only if its length is planned
	baselines      int           // how many times the length of the baseline is over
	longestStarved time.Duration // the longest baseline while the prober does not run
	allAsked       time.Duration // until then the baseline waits for the first responses
	working        bool          // the work was started
	interrupted    string        // why the measuring phase ended, or ends, early; empty: it is as planned
}

// NewLoop returns a run without recording, clock and live judgement.
func NewLoop(s Settings, log *slog.Logger) Loop {
	return Loop{
		Settings: s, Log: log, longestStarved: mostStarved, Queue: facts.NewQueue(),
		requests: make(chan PhaseRequest, 4), Calls: make(chan func()), workExit: make(chan int, 1),
		armed: armed{zero: new(atomic.Int64)},
	}
}

// A Work happens while a run measures: a wrapped command, a function, or changes of the run's own Service.
type Work interface {
	Start(done func(exitCode int)) error // begins, and calls done at the end
	Signal(syscall.Signal)               // asks for an early end
	Stop(done <-chan int)                // ends it, and waits a few seconds for the end
}

// A Part measures or watches in addition to the run's own targets. Each field may be nil.
type Part struct {
	Probe   func(ctx context.Context) // until ctx ends, and then until it has handed over all that it measured
	Abandon func()                    // makes Probe hand over nothing more
	Watch   func(ctx context.Context) // until ctx ends, after the last response
	Event   func(e timeline.Event)    // gets each event of the queue while requests are sent
	Refresh func(now time.Duration)   // called at each refresh while requests are sent
}

// Awaited is what a run waits for before its baseline.
type Awaited struct {
	Longest  time.Duration
	Complete func() bool
	Missing  func() (reason string) // records what is missing at the end of the wait; the reason not to begin, or ""
}

// A PhaseRequest asks the loop to change the phase.
type PhaseRequest struct {
	Phase  timeline.Phase // [timeline.PhaseSettling] or [timeline.PhaseEnded]
	Reason string         // of an unplanned change; else empty
}

// An errorKey names a target and how it failed.
type errorKey struct{ target, class string }

// Describe records what the run is, and who measures. Targets can be started after it.
func (l *Loop) Describe(meta timeline.Meta, s timeline.Source) {
	l.Targets, l.errors = map[timeline.TargetID]timeline.Target{}, map[errorKey]string{}
	l.source, l.LastSource = s, s.ID
	if l.Armed != nil {
		l.armed.await(l, meta)
	}
	l.Add(meta)
	l.Add(s)
	l.Prober = source.New(source.Config{
		ID: s.ID, Clock: l.Clock, Pacing: l.Pacing, Thread: l.Thread, Logger: l.Log,
		Sink: l.Queue.Put,
	})
}

// StartTarget numbers a target, starts its probe and records it.
func (l *Loop) StartTarget(p loadgen.Probe) error {
	if l.NextTarget == math.MaxUint32 {
		return fmt.Errorf("measure %s: a run has at most %d targets", p.Name, uint32(math.MaxUint32))
	}
	p.ID, p.Source, p.Timeout = l.NextTarget+1, l.source.ID, l.Timeout
	rate := p.Rate
	begins := p.Kind == timeline.Direct || p.Kind == timeline.Plane // at any time, at the rate that it is to have then
	changes := l.Armed != nil && (!begins || rate > l.Armed.IdleRate && !l.armed.full)
	if changes {
		p.Rate = l.armed.ownRate(p.Kind, rate)
	}
	began, err := l.Prober.Start(p)
	if err != nil {
		return err
	}
	if changes {
		l.armed.rates[p.ID] = rate
	}
	l.NextTarget++
	l.Register(p.Target)
	l.Add(began)
	return nil
}

// Forget lets go of a target of this process that ended before any run to come.
func (l *Loop) Forget(id timeline.TargetID) {
	delete(l.Targets, id)
	delete(l.armed.rates, id)
	l.Prober.Forget(id)
}

// Register records a target. The queue is read later, so that the target comes before its requests.
func (l *Loop) Register(t timeline.Target) {
	l.Targets[t.ID] = t
	t.URL = mask.Text(t.URL)
	l.Add(t)
}

// Measure measures from baseline to end, and returns the judged run. A loop that waits for signs again and again
// returns the run that its end broke off, or nil if it was waiting: [Loop.Ending] says why it has ended.
func (l *Loop) Measure(ctx context.Context, signals <-chan os.Signal) *model.Timeline {
	var probing, watching sync.WaitGroup
	stopProbing, stopWatching := l.start(ctx, &probing, &watching)
	if l.Phase = timeline.PhaseStarting; l.Waits == nil {
		l.enter(timeline.PhaseBaseline, "")
	}
	reason := l.Phases(ctx, signals)
	if l.armed.waits && !l.again() {
		reason = l.armed.unsigned(reason)
	}
	end := l.Clock.Now()

	stopProbing()
	reason = l.awaitLast(&probing, l.abandon, signals, reason)
	stopWatching()
	watching.Wait()
	l.Absorb()
	if l.Signalled && l.Removal != nil {
		reason = cmp.Or(l.Removal(), reason)
	}
	switch l.Ending = reason; {
	case l.armed.waits:
		return nil
	case l.closes > 0:
		return l.conclude(l.closes, l.armed.ended)
	}
	return l.conclude(end, reason)
}

// conclude ends the run at an instant, and returns it judged. reason is that of an unplanned end, or "".
func (l *Loop) conclude(end time.Duration, reason string) *model.Timeline {
	l.closes = 0
	l.Add(timeline.PhaseChange(end, l.Phase, timeline.PhaseEnded, reason))
	l.Live.Tracker.SetEnd(end - l.shift.By)
	ends := l.Rec != nil && !l.again() // else [Armed.Ended] sees to it: a loop that goes on must not wait for the disk
	if ends {
		l.Rec.End()
	}
	if l.Entered != nil {
		l.Entered(timeline.PhaseEnded, reason)
	}
	tl := l.Live.Last()
	if ends && l.Rec.Err != nil {
		verdict.Unsaved(tl, l.Rec.Err)
	}
	return tl
}

// start starts the goroutines that produce facts, and returns how to stop them.
func (l *Loop) start(ctx context.Context, probing, watching *sync.WaitGroup) (stopProbing, stopWatching func()) {
	probeCtx, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	watchCtx, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	control := timeline.Target{Name: "control", Kind: timeline.Control, Rate: l.ControlRate}
	if err := l.StartTarget(loadgen.Probe{Target: control}); err != nil {
		l.Log.Warn("no control target: a stall of this machine may pass for one of the service", "error", err)
	}
	probing.Go(func() {
		if err := l.Prober.Run(probeCtx); err != nil {
			l.Request(PhaseRequest{Phase: timeline.PhaseEnded, Reason: "probing failed: " + err.Error()})
		}
	})
	for _, p := range l.Parts {
		if p.Probe != nil {
			probing.Go(func() { p.Probe(probeCtx) })
		}
		if p.Watch != nil {
			watching.Go(func() { p.Watch(watchCtx) })
		}
	}
	return stopProbing, stopWatching
}

// abandon stops waiting for responses.
func (l *Loop) abandon() {
	l.Prober.Abandon()
	for _, p := range l.Parts {
		if p.Abandon != nil {
			p.Abandon()
		}
	}
}

// Request asks the loop to change the phase. It does not wait.
func (l *Loop) Request(r PhaseRequest) {
	select {
	case l.requests <- r:
	default:
	}
}

// Phases goes through the phases, and returns the reason of an unplanned end, or "".
func (l *Loop) Phases(ctx context.Context, signals <-chan os.Signal) (reason string) {
	l.timer = time.NewTimer(l.Baseline)
	if l.Waits != nil {
		l.timer.Reset(l.Waits.Longest)
	}
	defer l.timer.Stop()
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	defer l.Queue.Let(nil)
	for rests := false; ; {
		if rests != l.rests() {
			rests = !rests
			l.rest(rests, tick)
		}
		select {
		case <-l.Queue.Ready:
			l.Absorb()
		case <-l.Live.Begun:
			l.Live.Show(l.Now())
		case <-tick.C:
			l.Absorb()
			l.upkeep()
			if why := l.commandOverdue(); why != "" {
				l.settle(why)
			}
		case <-l.timer.C:
			if over, why := l.nextPhase(); over {
				return why
			}
		case do := <-l.Calls:
			if do(); l.Phase == timeline.PhaseStarting && l.Waits.Complete() {
				l.enterBaseline()
			}
		case <-l.workExit:
			l.settle(l.interrupted)
		case r := <-l.requests:
			if r.Phase == timeline.PhaseEnded || l.armed.waits {
				return r.Reason
			}
			if l.Phase != timeline.PhaseSettling { // a request may come twice
				l.settle(r.Reason)
			}
		case sig := <-signals:
			if l.interrupted != "" || !l.running() || sig != syscall.SIGINT {
				l.stopWork()
				l.Signalled = true
				return exit.StoppedBy(sig)
			}
			l.interrupted = exit.StoppedBy(sig)
			l.Work.Signal(syscall.SIGINT)
			l.Log.Warn(exit.ToldCommand(l.Settle))
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		}
	}
}

// seldom is the time between two upkeeps of a loop that rests.
const seldom = time.Second

// rests reports whether the loop waits for a sign at the idle rate.
func (l *Loop) rests() bool { return l.Phase == timeline.PhaseArmed && !l.armed.full }

// rest lets what is no sign wait for the next upkeep, and makes upkeeps seldom: each fact from each of many nodes would
// wake the loop up. Without rest, nothing waits.
func (l *Loop) rest(rests bool, tick *time.Ticker) {
	if !rests {
		l.Queue.Let(nil)
		tick.Reset(live.Refresh)
		return
	}
	l.Queue.Let(noSign)
	tick.Reset(seldom)
}

// noSign reports whether a fact is no sign of a disruption, whatever came before it.
func noSign(f timeline.Fact) bool {
	switch f := f.(type) {
	case timeline.Sync:
		return true
	case timeline.Batch:
		return !anyFailed(f.Requests)
	}
	return false
}

func anyFailed(requests []timeline.Request) bool {
	return slices.ContainsFunc(requests, func(q timeline.Request) bool { return q.Class.Failed() })
}

// nextPhase enters the next phase after the timer of this one. It reports whether the run is over, and the reason of
// an unplanned end.
func (l *Loop) nextPhase() (over bool, reason string) {
	switch l.Phase {
	case timeline.PhaseStarting:
		if why := l.Waits.Missing(); why != "" {
			return true, why
		}
		l.enterBaseline()
	case timeline.PhaseBaseline:
		l.Absorb()
		problem := judgeBaseline(l)
		if l.baselines++; problem != nil && problem.unknown && l.waitsLonger(problem) {
			l.timer.Reset(l.Baseline)
			return false, ""
		}
		if problem != nil {
			return true, problem.text
		}
		if l.Armed != nil {
			l.armed.arm()
			return false, ""
		}
		l.enter(timeline.PhaseMeasuring, "")
		if err := l.begin(); err != nil {
			return true, err.Error()
		}
	case timeline.PhaseMeasuring:
		why := l.interrupted
		if l.Longest > 0 {
			why = "the end of the command was not reported within --max-duration"
		}
		l.settle(why)
	case timeline.PhaseSettling:
		return true, l.interrupted
	}
	return false, ""
}

// enterBaseline begins the baseline, after the wait for others.
func (l *Loop) enterBaseline() {
	l.enter(timeline.PhaseBaseline, "")
	l.allAsked = l.Clock.Now() + l.FirstAsked
	l.timer.Reset(l.Baseline)
}

// settle ends the measuring phase. interrupted is the reason of an unplanned end, or "".
func (l *Loop) settle(interrupted string) {
	l.interrupted = interrupted
	l.enter(timeline.PhaseSettling, "")
	l.timer.Reset(l.Settle)
}

// commandOverdue returns why the run stops waiting for the end of the workstation's command, or "".
func (l *Loop) commandOverdue() string {
	if l.Overdue == nil || l.Phase != timeline.PhaseMeasuring {
		return ""
	}
	return l.Overdue(l.Clock.Now())
}

// awaitLast takes in the last responses. It waits for probing, which ends within the timeout of a request. A request
// to end the run, or a signal, calls abandon and ends the wait early. awaitLast returns the reason for the end of the
// run: reason, or why it ended early if reason is "".
func (l *Loop) awaitLast(probing *sync.WaitGroup, abandon func(), signals <-chan os.Signal, reason string) string {
	l.stopped = true
	over := make(chan struct{})
	go func() { probing.Wait(); close(over) }()
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return reason
		case <-l.Queue.Ready:
			l.Absorb()
		case <-tick.C:
			l.upkeep()
		case r := <-l.requests:
			if r.Phase == timeline.PhaseEnded && reason == "" { // a request may come twice
				reason, signals = r.Reason+notAwaited, nil
				abandon()
			}
		case sig := <-signals:
			reason = cmp.Or(reason, exit.StoppedBy(sig)) + notAwaited
			l.Signalled, signals = true, nil
			abandon()
		}
	}
}

// notAwaited is appended to the reason of a run that did not wait for its last responses.
const notAwaited = "; the last answers were not awaited"

// begin starts the work, the duration, or the longest wait for the workstation. The measuring phase ends with it.
func (l *Loop) begin() error {
	switch {
	case l.Work != nil:
		l.working = true
		return l.Work.Start(func(code int) { l.workExit <- code })
	case l.Duration > 0:
		l.timer.Reset(l.Duration)
	case l.Longest > 0:
		l.timer.Reset(l.Longest)
	}
	return nil
}

func (l *Loop) running() bool { return l.working && l.Phase == timeline.PhaseMeasuring }

func (l *Loop) stopWork() {
	if l.running() {
		l.Work.Stop(l.workExit)
	}
}

// enter changes the phase.
func (l *Loop) enter(phase timeline.Phase, detail string) {
	from := l.Phase
	if from == timeline.PhaseStarting {
		from = "" // no event has this phase
	}
	l.Add(timeline.PhaseChange(l.Clock.Now(), from, phase, detail))
	l.Phase = phase
	if l.Entered != nil && !l.armed.waits { // the run has not begun: arm says so
		l.Entered(phase, detail)
	}
}

// upkeep, called at every refresh, writes the recording, lets parts change their targets, and shows the run.
func (l *Loop) upkeep() {
	now := l.Clock.Now()
	for _, p := range l.Parts {
		if p.Refresh != nil && !l.stopped {
			p.Refresh(now)
		}
	}
	if l.Armed != nil && !l.stopped {
		l.armed.watchTime(now)
	}
	if l.armed.ring != nil {
		l.armed.ring.Forget(now)
	}
	if l.armed.waits {
		return
	}
	if l.Rec != nil {
		l.Rec.FlushDue(l.Now())
	}
	l.Live.Show(l.Now())
}

// Absorb takes in the facts of the queue.
func (l *Loop) Absorb() {
	for _, f := range l.Queue.Take() {
		f = mask.Hooks(f)
		if l.Armed == nil || l.stopped {
			l.Add(f)
		} else {
			sign := l.armed.signOf(f)
			l.armed.endLasting(sign)
			l.Add(f)
			l.armed.heed(sign)
		}
		e, ok := f.(timeline.Event)
		if !ok || l.stopped {
			continue
		}
		for _, p := range l.Parts {
			if p.Event != nil {
				p.Event(e)
			}
		}
	}
}

// Add records and judges one fact, whose instants are on this process's clock. It gives an event its source. A run that
// waits for a sign keeps the fact in memory.
func (l *Loop) Add(f timeline.Fact) {
	if e, ok := f.(timeline.Event); ok {
		if e.Source == 0 {
			e.Source = l.source.ID
			f = e
		}
		if e.Kind == timeline.RequestError && (l.Phase == timeline.PhaseStarting || l.Phase == timeline.PhaseBaseline) {
			which := errorKey{e.Object.Name, e.To}
			l.errors[which] = cmp.Or(l.errors[which], e.Detail)
		}
	}
	if l.Armed != nil && l.Armed.Fact != nil {
		l.Armed.Fact(f)
	}
	if l.Armed != nil {
		l.armed.leaving.add(f, l.Clock.Now())
		if s, ok := f.(timeline.Sync); ok {
			l.armed.clocks.Add(s)
		}
	}
	if l.armed.ring != nil {
		l.armed.ring.Add(f)
	}
	if !l.armed.waits {
		l.take(f)
	} else if l.Phase != timeline.PhaseArmed { // the baseline is judged
		l.Live.Add(f)
	}
}
