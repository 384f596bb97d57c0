// Package coordinator is the process that measures and judges a run: the agent in the Job's Pod, or a run on this
// machine, of a URL or with --here.
//
// It looks up the Services, starts their targets, and lets the loop of run/measure go through the phases. Watchers,
// probers on other nodes (fleet) and the prober on the workstation take part in the loop. In the Pod, the agent serves
// the recording, takes requests, and holds the result.
package coordinator

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/internal/run/live"
	"lapse/internal/run/measure"
	"lapse/internal/run/resolve"
	"lapse/internal/run/signs"
	"lapse/internal/run/spec"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// A measurement is a run in this process with all that takes part in it: the Services that were found, the probers on
// other nodes, and the prober on the workstation.
type measurement struct {
	measure.Loop
	resolve.Found
	directs
	opts *spec.Options
	log  *slog.Logger

	alive   alive         // nil: the watcher asks itself
	raised  func() bool   // whether the full rate is in force; nil: it always is
	outside *outsidePlace // for the prober on the workstation; nil: there is none
	fleet   *fleet        // the probers on other nodes; nil: there are none

	planes map[string]timeline.TargetID // those of the API servers, by name

	nodesChanged chan struct{} // has one value after nodes or Services changed, see [measurement.findChecks]
}

// alive asks the API server for a sign of life, by reading a Service.
type alive func(ctx context.Context, namespace, service string) bool

// newMeasurement returns a measurement without recording, clock and live judgement.
func newMeasurement(o *spec.Options, log *slog.Logger) *measurement {
	m := &measurement{opts: o, log: log, Loop: measure.NewLoop(settingsOf(o), log), Found: resolve.NewFound(o, log)}
	m.planes, m.nodesChanged = map[string]timeline.TargetID{}, make(chan struct{}, 1)
	m.directs = directs{loop: &m.Loop, found: &m.Found, opts: o}
	if o.Outside {
		m.outside = newOutsidePlace()
	}
	return m
}

// settingsOf returns the lengths of the run's phases, as far as they are known.
func settingsOf(o *spec.Options) measure.Settings {
	s := measure.Settings{
		Baseline:    o.Baseline,
		Duration:    o.Duration,
		Settle:      o.Settle,
		Timeout:     o.Timeout,
		Pacing:      loadgen.Pacing(o.Pacing),
		ControlRate: o.ControlRate(),
		AskedAt:     fmt.Sprintf("--rate %v", o.RateFrom(1)),
	}
	if o.ExternalCommand {
		s.Longest = o.MaxDuration
	}
	if o.Armed {
		s.AskedAt = fmt.Sprintf("--idle-rate %v", o.IdleRate)
	}
	if n := len(o.Probers); n > 0 {
		shared := " shared by "
		if o.NodeRate != 0 {
			shared = " from each of "
		}
		s.AskedAt += shared + quantity.Count(n, "node")
		s.FirstAsked = o.TwoRequests(n)
	}
	return s
}

// run measures from baseline to end, and returns the judged run. The error says why the run could not begin.
func (m *measurement) run(ctx context.Context, signals <-chan os.Signal) (*model.Timeline, error) {
	m.Settings = settingsOf(m.opts) // the nodes to measure from are known now
	m.Describe(m.meta(), m.describeSource())
	for _, e := range m.Predicts {
		e.Seen = m.Clock.Now()
		m.Add(e)
	}
	if len(m.opts.Probers) > 0 {
		if err := m.startFleet(ctx); err != nil {
			return nil, err
		}
	}
	if err := m.startTargets(); err != nil {
		return nil, err
	}
	if !m.opts.ByClusterIP {
		m.startNames()
	}
	m.Parts = append(m.Parts, m.otherParts()...)
	return m.Measure(ctx, signals), nil
}

// arm makes the run wait for the first sign of a disruption. begin makes its live judgement then.
func (m *measurement) arm(begin func() *live.Run, say func(line string)) {
	m.Live = live.New(nil)
	m.Armed = &measure.Armed{
		IdleRate: m.opts.IdleRate, Own: m.opts.Own, Say: say,
		Raise: func(full bool) {
			m.setBudgets(full)
			m.setProbersRates()
		},
		Begin: func(*timeline.Meta) *live.Run { return begin() },
	}
	if m.opts.AgentListen != "" {
		m.Armed.Longest = m.opts.MaxDuration
	}
}

// otherParts returns what measures and watches in addition to the targets of this process.
func (m *measurement) otherParts() (parts []measure.Part) {
	if len(m.Services) > 0 {
		parts = append(parts, measure.Part{Watch: m.watch})
	}
	if m.Client != nil {
		parts = append(parts, measure.Part{Watch: m.checkNodes})
	}
	if m.opts.ControlPlane && m.REST != nil {
		parts = append(parts, measure.Part{Watch: m.askAPIServers})
	}
	if m.outside != nil {
		finish := func(ctx context.Context) { m.outside.finish(ctx, m.Timeout+lastFacts) }
		parts = append(parts, measure.Part{Probe: finish, Abandon: m.outside.abandon})
	}
	if m.opts.DNS != nil && (m.opts.ByClusterIP || m.Headless() != nil) {
		parts = append(parts, measure.Part{Probe: m.lookUp})
	}
	if m.opts.Hammer != "" {
		parts = append(parts, measure.Part{Probe: m.hammer})
	}
	return parts
}

// holdEvents is how long a guard holds Events of other objects. Those of a Pod or its ReplicaSet come before the Pod
// does: by milliseconds, or by minutes while a quota refuses it.
const holdEvents = 10 * time.Minute

// watchAgain is after how long a guard tries to watch the cluster again.
const watchAgain = 30 * time.Second

// watch puts the events of all Services into the queue until ctx ends. If it fails, the run goes on without events, and
// a guard tries again.
func (m *measurement) watch(ctx context.Context) {
	sink := func(f timeline.Fact) {
		m.Queue.Put(f)
		if e, ok := f.(timeline.Event); ok {
			m.noteNodes(e.Kind)
		}
	}
	config := watcher.Config{Client: m.Client, Clock: m.Clock, Sink: sink, Logger: m.log}
	config.AllNamespaces, config.Reads, config.NodeMarks = m.opts.AllNamespaces, m.raised, signs.Marks(m.opts.Own)
	if m.Armed != nil && m.Armed.Ended != nil { // for ever
		config.HoldFor = holdEvents
	}
	if of := m.Distinct()[0]; m.alive != nil {
		config.Alive = func(ctx context.Context) bool { return m.alive(ctx, of.Namespace, of.Name) }
	}
	for _, s := range m.Distinct() {
		watched := watcher.Service{Namespace: s.Namespace, Name: s.Name, Ports: m.PortsOf(s, false)}
		config.Services = append(config.Services, watched)
	}
	for said := ""; ; {
		err := watcher.Run(ctx, config)
		if err == nil || ctx.Err() != nil {
			return
		}
		if err.Error() != said {
			said = err.Error()
			m.log.Warn("the cluster is not watched", "error", err)
		}
		if config.HoldFor == 0 { // a run has no time for that to be mended
			return
		}
		select {
		case <-time.After(watchAgain):
		case <-ctx.Done():
			return
		}
	}
}
