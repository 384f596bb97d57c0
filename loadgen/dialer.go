package loadgen

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

// A dialer knows where the connections of a target go.
type dialer struct {
	network string           // tcp or udp
	addr    netip.AddrPort   // where to connect; invalid if host must be resolved first
	addrs   []netip.AddrPort // it alone
	host    string
	port    uint16
	family  int            // of the addresses of host that are used; 0: any
	turns   *turns         // nil: the first of them that accepts is used
	ports   *portAllocator // local ports to connect from
}

// resolve looks the host up, every time: a name that stops resolving is a failure like another.
// Numeric hosts need no look-up.
func (p *dialer) resolve(clock timeline.Clock, until time.Time) ([]netip.AddrPort, timeline.Micros, error) {
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
