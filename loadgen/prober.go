package loadgen

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"math"
	"slices"
	"sync"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// What was measured is handed on so often, and more seldom only where requests are seldom: nothing is then older than
// the interval of the target that is asked most often, and a failed request does not wait.
const (
	delivery = 50 * time.Millisecond
	// LongestDelivery is how long it takes at most until a Sink gets what was measured.
	LongestDelivery = time.Second
	// ForgetUnused is after how long without a request that refers to it a prober with a Thread may forget a backend or
	// a peer: it may measure for months. At twice that it has. The next such request makes it a [timeline.Backend] or a
	// [timeline.Peer] again.
	ForgetUnused = 10 * time.Minute
)

// Config is what a Prober needs to know.
type Config struct {
	Clock  timeline.Clock    // of its facts; with a Thread, one that [Thread.NewClock] made
	Source timeline.SourceID // this prober, in its facts
	// Sink takes the facts: Batch, HeldBatch, Backend, Peer, and ProberStall, RequestError, AddressFailed and
	// NameAnswered events. It is called by one goroutine at a time and must not block for long; the measurement does
	// not wait for it, but memory does.
	Sink   func(timeline.Fact)
	Logger *slog.Logger // nil for none
	Pacing Pacing       // default Economical
	// Thread paces this prober among others; nil: one of its own does.
	Thread *Thread
}

// A Prober measures targets. It emits no Target facts and no TargetChanged events: that is for whoever numbers
// the targets.
type Prober struct {
	thread *Thread
	shared bool          // it paces others, too
	zero   time.Duration // of the prober's clock, on the thread's: whole microseconds
	offset float64       // which part of their intervals its targets are shifted by, from those of other probers
	source timeline.SourceID
	sink   func(timeline.Fact)
	log    *slog.Logger
	notes  engine.Notes
	sent   uint64        // requests handed on; belongs to deliver, as do
	usual  int           // how many the last batch held
	forgot time.Duration // when unused backends and peers were forgotten
	paced  bool          // no longer; belongs to the pacing thread

	hurry      chan struct{} // has one if what was measured is not to wait
	abandoning sync.Once
	abandoned  chan struct{} // closed by Abandon

	mu       sync.Mutex
	state    runState
	targets  map[timeline.TargetID]*target // those that were stopped, too: an ID counts its requests once
	places   places
	draining []*target        // in the order started, those whose last requests were not handed on yet
	stalls   []timeline.Event // not yet handed on
	active   sync.WaitGroup   // targets being prepared or closed
}

type runState uint8

const (
	waiting runState = iota
	running
	done
)

// New returns a Prober. Nothing is sent before Run.
func New(c Config) *Prober {
	log := c.Logger
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	thread := c.Thread
	if thread == nil {
		thread = NewThread(c.Clock, c.Pacing, log)
	}
	return &Prober{
		thread:    thread,
		shared:    c.Thread != nil,
		zero:      c.Clock.T0().Sub(thread.clock.T0()),
		offset:    thread.offset(),
		source:    c.Source,
		sink:      c.Sink,
		log:       log,
		targets:   map[timeline.TargetID]*target{},
		hurry:     make(chan struct{}, 1),
		abandoned: make(chan struct{}),
	}
}

// Run measures until ctx ends, then waits for what is in flight, no longer than the timeout or until it is abandoned,
// and hands the last batch on. It returns nil then, and can be called once.
func (p *Prober) Run(ctx context.Context) error {
	if err := p.begin(); err != nil {
		return err
	}
	over, stop := make(chan struct{}), make(chan struct{})
	var pacing, delivering sync.WaitGroup
	if !p.shared {
		pacing.Go(func() { p.thread.Run(over) })
	}
	delivering.Go(func() { p.deliverUntil(stop) })
	<-ctx.Done()
	p.thread.change(func(pacer *pacer, now time.Duration) {
		pacer.finish(p, now)
		p.paced = true
	})
	p.endAllOrAbandon()
	if p.shared {
		p.thread.change(func(pacer *pacer, _ time.Duration) { pacer.leave(p) })
	}
	close(over)
	pacing.Wait()
	close(stop)
	delivering.Wait()
	return nil
}

func (p *Prober) begin() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state != waiting {
		return errors.New("a prober runs only once")
	}
	p.state = running
	p.thread.open()
	p.thread.changes.add(func(pacer *pacer, _ time.Duration) { pacer.probers = append(pacer.probers, p) })
	reserveFiles(p.mostFiles())
	for t := range p.all() {
		p.prepare(t)
	}
	return nil
}

// fewFiles is room for what is started later and for the rest of the program.
const fewFiles = 8192

// mostFiles returns how many open files a stall of all targets may take: a connection for each request that waits, and
// as many for the server, if it is in this process. The caller holds mu.
func (p *Prober) mostFiles() int {
	n := fewFiles
	for _, t := range p.draining {
		n += 2 * t.MaxOpen()
	}
	return n
}

// Start begins measuring a target, at once or when Run begins. A target with persistent connections gets its first
// request when they are connected or have failed to, but no more than 100 ms later. A target that was stopped may be
// started again: its requests are counted on. Errors say what is wrong with the probe.
func (p *Prober) Start(probe Probe) error {
	compiled, err := protocol.Compile(probe)
	if err != nil {
		return err
	}
	compiled.Ports = p.thread.ports
	t := &target{prober: p, prepared: make(chan struct{})}
	t.Requester, t.engine = engine.New(compiled, probe.Rate, engine.Shared{
		Clock: p.thread.clock, Log: p.log, Stalls: &p.thread.detector, Polling: p.thread.polling, Notes: &p.notes,
		Failed: p.hurryOn,
	})
	return p.register(t)
}

func (p *Prober) register(t *target) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.state == done {
		return errors.New("the prober has ended")
	}
	if t.before = p.targets[t.ID]; t.before != nil && !t.before.stopped.Load() {
		return fmt.Errorf("target %d was started before", t.ID)
	}
	t.place = p.places.take() // in the order of Start: which is prepared first is chance
	_, t.share = math.Modf(p.offset + evenShare(t.place))
	p.targets[t.ID] = t
	if t.before == nil {
		p.draining = append(p.draining, t)
	}
	if p.state == running {
		p.prepare(t)
	}
	return nil
}

// prepare readies t in the background and then has it paced. The caller holds mu.
func (p *Prober) prepare(t *target) {
	before := t.before
	if before == nil {
		p.active.Go(func() { p.ready(t) })
		return
	}
	// it comes after the change by which Stop took the former from the pacer
	p.thread.changes.add(func(*pacer, time.Duration) {
		t.schedule.seq = before.schedule.seq
		p.active.Go(func() {
			before.end() // a watermark of t is not to pass what is still in flight of it
			p.mu.Lock()
			t.before = nil
			p.draining = append(p.draining, t)
			p.mu.Unlock()
			p.ready(t)
		})
	})
}

func (p *Prober) ready(t *target) {
	p.thread.detector.Begun()
	t.engine.Prepare()
	p.thread.detector.Over(1)
	close(t.prepared)
	p.thread.changes.add(func(pacer *pacer, now time.Duration) {
		if !t.stopped.Load() && !p.paced {
			pacer.add(t, now)
		}
	})
}

// Stop ends the measuring of a target. Its last requests and its final watermark are still handed on.
// It does nothing where no such target is being measured.
func (p *Prober) Stop(id timeline.TargetID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[id]
	if t == nil || p.state == done || t.stopped.Swap(true) {
		return
	}
	p.places.leave(t.place)
	p.thread.changes.add(func(pacer *pacer, _ time.Duration) {
		pacer.remove(t)
		p.active.Go(t.end)
	})
}

// Forget lets go of a target that was stopped and whose last requests were handed on. Its ID must not be used again.
func (p *Prober) Forget(id timeline.TargetID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[id]
	if t == nil || !t.stopped.Load() || t.before != nil || slices.Contains(p.draining, t) {
		return
	}
	delete(p.targets, id)
	p.notes.Errors.Forget(t.Name)
}

// SetRate changes how often a target is asked, from its next request on. A rate out of range and an
// unknown target change nothing.
func (p *Prober) SetRate(id timeline.TargetID, rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.targets[id]
	if t == nil || protocol.CheckRate(rate) != nil {
		return
	}
	p.thread.changes.add(func(pacer *pacer, now time.Duration) {
		pacer.setRate(t, rate, now)
		p.hurryOn()
	})
}

// endAll ends every target that has not ended, when nothing paces them any more.
func (p *Prober) endAll() {
	p.mu.Lock()
	p.state = done
	p.mu.Unlock()
	// what Stop and Start still wanted is done then, so that nothing is left half done
	p.thread.change(func(*pacer, time.Duration) {})
	p.mu.Lock()
	for t := range p.all() {
		p.active.Go(t.end)
	}
	p.mu.Unlock()
	p.active.Wait()
}

// all returns the targets, and of those that were started again the former, until they have ended. The caller holds mu.
func (p *Prober) all() iter.Seq[*target] {
	return func(yield func(*target) bool) {
		for _, t := range p.targets {
			for ; t != nil; t = t.before {
				if !yield(t) {
					return
				}
			}
		}
	}
}

// Abandon keeps Run from waiting for what is in flight when its ctx ends, or has ended: those requests are Local.
// They still end by themselves within the timeout; how is not recorded. It may be called more than once.
func (p *Prober) Abandon() { p.abandoning.Do(func() { close(p.abandoned) }) }

func (p *Prober) endAllOrAbandon() {
	ended := make(chan struct{})
	go func() { p.endAll(); close(ended) }()
	select {
	case <-ended:
	case <-p.abandoned:
		p.mu.Lock()
		defer p.mu.Unlock()
		for t := range p.all() {
			t.Inflight.Abandon(t.ID, p.thread.clock.Now())
		}
	}
}

// noteStall keeps a stall until the next delivery: the pacing thread waits for no sink.
func (p *Prober) noteStall(e timeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalls = append(p.stalls, e)
}

// deliverUntil hands on what was measured until stop is closed, and then the rest.
func (p *Prober) deliverUntil(stop <-chan struct{}) {
	timer := time.NewTimer(delivery)
	defer timer.Stop()
	var hurry <-chan struct{}
	for {
		select {
		case <-stop:
			p.deliver(true)
			return
		case <-hurry:
		case <-timer.C:
		}
		p.deliver(false)
		next := p.nextDelivery()
		timer.Reset(next)
		if hurry = nil; next > delivery {
			hurry = p.hurry
		}
	}
}

// hurryOn has what was measured handed on now, if requests are seldom.
func (p *Prober) hurryOn() {
	select {
	case p.hurry <- struct{}{}:
	default: // it is going to be
	}
}

func (p *Prober) nextDelivery() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := LongestDelivery
	for _, t := range p.draining {
		next = min(next, time.Duration(float64(time.Second)/t.Rate()))
	}
	return max(next, delivery)
}

// deliver hands on stalls and errors, then backends and peers, then the batch that refers to them. At the end it is
// called for the last time.
func (p *Prober) deliver(end bool) {
	p.mu.Lock()
	stalls, targets := p.stalls, p.draining
	p.stalls = nil
	p.mu.Unlock()
	n := &p.notes
	now := p.thread.clock.Now()
	for _, event := range slices.Concat(stalls, n.Errors.Take(), n.Names.Take(), n.Failovers.Take(now, end)) {
		event.Source = p.source
		p.sink(event.Earlier(p.zero))
	}
	if p.shared && now-p.forgot >= ForgetUnused {
		p.forgot = now
		n.Forget()
	}
	batch, finished := p.batch(targets)
	// after the batch, and handed on before it: its watermarks hold for them too
	held := n.Changes.Take(batch.Watermarks)
	for _, backend := range n.Backends.Take() {
		backend.Source = p.source
		p.sink(backend)
	}
	for _, peer := range n.Peers.Take() {
		peer.Source = p.source
		p.sink(peer)
	}
	if len(held.Changes) > 0 {
		held.Source = p.source
		p.sink(held.Earlier(p.zero))
	}
	if len(batch.Requests) > 0 || len(batch.Watermarks) > 0 {
		if p.zero != 0 {
			batch = batch.Earlier(p.zero)
		}
		p.sink(batch)
	}
	if finished {
		p.dropFinished()
	}
}

// batch collects what is done on all targets. It reports whether it holds the last of any of them.
func (p *Prober) batch(targets []*target) (_ timeline.Batch, finished bool) {
	batch := timeline.Batch{Source: p.source, FirstSeq: p.sent, Requests: make([]timeline.Request, 0, p.usual)}
	for _, t := range targets {
		requests, watermark, over := t.Inflight.Take(batch.Requests, p.thread.clock.Now())
		batch.Requests = requests
		batch.Watermarks = append(batch.Watermarks, timeline.Watermark{Target: t.ID, Due: watermark})
		t.delivered = over
		finished = finished || over
	}
	p.sent += uint64(len(batch.Requests))
	p.usual = len(batch.Requests)
	return batch, finished
}

// dropFinished forgets the targets whose last requests were handed on.
func (p *Prober) dropFinished() {
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := make([]*target, 0, len(p.draining))
	for _, t := range p.draining {
		if !t.delivered {
			kept = append(kept, t)
		}
	}
	p.draining = kept
}
