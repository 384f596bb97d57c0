package live

import (
	"sync"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// An Observer follows a run while it goes on: the recording, the terminal, the page, or a sink for metrics. The
// goroutine that owns the run calls it, and must not wait: an Observer that encodes, writes or sends goes behind a
// queue ([NewQueued]). A new one is a file, and a line where the run is assembled.
type Observer interface {
	// Fact gets each fact, in order.
	Fact(timeline.Fact)
	// Wants is asked before each Judgement.
	Wants() Detail
	// Judged gets each judgement of the run. The Observer that wants most decides how often that is.
	Judged(Judgement)
	// Close gets the judged run when it is over, or nil if it did not begin. Nothing is called after it, and it may
	// wait.
	Close(*model.Timeline)
}

// A Detail is how much of a run an Observer wants to see, and how often.
type Detail uint8

const (
	Seldom Detail = iota // totals, once a second
	Totals               // totals, four times a second
	All                  // the whole judged run, four times a second
)

// A Judgement is how a run stands.
type Judgement struct {
	Timeline *model.Timeline // shared: not to be changed
	All      bool            // the whole run; else it has totals, and no buckets, windows or events
	Now      time.Duration   // on the run's clock
	Silent   time.Duration   // how long nothing has come from the Job; 0: not for long
	Lost     int             // facts that this Observer did not get so far, because it was too slow
}

// A queued is an Observer that hands on what it gets from its own goroutine, so that whoever calls it never waits. At
// most capacity facts wait: further ones are lost, and counted. Only the newest judgement waits.
type queued struct {
	Observer
	capacity int
	wake     chan struct{} // holds a token while there may be something to hand on
	handing  sync.WaitGroup

	mu     sync.Mutex
	facts  []timeline.Fact
	lost   int
	judged *Judgement
	busy   bool // a judgement is being handed on
	closed bool
}

// NewQueued returns a queue in front of o for capacity facts; 0 for an Observer of judgements only.
func NewQueued(o Observer, capacity int) *queued {
	q := &queued{Observer: o, capacity: capacity, wake: make(chan struct{}, 1)}
	q.handing.Go(q.handOn)
	return q
}

func (q *queued) Fact(f timeline.Fact) {
	q.change(func() {
		if len(q.facts) < q.capacity {
			q.facts = append(q.facts, f)
		} else {
			q.lost++
		}
	})
}

// Wants never returns [All] while the last Judgement is still being handed on: the next could not be.
func (q *queued) Wants() Detail {
	q.mu.Lock()
	busy := q.busy || q.judged != nil
	q.mu.Unlock()
	if wanted := q.Observer.Wants(); !busy || wanted < All {
		return wanted
	}
	return Totals
}

func (q *queued) Judged(j Judgement) { q.change(func() { q.judged = &j }) }

// Close hands on what waits, and then tl.
func (q *queued) Close(tl *model.Timeline) {
	q.change(func() { q.closed = true })
	q.handing.Wait()
	q.Observer.Close(tl)
}

func (q *queued) change(change func()) {
	q.mu.Lock()
	change()
	q.mu.Unlock()
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

func (q *queued) handOn() {
	for range q.wake {
		q.mu.Lock()
		facts, judged, lost, closed := q.facts, q.judged, q.lost, q.closed
		q.facts, q.judged, q.busy = nil, nil, judged != nil
		q.mu.Unlock()
		for _, f := range facts {
			q.Observer.Fact(f)
		}
		if judged != nil {
			judged.Lost = lost
			q.Observer.Judged(*judged)
			q.mu.Lock()
			q.busy = false
			q.mu.Unlock()
		}
		if closed {
			return
		}
	}
}
