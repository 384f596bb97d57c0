package run

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"lapse/deploy/agent"
	"lapse/internal/run/mask"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/internal/run/version"
	"lapse/loadgen"
	"lapse/timeline"
)

// This file is about the prober on the workstation, outside of the cluster: `--from outside`. It joins the run in the
// Job, which cannot reach it, hands over what it measures, and compares its clock with the run's all along.

// measureOutside measures from this machine, too, if that is asked for, until the returned function is called.
func (r *clusterRun) measureOutside(ctx context.Context) (leave func(), err error) {
	if len(r.opts.FromHere) == 0 {
		return func() {}, nil
	}
	p, err := r.joinOutside(ctx)
	if err != nil {
		return nil, fmt.Errorf("measure from outside of the cluster: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var measuring sync.WaitGroup
	measuring.Go(func() { p.run(ctx) })
	return func() { cancel(); measuring.Wait() }, nil
}

// An outsideProber measures on this machine for the run in the Job.
type outsideProber struct {
	*source.Source
	client *agent.Client
	handed int // how often something was handed over
}

// joinOutside makes this machine a prober of the run.
func (r *clusterRun) joinOutside(ctx context.Context) (*outsideProber, error) {
	clock := r.clock.local
	first, err := source.Sync(clock, func() (timeline.ClockOffset, error) { return r.client.SyncClock(ctx, clock) })
	if err != nil {
		return nil, fmt.Errorf("compare clocks with the Pod: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = spec.FromOutside
	}
	probes := r.opts.OutsideProbes()
	joining := agent.Joining{Name: name, Version: version.Version, T0: clock.T0(), Sync: first}
	for _, probe := range probes {
		joining.Targets = append(joining.Targets, agent.Assigned{Target: public(probe.Target), Host: probe.Host})
	}
	a, err := r.client.Join(ctx, joining)
	if err != nil {
		return nil, err
	}
	if len(a.Targets) != len(probes) {
		return nil, fmt.Errorf("the Pod numbered %d targets of %d", len(a.Targets), len(probes))
	}
	for i := range probes {
		probes[i].ID = a.Targets[i].ID
	}
	config := source.Config{ID: a.Source, Clock: clock, Pacing: loadgen.Pacing(r.opts.Pacing), Logger: r.log}
	p := &outsideProber{Source: source.New(config), client: r.client}
	return p, p.StartAll(probes)
}

// public is a target without what looks like credentials in its URL: it travels to the Pod to be recorded.
func public(t timeline.Target) timeline.Target {
	t.URL = mask.Text(t.URL)
	return t
}

// run measures until the run or ctx has ended, and hands over what was measured.
func (p *outsideProber) run(ctx context.Context) {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	exchange := func() (timeline.ClockOffset, error) { return p.client.Exchange(probing, p.Clock) }
	compare := func() (timeline.Sync, error) { return source.Sync(p.Clock, exchange) }
	var comparing sync.WaitGroup
	comparing.Go(func() { source.KeepComparing(probing, p.ID, compare, p.Facts.Put) })
	err := p.Measure(probing, func(measured []timeline.Fact, last bool) error {
		ended, err := p.client.Hand(ctx, p.handover(measured, last))
		if ended {
			stop()
		}
		return err
	})
	if _, gone := errors.AsType[*agent.GoneError](err); err != nil && !gone && ctx.Err() == nil {
		p.Logger.Warn("from here on, what is measured outside of the cluster is lost", "error", err)
	}
	stop()
	comparing.Wait()
}

// handover returns what was measured since the last time as the Pod takes it.
func (p *outsideProber) handover(measured []timeline.Fact, last bool) agent.Handed {
	h := agent.Handed{Source: p.ID, Number: p.handed, Last: last}
	p.handed++
	for _, f := range measured {
		h.Add(f)
	}
	return h
}

// An outsidePlace is the place in a run for the prober on the workstation.
type outsidePlace struct {
	joined    atomic.Uint32 // its source; 0: nobody joined
	ending    atomic.Bool   // nothing more is to be measured
	over      chan struct{} // closed when the last was handed over, or nobody waits for it
	closeOver sync.Once
}

// An outsideJoining waits for the loop's answer.
type outsideJoining struct {
	agent.Joining
	assigned chan agent.Assignment
}

func newOutsidePlace() *outsidePlace {
	return &outsidePlace{over: make(chan struct{})}
}

func (o *outsidePlace) abandon() { o.closeOver.Do(func() { close(o.over) }) }

// finish has the prober stop when ctx ends, and waits for the last of what it measured, no longer than that.
func (o *outsidePlace) finish(ctx context.Context, within time.Duration) {
	<-ctx.Done()
	o.ending.Store(true)
	if o.joined.Load() == 0 {
		return
	}
	limit := time.NewTimer(within)
	defer limit.Stop()
	select {
	case <-o.over:
	case <-limit.C:
	}
}

// Join makes the workstation a source of the run.
func (a *jobRun) Join(j agent.Joining) (agent.Assignment, error) {
	place := a.m.outside
	if place == nil {
		return agent.Assignment{}, errors.New("the run has no place for a prober outside of the cluster")
	}
	if place.joined.Load() != 0 {
		return agent.Assignment{}, errors.New("a prober outside of the cluster has joined already")
	}
	asking := &outsideJoining{j, make(chan agent.Assignment, 1)}
	select {
	case a.m.Calls <- func() { a.m.joinOutside(asking) }:
		return <-asking.assigned, nil
	case <-time.After(5 * time.Second):
		return agent.Assignment{}, errors.New("the run does not measure")
	}
}

// Take records what the workstation measured.
func (a *jobRun) Take(h agent.Handed) (over bool, err error) {
	place := a.m.outside
	if place == nil || h.Source == 0 || uint32(h.Source) != place.joined.Load() {
		return false, fmt.Errorf("no prober outside of the cluster has joined as source %d", h.Source)
	}
	for _, f := range h.Facts() {
		a.m.Queue.Put(f)
	}
	if h.Last {
		place.abandon()
	}
	return place.ending.Load(), nil
}

// joinOutside makes the prober on the workstation a source, and numbers its targets.
func (m *measurement) joinOutside(j *outsideJoining) {
	a := m.admit(timeline.Source{Name: j.Name, Role: timeline.Workstation, Version: j.Version, T0: j.T0}, j.Sync, j.Targets)
	m.outside.joined.Store(uint32(a.Source))
	j.assigned <- a
}
