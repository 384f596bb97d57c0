package loadgen

import (
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"lapse/loadgen/internal/engine"
	"lapse/loadgen/internal/polled"
	"lapse/loadgen/internal/stall"
	"lapse/timeline"
)

// A pacer runs the schedules of all targets. It hands each request to its target's engine at its due
// instant, and does nothing else. Its fields belong to the pacing thread.
type pacer struct {
	clock   timeline.Clock
	sleep   func(time.Duration)
	spin    func(time.Duration) // as sleep, but awake
	early   time.Duration       // before this is left of a wait it is slept, then spun; 0: all of it is slept
	polling *polled.Reader      // nil: sleep alone
	changes *changes
	stalls  *stall.Detector

	probers []*Prober // those that measure
	targets []*target // those that are being measured
	rated   bool      // what follows is of the targets' rates as they are
	late    time.Duration
	restful bool // few requests are due

	last  time.Duration
	rests time.Duration // until when it sleeps, if nothing is in flight meanwhile; else 0
}

// A pacing thread rests while nothing is in flight and no target is asked more often than mostRestful: then nothing is
// due, and nobody waits for it. A change waits for it as long, so it rests no longer than longestRest.
const (
	mostRestful = 20.0 // requests per second
	longestRest = 20 * time.Millisecond
)

// changes are what the pacing thread is asked to do next.
type changes struct {
	pending atomic.Bool
	mu      sync.Mutex
	list    []func(*pacer, time.Duration)
}

func (c *changes) add(change func(*pacer, time.Duration)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.list = append(c.list, change)
	c.pending.Store(true)
}

func (c *changes) take() []func(*pacer, time.Duration) {
	if !c.pending.Load() {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	taken := c.list
	c.list = nil
	c.pending.Store(false)
	return taken
}

// run paces until over is closed. It locks itself to its thread, whose sleeping keeps one of the scheduler's processors
// (GOMAXPROCS) from the rest of the program; so it adds one for as long as it runs.
func (p *pacer) run(over <-chan struct{}) {
	if holdsProcessor {
		addProcessors(1)
		defer addProcessors(-1)
	}
	// The thread is not unlocked, and so ends with the goroutine: no other shall inherit its timer slack.
	runtime.LockOSThread()
	preciseSleep()
	p.last = p.clock.Now()
	p.pace(over)
	if p.polling != nil {
		p.polling.Close()
	}
}

func (p *pacer) pace(over <-chan struct{}) {
	for !closed(over) {
		p.wait(p.step(p.clock.Now()))
	}
	p.step(p.clock.Now()) // answers that came in a stop may have been read by others before this thread runs
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// processors guards GOMAXPROCS, which several Probers of a process may change at once: reading and setting it are two
// steps.
var processors sync.Mutex

// addProcessors changes the number of the scheduler's processors by n.
func addProcessors(n int) {
	processors.Lock()
	defer processors.Unlock()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + n)
}

// wait waits for at most d: until shortly before its end, or, where it is shorter than that anyway, until its end.
// Where replies are polled, it may end sooner.
func (p *pacer) wait(d time.Duration) {
	switch {
	case p.polling != nil:
		p.polling.Wait(d - p.early)
		if !p.polling.Rested() {
			p.watchNow() // before it is judged how long the replies took
			p.polling.Read()
		}
	case d > p.early:
		p.sleep(d - p.early)
	default:
		p.spin(d)
	}
}

// step does what is due at now, and returns for how long nothing else is.
func (p *pacer) step(now time.Duration) time.Duration {
	p.watch(now)
	for _, change := range p.changes.take() {
		change(p, now)
	}
	next := now + longestRest
	for _, t := range p.targets {
		t.send(now)
		next = min(next, t.schedule.next)
	}
	if p.rate(); !p.restful || p.stalls.Watches() {
		return p.untilNext(now, min(next, now+stall.LongestSleep))
	}
	p.rests = next
	p.stalls.Rest(next)
	return p.untilNext(now, next)
}

// untilNext reads the replies that have come, ends the requests whose time is over, and returns how long it is until
// next, or until the next one's time is over.
func (p *pacer) untilNext(now, next time.Duration) time.Duration {
	if p.polling != nil {
		next = p.polling.Until(now, next, p.watchNow)
	}
	return max(0, next-p.clock.Now())
}

// finish sends what was due to the targets of a prober before its end, and paces them no longer: that may be more than
// usual if the prober was stopped until then.
func (p *pacer) finish(of *Prober, now time.Duration) {
	p.rated = false
	p.targets = slices.DeleteFunc(p.targets, func(t *target) bool {
		if t.prober == of {
			t.send(now)
		}
		return t.prober == of
	})
}

// leave ends what a prober is told.
func (p *pacer) leave(of *Prober) {
	p.probers = slices.DeleteFunc(p.probers, func(one *Prober) bool { return one == of })
}

// watch notices where this thread itself did not run.
func (p *pacer) watch(now time.Duration) {
	since := p.last
	due := max(since, p.rests)
	p.last, p.rests = now, 0
	p.stalls.Beat(now)
	if p.rate(); now-due > p.late {
		for _, one := range p.probers {
			one.noteStall(timeline.Event{
				Kind:  timeline.ProberStall,
				Since: engine.FloorMicros(since),
				Seen:  engine.CeilMicros(now),
			})
		}
	}
}

// watchNow notices, at this moment, where this thread itself did not run.
func (p *pacer) watchNow() { p.watch(p.clock.Now()) }

// rate looks at the targets' rates, unless it has.
func (p *pacer) rate() {
	if p.rated {
		return
	}
	fastest := time.Duration(0)
	p.rated, p.restful = true, true
	for _, t := range p.targets {
		if fastest == 0 || t.schedule.interval < fastest {
			fastest = t.schedule.interval
		}
		p.restful = p.restful && t.Rate() <= mostRestful && t.Kind != timeline.Held
	}
	p.late = timeline.MaxLateness(fastest)
}

// add begins measuring t.
func (p *pacer) add(t *target, now time.Duration) {
	seq := t.schedule.seq // of the target that had its ID before
	t.schedule = newSchedule(t.Rate(), t.share, now)
	t.schedule.seq = seq
	t.announce()
	p.targets, p.rated = append(p.targets, t), false
}

// setRate changes t's rate, now or for when it begins. What was due before now is sent first: the new schedule begins
// with what is due at now.
func (p *pacer) setRate(t *target, rate float64, now time.Duration) {
	running := slices.Contains(p.targets, t)
	if running {
		t.send(now - 1)
	}
	t.SetRate(rate)
	p.rated = false
	if running {
		t.schedule.rerate(rate, now)
		t.announce()
	}
}

// remove ends the schedule of t, if it has begun.
func (p *pacer) remove(t *target) {
	p.targets, p.rated = slices.DeleteFunc(p.targets, func(running *target) bool { return running == t }), false
}
