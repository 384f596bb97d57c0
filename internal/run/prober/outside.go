package prober

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"lapse/deploy/agent"
	"lapse/internal/run/mask"
	"lapse/internal/run/source"
	"lapse/internal/run/spec"
	"lapse/internal/run/version"
	"lapse/loadgen"
	"lapse/timeline"
)

// This file is the prober on the workstation, outside of the cluster: `--from outside`. The Job cannot reach it: it
// joins the run, hands over what it measures, and keeps comparing its clock with the run's.

// An Outside measures on the workstation for the run in the Job.
type Outside struct {
	*source.Source
	client *agent.Client
	handed int // how many times facts were handed over
}

// JoinOutside makes this machine a prober of the run that o describes and client reaches. clock is this machine's.
func JoinOutside(
	ctx context.Context, client *agent.Client, clock timeline.Clock, o *spec.Options, log *slog.Logger,
) (*Outside, error) {
	first, err := source.Sync(clock, func() (timeline.ClockOffset, error) { return client.SyncClock(ctx, clock) })
	if err != nil {
		return nil, fmt.Errorf("compare clocks with the Pod: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = spec.FromOutside
	}
	probes := o.OutsideProbes()
	joining := agent.Joining{Name: name, Version: version.Version, T0: clock.T0(), Sync: first}
	for _, probe := range probes {
		joining.Targets = append(joining.Targets, agent.Assigned{Target: public(probe.Target), Host: probe.Host})
	}
	a, err := client.Join(ctx, joining)
	if err != nil {
		return nil, err
	}
	if len(a.Targets) != len(probes) {
		return nil, fmt.Errorf("the Pod numbered %d targets of %d", len(a.Targets), len(probes))
	}
	for i := range probes {
		probes[i].ID = a.Targets[i].ID
	}
	config := source.Config{ID: a.Source, Clock: clock, Pacing: loadgen.Pacing(o.Pacing), Logger: log}
	p := &Outside{Source: source.New(config), client: client}
	return p, p.StartAll(probes)
}

// public returns a target without likely credentials in its URL: the Pod records it.
func public(t timeline.Target) timeline.Target {
	t.URL = mask.Text(t.URL)
	return t
}

// Run measures until the run or ctx has ended, and hands over what was measured.
func (p *Outside) Run(ctx context.Context) {
	probing, stop := context.WithCancel(ctx)
	defer stop()
	exchange := func() (timeline.ClockOffset, error) { return p.client.Exchange(probing, p.Clock) }
	compare := func() (timeline.Sync, error) { return source.Sync(p.Clock, exchange) }
	var comparing sync.WaitGroup
	comparing.Go(func() { source.KeepComparing(probing, p.ID, compare, p.Facts.Put) })
	err := p.Measure(probing, func(measured []timeline.Fact, last bool) error {
		return p.handOver(ctx, measured, last, stop)
	})
	if _, gone := errors.AsType[*agent.GoneError](err); err != nil && !gone && ctx.Err() == nil {
		p.Logger.Warn("from here on, what is measured outside of the cluster is lost", "error", err)
	}
	stop()
	comparing.Wait()
}

// handOver hands over what was measured since the last time, in parts. It calls ended where the run has ended.
func (p *Outside) handOver(ctx context.Context, measured []timeline.Fact, last bool, ended func()) error {
	for over := false; !over; {
		n := atOnce(measured)
		over = n == len(measured)
		h := agent.Handed{Source: p.ID, Number: p.handed, Last: last && over}
		p.handed++
		for _, f := range measured[:n] {
			h.Add(f)
		}
		has, err := p.client.Hand(ctx, h)
		if err != nil {
			return err
		}
		if has {
			ended()
		}
		measured = measured[n:]
	}
	return nil
}

// mostAtOnce is how many requests and other facts are in one part, but for the rest of a batch: about 400 kB, far below
// what the Pod takes. After a break that lasted, much waits.
const mostAtOnce = 2000

// atOnce returns how many of some facts are in the next part.
func atOnce(measured []timeline.Fact) (n int) {
	for size := 0; n < len(measured) && size < mostAtOnce; n++ {
		size++
		switch f := measured[n].(type) {
		case timeline.Batch:
			size += len(f.Requests)
		case timeline.HeldBatch:
			size += len(f.Changes)
		}
	}
	return n
}
