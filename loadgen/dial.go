package loadgen

import (
	"fmt"
	"time"

	"lapse/timeline"
)

// A dialled is how far the way to a connection led, and how long it took.
type dialled struct {
	phase phase // the last one
	took  timeline.Phases
	peer  uint16 // where the connection went, or was to go; 0 if that is not known
}

// dial connects to the target. After an error, the phase is the one in which it came.
func (q *requester) dial(deadline time.Duration) (_ *link, d dialled, err error) {
	until := q.clock.Wall(deadline)
	d.phase = resolving
	addrs, resolved, err := q.resolve(q.clock, until)
	d.took.DNS = resolved
	if err == nil && !q.addr.IsValid() {
		addrs, err = q.choose(addrs)
	}
	if err != nil {
		return nil, d, err
	}
	d.phase = connecting
	begun := q.clock.Now()
	below, addr, passed, err := q.ports.dialFallback(q.network, addrs, q.clock, deadline)
	d.took.Connect = timeline.MicrosOf(q.clock.Now() - begun)
	d.peer = q.peers.id(addr)
	if err != nil {
		return nil, d, err
	}
	q.noteFailovers(passed)
	c := newLink(below)
	c.peer, c.clock = d.peer, q.clock
	if q.tls != nil {
		d.phase = handshaking
		begun = q.clock.Now()
		err = c.handshake(q.tls, until)
		d.took.TLS = timeline.MicrosOf(q.clock.Now() - begun)
	}
	if err == nil && q.stateful != nil {
		d.phase = beginning
		err = q.begin(c, until)
	}
	if err != nil {
		c.abort()
		return nil, d, err
	}
	return c, d, nil
}

// begin makes the exchange with which the protocol begins a connection.
func (q *requester) begin(c *link, until time.Time) (err error) {
	if err := c.SetDeadline(until); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	c.dialog, err = q.stateful.begin(&c.conn)
	return err
}

// noteFailovers notes which addresses failed before another one accepted, except where a stop of the prober may be
// the reason.
func (q *requester) noteFailovers(failed []failedAddress) {
	for _, f := range failed {
		if !q.stalls.latest(f.over).excuses(f.begun, f.over) {
			q.failovers.note(q.name, f)
		}
	}
}
