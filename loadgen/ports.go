package loadgen

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"sync"
	"syscall"
	"time"
)

// quarantine is how long a local port is left alone after a connection from it could not be made: as long as the
// kernel's connection tracking remembers it (nf_conntrack_tcp_timeout_syn_sent is 120 s).
const quarantine = 125 * time.Second

// ports chooses the local ports of connections to one Service or address, each used again as late as possible.
//
// The kernel chooses local ports at random, and at 500 connections a second comes back to one within about 6 s. To
// connection tracking a connection from the same port is the same connection: it keeps the translation
// that kube-proxy's rules once chose. After a drain such connections follow it to the Pod that is gone, and time out, long
// after the routes are right, which no new client would see. See docs/decisions/0005-local-ports.md.
type ports struct {
	mu        sync.Mutex
	low, high uint16 // both inclusive
	next      uint16
	failed    map[uint16]time.Time // when a connection from the port last failed
}

func newPorts(low, high uint16) *ports {
	return &ports{low: low, high: high, next: low, failed: map[uint16]time.Time{}}
}

// take returns the next port that is not in quarantine.
func (p *ports) take(now time.Time) uint16 {
	p.mu.Lock()
	defer p.mu.Unlock()
	for range int(p.high-p.low) + 1 {
		port := p.next
		if p.next++; p.next > p.high || p.next == 0 {
			p.next = p.low
		}
		failed, bad := p.failed[port]
		if !bad {
			return port
		}
		if now.Sub(failed) > quarantine {
			delete(p.failed, port)
			return port
		}
	}
	return 0 // all are: let the kernel choose
}

// spoil puts a port into quarantine.
func (p *ports) spoil(port uint16, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failed[port] = now
}

// tries is how many ports may turn out to be in use by others before the kernel is left to choose.
const tries = 32

// dial connects to addr by until, from a port of p's choice. A port that is in use is passed over: nothing has been
// sent from it.
func (p *ports) dial(addr netip.AddrPort, until time.Time) (*net.TCPConn, error) {
	for range tries {
		port := p.take(time.Now())
		if port == 0 {
			break
		}
		c, err := dialFrom(port, addr, until)
		if errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) {
			continue
		}
		if err != nil {
			p.spoil(port, time.Now())
		}
		return c, err
	}
	return dialFrom(0, addr, until)
}

// dialFrom connects to addr from a local port, or one that the kernel chooses if it is 0.
func dialFrom(port uint16, addr netip.AddrPort, until time.Time) (*net.TCPConn, error) {
	// Keep-alive probes would only cost system calls: requests are frequent.
	dialer := net.Dialer{Deadline: until, KeepAlive: -1}
	if port != 0 {
		return dialer.DialTCP(context.Background(), "tcp", netip.AddrPortFrom(netip.Addr{}, port), addr)
	}
	// DialTCP would bind to any port first, and so need one that no connection uses, to wherever.
	c, err := dialer.Dial("tcp", addr.String())
	if err != nil {
		return nil, err
	}
	return c.(*net.TCPConn), nil
}

// A portBook has the ports of every destination. Targets of one Service share theirs.
type portBook struct {
	low, high uint16

	mu  sync.Mutex
	all map[netip.AddrPort]*ports
}

func newPortBook() *portBook {
	low, high := localPorts()
	return &portBook{low: low, high: high, all: map[netip.AddrPort]*ports{}}
}

// dial connects to addr by until. What stays on this machine is not translated, and takes whatever port there is.
func (b *portBook) dial(addr netip.AddrPort, until time.Time) (*net.TCPConn, error) {
	if b.low == 0 || addr.Addr().IsLoopback() {
		return dialFrom(0, addr, until)
	}
	return b.of(addr).dial(addr, until)
}

func (b *portBook) of(addr netip.AddrPort) *ports {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.all[addr]
	if p == nil {
		p = newPorts(b.low, b.high)
		b.all[addr] = p
	}
	return p
}
