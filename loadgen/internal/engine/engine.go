package engine

import (
	"lapse/loadgen/internal/protocol"
	"lapse/timeline"
)

// An Engine decides on which connections a target's requests go.
type Engine interface {
	// Prepare does what can be done before the first request, such as connecting ahead of need.
	Prepare()
	// Send sends a request that is due. It is called by the pacing thread and must not wait.
	Send(Job)
	// Close waits for what is in flight, which takes no longer than the timeout, and releases everything.
	Close()
}

// New returns the requester of a target, and its engine.
func New(probe *protocol.Compiled, rate float64, s Shared) (*Requester, Engine) {
	s.Log = s.Log.With("target", probe.Name)
	q := &Requester{connector: connector{probe, s}, Inflight: newInflight(s.Stalls)}
	q.Inflight.onFailure = s.Failed
	q.SetRate(rate)
	return q, engineOf(q)
}

func engineOf(q *Requester) Engine {
	switch {
	case q.Kind == timeline.New, q.Kind == timeline.Direct:
		return newPerRequest(q)
	case q.Kind == timeline.Held:
		return newHeld(q)
	case q.Kind == timeline.Reused && q.Streams:
		return newStreams(q)
	}
	return newPool(q)
}

// InUse reports whether e has not quite finished with its last request.
func InUse(e Engine) bool {
	switch e := e.(type) {
	case *pool:
		e.mu.Lock()
		defer e.mu.Unlock()
		return e.inUse > 0
	case *perRequest:
		return e.idle.Load() == 0
	}
	return false
}

// PolledIdle returns how many connections of e the pacing thread reads, of those that wait for a request.
func PolledIdle(e Engine) (n int) {
	p, ok := e.(*pool)
	if !ok {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.idle.n {
		s := p.idle.slots[(p.idle.head+i)%len(p.idle.slots)].live.Load()
		if s != nil && isPolled(s.conn) {
			n++
		}
	}
	return n
}
