package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"lapse/deploy/agent"
	"lapse/timeline"
)

// An outsidePlace is the place in a run for the prober on the workstation.
type outsidePlace struct {
	joined    atomic.Uint32 // its source; 0: nobody joined
	ending    atomic.Bool   // it shall stop
	over      chan struct{} // closed when the last facts were handed over, or nobody waits for them
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

// finish makes the prober stop when ctx ends, and waits for its last facts.
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
	workstation := timeline.Source{Name: j.Name, Role: timeline.Workstation, Version: j.Version, T0: j.T0}
	a := m.admit(workstation, j.Sync, j.Targets)
	m.outside.joined.Store(uint32(a.Source))
	j.assigned <- a
}
