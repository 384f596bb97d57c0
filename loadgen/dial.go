package loadgen

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
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
	c := newConn(below)
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
func (q *requester) begin(c *conn, until time.Time) (err error) {
	if err := c.SetDeadline(until); err != nil {
		return fmt.Errorf("set deadline: %w", err)
	}
	c.dialog, err = q.stateful.begin(c)
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

// resolve looks the host up, every time: a name that stops resolving is a failure like another.
// Numeric hosts need no look-up.
func (p *compiledProbe) resolve(clock timeline.Clock, until time.Time) ([]netip.AddrPort, timeline.Micros, error) {
	if p.addr.IsValid() {
		return p.addrs, 0, nil
	}
	begun := clock.Now()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	ips, err := lookUp(ctx, p.host, new(net.Dialer).DialContext)
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

// lookUp asks for the addresses of a host. A look-up asks several questions, and its error is that of one of them:
// where this process could not ask one for a shortage of its own, the answers to the others do not tell what a whole
// look-up would have found, and the shortage is the error.
func lookUp(ctx context.Context, host string, dial func(ctx context.Context, network, address string) (net.Conn, error)) ([]netip.Addr, error) {
	var short atomic.Pointer[error]
	own := net.Resolver{Dial: func(ctx context.Context, network, address string) (net.Conn, error) { // one that is shared lets requests wait for each other's look-ups
		c, err := dial(ctx, network, address)
		if errno, ok := errors.AsType[syscall.Errno](err); ok && slices.Contains(lookUpShortages, errno) {
			short.Store(&err)
		}
		return c, err
	}}
	ips, err := own.LookupNetIP(ctx, "ip", host)
	if why := short.Load(); err != nil && why != nil {
		return nil, *why
	}
	return ips, err
}
