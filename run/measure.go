package run

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"sync"
	"syscall"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/deploy"
	"lapse/kube"
	"lapse/loadgen"
	"lapse/run/facts"
	"lapse/run/live"
	"lapse/run/mask"
	"lapse/run/source"
	"lapse/timeline"
	"lapse/watcher"
)

// A measurement is one run on this machine. One goroutine, in run, owns its facts. Probes and
// watchers put facts into the queue, and all else comes as a phaseRequest.
type measurement struct {
	opts     *Options
	source   timeline.Source
	clock    timeline.Clock
	services []service
	client   kube.Client      // nil: nothing to watch
	predicts []timeline.Event // of preflight, about the Services
	log      *slog.Logger
	live     *live.Run

	queue       *facts.Queue
	rec         *live.Recording
	prober      *source.Source
	outside     *outsidePlace // for the prober on the workstation; nil: there is none
	fleet       *fleet        // the probers on other nodes; nil: none
	plans       []servicePlan // of the measured Services
	command     *wrappedCommand
	commandExit chan int          // the command's exit code
	requests    chan phaseRequest // from the workstation, of a run in the cluster

	entered    func(phase timeline.Phase, detail string) // called at each phase; may be nil
	overdue    func(now time.Duration) string            // why the run stops waiting for the workstation's command, or ""; nil: it waits
	removal    func() string                             // why Kubernetes ended this process, or ""; nil: unknown
	phase      timeline.Phase
	nextEvent  uint32
	nextTarget timeline.TargetID
	lastSource timeline.SourceID
	targets    map[timeline.TargetID]timeline.Target
	errors     map[errorKey]string // the first error of each target and class that needs one
	draining   bool                // no more requests are sent: the run waits for the last responses
	signalled  bool                // a signal ended the run

	timer          *time.Timer   // ends the phase; the measuring phase only if its length is planned
	baselines      int           // how many times the length of the baseline is over
	longestStarved time.Duration // the longest baseline while the prober does not run
	allAsked       time.Duration // until then each node sends two requests to each target: the baseline waits so long for the first responses
	interrupted    string        // why the measuring phase ended, or ends, early; empty: it is as planned
}

// newMeasurement returns a measurement without recording, clock and live judgement.
func newMeasurement(o *Options, log *slog.Logger) *measurement {
	m := &measurement{opts: o, log: log, longestStarved: longestStarved, queue: facts.NewQueue(), requests: make(chan phaseRequest, 4), commandExit: make(chan int, 1)}
	if o.Outside {
		m.outside = newOutsidePlace()
	}
	return m
}

// A phaseRequest asks the loop to change the phase.
type phaseRequest struct {
	phase  timeline.Phase // [timeline.PhaseSettling] or [timeline.PhaseEnded]
	reason string         // of an unplanned change; else empty
}

// An errorKey names a target and how it failed.
type errorKey struct{ target, class string }

// run measures from baseline to end. It returns the judged run. The error is of a run that
// could not begin.
func (m *measurement) run(ctx context.Context, signals <-chan os.Signal) (*model.Timeline, error) {
	m.source = m.describeSource()
	m.plans, m.targets, m.errors = nil, map[timeline.TargetID]timeline.Target{}, map[errorKey]string{}
	m.add(m.describe())
	m.add(m.source)
	for _, e := range m.predicts {
		e.Seen = m.clock.Now()
		m.add(e)
	}
	m.lastSource = m.source.ID
	if len(m.opts.Probers) > 0 {
		var err error
		if m.fleet, err = m.newFleet(ctx, os.Getenv(deploy.EnvNamespace)); err != nil {
			return nil, err
		}
	}
	m.prober = source.New(source.Config{
		ID: m.source.ID, Clock: m.clock, Pacing: loadgen.Pacing(m.opts.Pacing), Logger: m.log,
		Sink: func(f timeline.Fact) { m.queue.Put(mask.Hooks(f)) },
	})
	if err := m.startTargets(); err != nil {
		return nil, err
	}
	if !m.opts.ByClusterIP {
		m.startNames()
	}

	var probing, watching sync.WaitGroup
	stopProbing, stopWatching := m.start(ctx, &probing, &watching)
	if m.phase = timeline.PhaseStarting; m.fleet == nil {
		m.enter(timeline.PhaseBaseline, "")
	}
	reason := m.loop(ctx, signals)
	end := m.clock.Now()

	stopProbing()
	reason = m.drain(&probing, m.abandon, signals, reason)
	stopWatching()
	watching.Wait()
	m.absorb()
	if m.signalled && m.removal != nil {
		reason = cmp.Or(m.removal(), reason)
	}
	m.add(timeline.PhaseChange(end, m.phase, timeline.PhaseEnded, reason))
	m.live.Tracker.SetEnd(end)
	m.rec.End()
	if m.entered != nil {
		m.entered(timeline.PhaseEnded, reason)
	}
	tl := m.live.Last()
	if m.rec.Err != nil {
		verdict.Unsaved(tl, m.rec.Err)
	}
	return tl, nil
}

// start starts the goroutines that produce facts, and returns how to stop them.
func (m *measurement) start(ctx context.Context, probing, watching *sync.WaitGroup) (stopProbing, stopWatching func()) {
	probeCtx, stopProbing := context.WithCancel(context.WithoutCancel(ctx))
	watchCtx, stopWatching := context.WithCancel(context.WithoutCancel(ctx))
	control := timeline.Target{Name: "control", Kind: timeline.Control, Rate: m.opts.controlRate()}
	if err := m.startTarget(loadgen.Probe{Target: control}); err != nil {
		m.log.Warn("no control target: a stall of this machine may pass for one of the service", "error", err)
	}
	if len(m.services) > 0 {
		watching.Go(func() { m.watch(watchCtx) })
	}
	if m.client != nil {
		watching.Go(func() { m.checkNodes(watchCtx) })
	}
	probing.Go(func() {
		if err := m.prober.Run(probeCtx); err != nil {
			m.request(phaseRequest{timeline.PhaseEnded, "probing failed: " + err.Error()})
		}
	})
	if m.fleet != nil {
		probing.Go(func() { m.fleet.run(probeCtx) })
	}
	if m.outside != nil {
		probing.Go(func() { m.outside.finish(probeCtx, m.opts.Timeout+lastFacts) })
	}
	if m.opts.DNS != nil && (m.opts.ByClusterIP || m.headless() != nil) {
		probing.Go(func() { m.lookUp(probeCtx) })
	}
	if m.opts.Hammer != "" {
		probing.Go(func() { m.hammer(probeCtx) })
	}
	return stopProbing, stopWatching
}

// abandon stops waiting for responses.
func (m *measurement) abandon() {
	m.prober.Abandon()
	if m.outside != nil {
		m.outside.abandon()
	}
	if m.fleet != nil {
		m.fleet.abandon()
	}
}

// watch puts the events of all Services into the queue until ctx ends. If it fails, the run goes on without events.
func (m *measurement) watch(ctx context.Context) {
	config := watcher.Config{Client: m.client, Clock: m.clock, Sink: m.queue.Put, Logger: m.log}
	config.AllNamespaces = m.opts.AllNamespaces
	for _, s := range m.distinct() {
		config.Services = append(config.Services, watcher.Service{Namespace: s.Namespace, Name: s.Name, Ports: m.portsOf(s, false)})
	}
	if err := watcher.Run(ctx, config); err != nil && ctx.Err() == nil {
		m.log.Warn("the cluster is no longer watched", "error", err)
	}
}

// request asks the loop to change the phase. It does not wait.
func (m *measurement) request(r phaseRequest) {
	select {
	case m.requests <- r:
	default:
	}
}

// loop runs the phases. It returns the reason of an unplanned end, or "".
func (m *measurement) loop(ctx context.Context, signals <-chan os.Signal) (reason string) {
	m.timer = time.NewTimer(m.opts.Baseline)
	var joining chan *joining
	if m.fleet != nil {
		m.timer.Reset(m.opts.ProberWait)
		joining = m.fleet.joining
	}
	var outsiders chan *outsideJoining
	if m.outside != nil {
		outsiders = m.outside.asking
	}
	defer m.timer.Stop()
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-m.queue.Ready:
			m.absorb()
		case <-m.live.Begun:
			m.live.Show(m.clock.Now())
		case <-tick.C:
			m.upkeep()
			if why := m.commandOverdue(); why != "" {
				m.settle(why)
			}
		case <-m.timer.C:
			if over, why := m.nextPhase(); over {
				return why
			}
		case j := <-joining:
			if m.join(j); m.phase == timeline.PhaseStarting && m.fleet.complete() {
				m.enterBaseline()
			}
		case j := <-outsiders:
			m.joinOutside(j)
		case <-m.commandExit:
			m.settle(m.interrupted)
		case r := <-m.requests:
			if r.phase == timeline.PhaseEnded {
				return r.reason
			}
			if m.phase != timeline.PhaseSettling { // a request may come twice
				m.settle(r.reason)
			}
		case sig := <-signals:
			if m.interrupted != "" || !m.running() || sig != syscall.SIGINT {
				m.stopCommand()
				m.signalled = true
				return stoppedBy(sig)
			}
			m.interrupted = stoppedBy(sig)
			m.command.signal(syscall.SIGINT)
		case <-ctx.Done():
			return context.Cause(ctx).Error()
		}
	}
}

// nextPhase enters the next phase after the timer of this one. It reports whether the run is over, and the reason of
// an unplanned end.
func (m *measurement) nextPhase() (over bool, reason string) {
	switch m.phase {
	case timeline.PhaseStarting:
		if why := m.missingProbers(); why != "" {
			return true, why
		}
		m.enterBaseline()
	case timeline.PhaseBaseline:
		problem := m.judgeBaseline()
		if m.baselines++; problem != nil && problem.unknown && (m.baselines < mostBaselines || problem.starved && m.clock.Now() < m.longestStarved || m.clock.Now() < m.allAsked) {
			m.timer.Reset(m.opts.Baseline)
			return false, ""
		}
		if problem != nil {
			return true, problem.text
		}
		m.enter(timeline.PhaseMeasuring, "")
		if err := m.begin(); err != nil {
			return true, err.Error()
		}
	case timeline.PhaseMeasuring:
		why := m.interrupted
		if m.opts.ExternalCommand {
			why = "the end of the command was not reported within --max-duration"
		}
		m.settle(why)
	case timeline.PhaseSettling:
		return true, m.interrupted
	}
	return false, ""
}

func (m *measurement) enterBaseline() {
	m.enter(timeline.PhaseBaseline, "")
	m.allAsked = m.clock.Now() + m.opts.twoRequests(len(m.fleet.nodes))
	m.timer.Reset(m.opts.Baseline)
}

// settle ends the measuring phase. interrupted is the reason of an unplanned end, or "".
func (m *measurement) settle(interrupted string) {
	m.interrupted = interrupted
	m.enter(timeline.PhaseSettling, "")
	m.timer.Reset(m.opts.Settle)
}

// commandOverdue is why the run stops waiting for the end of the workstation's command, or "".
func (m *measurement) commandOverdue() string {
	if m.overdue == nil || m.phase != timeline.PhaseMeasuring {
		return ""
	}
	return m.overdue(m.clock.Now())
}

// drain takes in the last responses. It waits for probing, which ends within the timeout of a request. A request to
// end the run, or a signal, calls abandon and ends the wait early. drain returns the reason for the end of the run:
// reason, or if that is "" the early end.
func (m *measurement) drain(probing *sync.WaitGroup, abandon func(), signals <-chan os.Signal, reason string) string {
	m.draining = true
	over := make(chan struct{})
	go func() { probing.Wait(); close(over) }()
	tick := time.NewTicker(live.Refresh)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return reason
		case <-m.queue.Ready:
			m.absorb()
		case <-tick.C:
			m.upkeep()
		case r := <-m.requests:
			if r.phase == timeline.PhaseEnded && reason == "" { // a request may come twice
				reason, signals = r.reason+notAwaited, nil
				abandon()
			}
		case sig := <-signals:
			reason = cmp.Or(reason, stoppedBy(sig)) + notAwaited
			m.signalled, signals = true, nil
			abandon()
		}
	}
}

// notAwaited is appended to the reason of a run that did not wait for its last responses.
const notAwaited = "; the last answers were not awaited"

// begin starts the command, the duration, or the longest wait for the workstation. The measuring phase ends with it.
func (m *measurement) begin() error {
	switch {
	case len(m.opts.Command) > 0:
		return m.command.start(func(code int) { m.commandExit <- code })
	case m.opts.Duration > 0:
		m.timer.Reset(m.opts.Duration)
	case m.opts.ExternalCommand:
		m.timer.Reset(m.opts.MaxDuration)
	}
	return nil
}

func (m *measurement) running() bool {
	return m.command != nil && m.command.cmd != nil && m.phase == timeline.PhaseMeasuring
}

func (m *measurement) stopCommand() {
	if m.running() {
		m.command.stop(m.commandExit)
	}
}

func (m *measurement) enter(phase timeline.Phase, detail string) {
	from := m.phase
	if from == timeline.PhaseStarting {
		from = "" // no event has this phase
	}
	m.add(timeline.PhaseChange(m.clock.Now(), from, phase, detail))
	m.phase = phase
	if m.entered != nil {
		m.entered(phase, detail)
	}
}

// upkeep, called at every refresh, writes the recording, changes direct targets, and shows the run.
func (m *measurement) upkeep() {
	now := m.clock.Now()
	m.rec.FlushDue(now)
	if !m.draining {
		m.followPlans(now)
	}
	m.live.Show(now)
}

// absorb takes in the facts of the queue.
func (m *measurement) absorb() {
	for _, f := range m.queue.Take() {
		m.add(f)
		if e, ok := f.(timeline.Event); ok && !m.draining {
			m.followEndpoints(e)
		}
	}
}

// add records and judges one fact. It gives an event its number and its source.
func (m *measurement) add(f timeline.Fact) {
	if e, ok := f.(timeline.Event); ok {
		m.nextEvent++
		e.ID, e.Source = m.nextEvent, cmp.Or(e.Source, m.source.ID)
		f = e
		if which := (errorKey{e.Object.Name, e.To}); e.Kind == timeline.RequestError && m.errors[which] == "" {
			m.errors[which] = e.Detail
		}
	}
	m.live.Add(f)
}
