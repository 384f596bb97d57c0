package loadgen

import (
	"context"
	"net"
	"net/netip"
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
func (q *requester) dial(deadline time.Duration) (_ *conn, d dialled, err error) {
	until := q.clock.Wall(deadline)
	d.phase = resolving
	addrs, resolved, err := q.resolve(q.clock, until)
	d.took.DNS = resolved
	if err != nil {
		return nil, d, err
	}
	d.phase = connecting
	begun := q.clock.Now()
	tcp, addr, passed, err := q.ports.dialFallback(addrs, q.clock, deadline)
	d.took.Connect = timeline.MicrosOf(q.clock.Now() - begun)
	d.peer = q.peers.id(addr)
	if err != nil {
		return nil, d, err
	}
	q.noteFailovers(passed)
	c := newConn(tcp)
	c.peer = d.peer
	if q.tls == nil {
		return c, d, nil
	}
	d.phase = handshaking
	begun = q.clock.Now()
	err = c.handshake(q.tls, until)
	d.took.TLS = timeline.MicrosOf(q.clock.Now() - begun)
	if err != nil {
		c.abort()
		return nil, d, err
	}
	return c, d, nil
}

// noteFailovers notes which addresses failed before another one accepted, except where a stop of the prober may be the reason.
func (q *requester) noteFailovers(failed []failedAddress) {
	for _, f := range failed {
		if !q.stalls.latest(f.over).excuses(f.begun, f.over) {
			q.failovers.note(q.name, f)
		}
	}
}

// resolve looks the host up, every time: a name that stops resolving is a failure like another.
// Numeric hosts need no look-up.
func (p *compiledProbe) resolve(clock timeline.Clock, until time.Time) ([]netip.AddrPort, timeline.Micros, error) {
	if p.addr.IsValid() {
		return p.addrs, 0, nil
	}
	begun := clock.Now()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	var own net.Resolver // one that is shared lets requests wait for each other's look-ups, also for one that is stuck
	ips, err := own.LookupNetIP(ctx, "ip", p.host)
	took := timeline.MicrosOf(clock.Now() - begun)
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), p.port))
	}
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: p.host, IsNotFound: true}
	}
	return addrs, took, err
}
