package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"lapse/deploy/agent"
	"lapse/kube"
	"lapse/loadgen"
	"lapse/timeline"
	"lapse/watcher"
)

// This file is about the prober on the workstation, outside of the cluster: `--from outside`. It joins the run in the
// Job, which cannot reach it, hands over what it measures, and compares its clock with the run's all along.

// fromOutside is the place that --from names for this machine.
const fromOutside = "outside"

// readOutside takes the workstation out of --from; what is left are nodes.
func (o *Options) readOutside() error {
	places := strings.Split(o.From, ",")
	if !slices.Contains(places, fromOutside) {
		return nil
	}
	o.Outside = true
	o.From = strings.Join(slices.DeleteFunc(places, func(place string) bool { return place == fromOutside }), ",")
	const advice = "as in `lapse run svc/web --from all,outside -- kubectl drain node1 --ignore-daemonsets`"
	switch {
	case o.Changes > 0:
		return Usagef("drop it from --from", "--from outside: the Service of `lapse routes` has no address outside of the cluster")
	case o.YAML, o.AgentListen != "":
		return Usagef("`lapse run` measures from here besides", "--from outside: a Job that is applied by hand has no workstation")
	case o.Chooses():
		return Usagef("name the Services; "+advice, "--from outside: chosen Services need not have an address outside of the cluster")
	case !o.InCluster():
		return Usagef("drop it, or name a Service; "+advice, "--from outside: what is measured here is measured from nowhere else")
	}
	return nil
}

// findOutside finds the ways by which this machine reaches a Service, and refuses one that leads nowhere.
func (o *Options) findOutside(ctx context.Context, client kube.Client, s targetSpec, info watcher.Info) error {
	if !o.Outside {
		return nil
	}
	ways, err := watcher.OutsideWays(ctx, client, info.Service.Namespace, info.Service.Name, o.asked(s))
	if err != nil {
		return err
	}
	for i, w := range ways {
		if addr, err := netip.ParseAddr(w.Host); err == nil && !loadgen.HasRoute(addr) {
			return Usagef("measure from a machine that has one, or leave out --from outside", "--from outside: this machine has no route to %s of Service %q, %s", w.Name(), s.Service, addr)
		}
		ways[i] = w
	}
	info.Ways = ways
	o.outside = append(o.outside, service{target: s, info: info, measured: true})
	return nil
}

// measureOutside measures from this machine, too, if that is asked for, until the returned function is called.
func (r *clusterRun) measureOutside(ctx context.Context) (leave func(), err error) {
	if len(r.opts.outside) == 0 {
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

// outsideProbes are the probes of this machine: the targets by their outer ways, and an echo server of its own.
func (o *Options) outsideProbes() (probes []loadgen.Probe) {
	for _, s := range o.outside {
		for _, p := range o.probesOf(s) {
			p.Name += " from " + fromOutside
			p.Timeout = o.Timeout
			if p.Kind == timeline.Reused {
				p.Target.Connections = cmp.Or(p.Connections, loadgen.DefaultConnections)
			}
			probes = append(probes, p)
		}
	}
	return append(probes, loadgen.Probe{Target: timeline.Target{
		Name: "control from " + fromOutside, Kind: timeline.Control, Rate: o.controlRate(), Timeout: o.Timeout,
	}})
}

// An outsideProber measures on this machine for the run in the Job.
type outsideProber struct {
	client *agent.Client
	clock  timeline.Clock
	log    *slog.Logger
	source timeline.SourceID
	facts  *queue
	prober *loadgen.Prober
	close  context.CancelFunc // of the echo server

	handed int // how often something was handed over
}

// joinOutside makes this machine a prober of the run.
func (r *clusterRun) joinOutside(ctx context.Context) (*outsideProber, error) {
	p := &outsideProber{client: r.client, clock: r.clock.local, log: r.log, facts: newQueue()}
	first, err := p.compare(ctx, p.client.SyncClock)
	if err != nil {
		return nil, fmt.Errorf("compare clocks with the Pod: %w", err)
	}
	name, err := os.Hostname()
	if err != nil {
		name = fromOutside
	}
	probes := r.opts.outsideProbes()
	joining := agent.Joining{Name: name, Version: Version, T0: p.clock.T0(), Sync: first}
	for _, probe := range probes {
		joining.Targets = append(joining.Targets, agent.Assigned{Target: public(probe.Target), Host: probe.Host})
	}
	a, err := p.client.Join(ctx, joining)
	if err != nil {
		return nil, err
	}
	if len(a.Targets) != len(probes) {
		return nil, fmt.Errorf("the Pod numbered %d targets of %d", len(a.Targets), len(probes))
	}
	p.source = a.Source
	return p, p.begin(a, probes)
}

// public is a target without what looks like credentials in its URL: it travels to the Pod to be recorded.
func public(t timeline.Target) timeline.Target {
	t.URL = maskText(t.URL)
	return t
}

// begin starts the probes, as the run numbers them.
func (p *outsideProber) begin(a agent.Assignment, probes []loadgen.Probe) error {
	serving, stop := context.WithCancel(context.Background())
	p.close = stop
	control, err := loadgen.ServeControl(serving)
	if err != nil {
		stop()
		return err
	}
	p.prober = loadgen.New(loadgen.Config{Clock: p.clock, Source: a.Source, Sink: p.facts.put, Logger: p.log})
	for i, probe := range probes {
		probe.ID, probe.Source = a.Targets[i].ID, a.Source
		if probe.Kind == timeline.Control {
			probe.URL = (&url.URL{Scheme: "http", Host: control.String(), Path: "/"}).String()
		}
		began := targetIs(probe.Name, "", "measuring", p.clock.Now())
		if err := p.prober.Start(probe); err != nil {
			stop()
			return fmt.Errorf("measure %s: %w", probe.Name, err)
		}
		began.Source = a.Source
		p.facts.put(began)
	}
	return nil
}

// run measures until the run or ctx has ended, and hands over what was measured.
func (p *outsideProber) run(ctx context.Context) {
	defer p.close()
	probing, stop := context.WithCancel(ctx)
	defer stop()
	over := make(chan struct{})
	go func() {
		defer close(over)
		if err := p.prober.Run(probing); err != nil {
			p.log.Error("probing from here failed", "error", err)
		}
	}()
	var comparing sync.WaitGroup
	comparing.Go(func() { p.keepComparing(probing) })
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-tick.C:
		case <-over:
			last = true
		}
		ended, err := p.client.Hand(ctx, p.collect(last))
		if err != nil {
			if _, gone := errors.AsType[*agent.GoneError](err); !gone && ctx.Err() == nil {
				p.log.Warn("from here on, what is measured outside of the cluster is lost", "error", err)
			}
			break
		}
		if ended {
			stop()
		}
	}
	stop()
	<-over
	comparing.Wait()
}

// collect is what was measured since the last time.
func (p *outsideProber) collect(last bool) agent.Handed {
	h := agent.Handed{Source: p.source, Number: p.handed, Last: last}
	p.handed++
	for _, f := range p.facts.take() {
		h.Add(f)
	}
	return h
}

// keepComparing compares the clocks again and again until ctx ends.
func (p *outsideProber) keepComparing(ctx context.Context) {
	tick := time.NewTicker(exchangeClocks)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if s, err := p.compare(ctx, p.client.Exchange); err == nil {
			s.Source = p.source
			p.facts.put(s)
		}
	}
}

// compare says how this machine's clock stands against the run's. The comparison was made at some instant while
// exchange ran, and is stated of the latest.
func (p *outsideProber) compare(ctx context.Context, exchange exchange) (timeline.Sync, error) {
	asked := p.clock.Now()
	ahead, err := exchange(ctx, p.clock)
	if err != nil {
		return timeline.Sync{}, err
	}
	answered := p.clock.Now()
	slack := time.Duration(drift*float64(answered-asked)) + 1
	return timeline.Sync{At: answered, Min: ahead.Min - slack, Max: ahead.Max + slack}, nil
}

// An outsidePlace is the place in a run for the prober on the workstation.
type outsidePlace struct {
	asking    chan *outsideJoining // to the loop
	joined    atomic.Uint32        // its source; 0: nobody joined
	ending    atomic.Bool          // nothing more is to be measured
	over      chan struct{}        // closed when the last was handed over, or nobody waits for it
	closeOver sync.Once
}

// An outsideJoining waits for the loop's answer.
type outsideJoining struct {
	agent.Joining
	assigned chan agent.Assignment
}

func newOutsidePlace() *outsidePlace {
	return &outsidePlace{asking: make(chan *outsideJoining), over: make(chan struct{})}
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
	case place.asking <- asking:
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
		a.m.queue.put(f)
	}
	if h.Last {
		place.abandon()
	}
	return place.ending.Load(), nil
}

// joinOutside makes the prober on the workstation a source, and numbers its targets.
func (m *measurement) joinOutside(j *outsideJoining) {
	m.lastSource++
	source := timeline.Source{ID: m.lastSource, Name: j.Name, Role: timeline.Workstation, Version: j.Version, T0: j.T0}
	j.Sync.Source = source.ID
	m.add(source)
	m.add(j.Sync)
	a := agent.Assignment{Source: source.ID}
	for _, t := range j.Targets {
		m.nextTarget++
		t.ID, t.Source = m.nextTarget, source.ID
		m.register(t.Target)
		a.Targets = append(a.Targets, t)
	}
	m.outside.joined.Store(uint32(source.ID))
	j.assigned <- a
}
