package engine

import (
	"fmt"
	"time"

	"lapse/loadgen/internal/protocol"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A connector connects to one target.
type connector struct {
	*protocol.Compiled
	Shared
}

// A dialled is how far the way to a connection led, and how long it took.
type dialled struct {
	phase wire.Phase // the last one
	took  timeline.Phases
	peer  uint16 // where the connection went, or was to go; 0 if that is not known
}

// dial connects to the target. After an error, the phase is the one in which it came.
func (q *connector) dial(deadline time.Duration) (_ *protocol.Conn, d dialled, err error) {
	until := q.Clock.Wall(deadline)
	d.phase = wire.Resolving
	addrs, resolved, err := q.Resolve(q.Clock, until)
	d.took.DNS = resolved
	if err == nil && !q.Addr.IsValid() {
		addrs, err = q.Choose(addrs)
	}
	if err != nil {
		return nil, d, err
	}
	d.phase = wire.Connecting
	begun := q.Clock.Now()
	below, addr, passed, err := q.Ports.DialFallback(q.Network, addrs, q.Clock, deadline)
	d.took.Connect = timeline.MicrosOf(q.Clock.Now() - begun)
	d.peer = q.Peers.id(addr)
	if err != nil {
		return nil, d, err
	}
	q.noteFailovers(passed)
	c := protocol.NewConn(below)
	c.Peer, c.Clock = addr, q.Clock
	if q.TLS != nil {
		d.phase = wire.Handshaking
		begun = q.Clock.Now()
		err = c.Handshake(q.TLS, until)
		d.took.TLS = timeline.MicrosOf(q.Clock.Now() - begun)
	}
	if err == nil && q.Stateful != nil {
		d.phase = wire.Beginning
		err = q.begin(c, until)
	}
	if err != nil {
		c.Abort()
		return nil, d, err
	}
	return c, d, nil
}

// begin makes the exchange with which the protocol begins a connection.
func (q *connector) begin(c *protocol.Conn, until time.Time) (err error) {
	if err := c.SetDeadline(until); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	c.Dialog, err = q.Stateful.Begin(&c.Conn)
	return err
}

// noteFailovers notes which addresses failed before another one accepted, except where a stop of the prober may be
// the reason.
func (q *connector) noteFailovers(failed []wire.FailedAddress) {
	for _, f := range failed {
		if !q.Stalls.Latest(f.Over).Excuses(f.Begun, f.Over) {
			q.Failovers.note(q.Name, f)
		}
	}
}
