package wire

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"lapse/timeline"
)

// A Dialer knows where the connections of a target go.
type Dialer struct {
	Network string           // tcp or udp
	Addr    netip.AddrPort   // where to connect; invalid if host must be resolved first
	Addrs   []netip.AddrPort // it alone
	Host    string
	Port    uint16
	Family  int            // of the addresses of host that are used; 0: any
	Turns   *Turns         // nil: the first of them that accepts is used
	Ports   *PortAllocator // local ports to connect from
}

// Resolve looks the host up, every time: a name that stops resolving is a failure like another.
// Numeric hosts need no look-up.
func (p *Dialer) Resolve(clock timeline.Clock, until time.Time) ([]netip.AddrPort, timeline.Micros, error) {
	if p.Addr.IsValid() {
		return p.Addrs, 0, nil
	}
	begun := clock.Now()
	ctx, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	ips, err := lookUp(ctx, p.Host, new(net.Dialer).DialContext)
	took := timeline.MicrosOf(clock.Now() - begun)
	addrs := make([]netip.AddrPort, 0, len(ips))
	for _, ip := range ips {
		addrs = append(addrs, netip.AddrPortFrom(ip.Unmap(), p.Port))
	}
	if err == nil && len(addrs) == 0 {
		err = &net.DNSError{Err: "no address", Name: p.Host, IsNotFound: true}
	}
	return addrs, took, err
}

// A dialFunc connects to a name server.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// lookUp returns the addresses of a host. A look-up asks several questions, and its error is the error of one of them.
// If this process could not ask one of them for a shortage of its own, the answers to the others do not say what a
// whole look-up would have found: the shortage is the error then.
func lookUp(ctx context.Context, host string, dial dialFunc) ([]netip.Addr, error) {
	var short atomic.Pointer[error]
	// one that is shared lets requests wait for each other's look-ups
	own := net.Resolver{Dial: func(ctx context.Context, network, address string) (net.Conn, error) {
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

// Choose returns those addresses of the target's name that a connection may go to. There is at least one.
func (p *Dialer) Choose(addrs []netip.AddrPort) ([]netip.AddrPort, error) {
	if p.Family != 0 {
		other := func(addr netip.AddrPort) bool { return addr.Addr().Is4() != (p.Family == 4) }
		addrs = slices.DeleteFunc(addrs, other)
		if len(addrs) == 0 {
			return nil, &net.DNSError{Err: "no address of this family", Name: p.Host, IsNotFound: true}
		}
	}
	if p.Turns == nil || len(addrs) == 1 {
		return addrs, nil
	}
	return []netip.AddrPort{p.Turns.next(addrs)}, nil
}
