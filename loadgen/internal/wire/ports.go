package wire

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/bits"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// quarantine is how long a local port is not used after a SYN from it got no answer: a little longer than the kernel's
// connection tracking keeps the entry (nf_conntrack_tcp_timeout_syn_sent is 120 s).
const quarantine = 125 * time.Second

// errNoPort: every local port is in quarantine, or all but those spared for later. Nothing was sent.
var errNoPort = fmt.Errorf("no usable local port, all are cooling down after unanswered SYNs: %w",
	syscall.EADDRNOTAVAIL)

// ports chooses the local ports of connections to one Service or address, each used again as late as possible. Of UDP
// too: there connection tracking keeps the translation of a single query and its answer for 30 s
// (nf_conntrack_udp_timeout), in which 900 requests per second use up all ports.
//
// The kernel chooses local ports at random, and at 500 connections a second comes back to one within about 6 s. To
// connection tracking a connection from the same port is the same connection: it keeps the translation that
// kube-proxy's rules once chose. After a drain such connections follow it to the Pod that is gone, and time out, long
// after the routes are right, which no new client would see: in the first drains 4, 10 and 16 s later.
type ports struct {
	low      uint16
	size     int
	choosing *atomic.Int64 // how many wait in take

	mu         sync.Mutex
	free       []uint64  // a bit for each port from low on: it is neither being connected from nor spoiled
	left       int       // how many are free
	next       int       // the bit to look at first
	spoiled    []resting // the one spoiled longest ago first
	unanswered bool      // the latest SYN whose end is known got no answer
	taken      time.Time // when a port was last taken
}

// A resting port is one in quarantine.
type resting struct {
	port  uint16
	since time.Time
}

// newPorts returns the ports from low to high, both inclusive.
func newPorts(low, high uint16, choosing *atomic.Int64) *ports {
	size := int(high-low) + 1
	p := &ports{low: low, size: size, choosing: choosing, free: make([]uint64, (size+63)/64)}
	for i := range size {
		p.release(low + uint16(i))
	}
	return p
}

// take returns the free port next in turn to connect from, or 0 if none may be used now. Whoever takes one puts it
// back.
func (p *ports) take(now time.Time) uint16 {
	p.choosing.Add(1)
	defer p.choosing.Add(-1)
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.spoiled) > 0 && now.Sub(p.spoiled[0].since) > quarantine {
		p.release(p.spoiled[0].port)
		p.spoiled = p.spoiled[1:]
	}
	if p.left == 0 || p.spares(now) {
		return 0
	}
	i := p.find()
	p.free[i/64] &^= 1 << (i % 64)
	p.left--
	p.next = (i + 1) % p.size
	p.taken = now
	return p.low + uint16(i)
}

// spares reports whether the free ports have to be kept for later. While nothing answers, the second half of them is
// spent evenly over the time until the first spoiled ones are back, so that the end of an outage is seen however long
// it lasts: of 28 232 ports, 113 a second. Above 226 requests per second a silent outage can outlast the ports. What is
// not sent is local, neither up nor down.
func (p *ports) spares(now time.Time) bool {
	if !p.unanswered || p.left > p.size/2 || len(p.spoiled) == 0 {
		return false
	}
	back := p.spoiled[0].since.Add(quarantine)
	return now.Sub(p.taken) < back.Sub(now)/time.Duration(p.left)
}

// find returns the first free bit from next on, round the end. There must be one.
func (p *ports) find() int {
	word := p.next / 64
	set := p.free[word] &^ (1<<(p.next%64) - 1)
	for set == 0 {
		word = (word + 1) % len(p.free)
		set = p.free[word]
	}
	return word*64 + bits.TrailingZeros64(set)
}

// put takes a port back from which a connection was made, or could not be made because of err.
func (p *ports) put(port uint16, err error, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case isOurOwn(err):
		p.release(port)
		p.taken = time.Time{} // nothing was sent
	case unanswered(err):
		p.spoiled = append(p.spoiled, resting{port, now})
		p.unanswered = true
	default:
		p.release(port)
		p.unanswered = false
	}
}

func (p *ports) release(port uint16) {
	i := int(port - p.low)
	p.free[i/64] |= 1 << (i % 64)
	p.left++
}

// longUnused is how long no connection was made from ports that are forgotten. It is longer than connection tracking
// keeps an entry of one that was closed (nf_conntrack_tcp_timeout_time_wait is 120 s).
const longUnused = 10 * time.Minute

// unused reports whether no port was taken for [longUnused].
func (p *ports) unused(now time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return now.Sub(p.taken) > longUnused
}

// clean reports whether no port rests.
func (p *ports) clean() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.spoiled) == 0
}

// unanswered reports whether a connection that ended with err may have left a SYN in the connection tracking table. A
// RST removes it at once (nf_conntrack_tcp_packet, "if only reply is a RST"), and kube-proxy's own refusals never
// enter it: else an outage that refuses would use up all ports in 14 s at 2000 requests per second. After an ICMP
// error, such as "unreachable", the entry stays.
func unanswered(err error) bool {
	return err != nil && !errors.Is(err, syscall.ECONNREFUSED) && !errors.Is(err, syscall.ECONNRESET)
}

// isOurOwn reports whether err says that we ran out of something before anything was sent.
func isOurOwn(err error) bool {
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(shortages, errno)
}

// tries is how many ports may turn out to be in use by others before the kernel is left to choose.
const tries = 32

// dial connects to addr by until, from a port of p's choice. A port that is in use is passed over: nothing has been
// sent from it. Where there is no port, the error is errNoPort.
func (p *ports) dial(network string, addr netip.AddrPort, until time.Time) (Transport, error) {
	for range tries {
		port := p.take(time.Now())
		if port == 0 {
			return nil, errNoPort
		}
		c, err := dialFrom(network, port, addr, until)
		p.put(port, err, time.Now())
		if !portInUse(err, addr) {
			return c, err
		}
	}
	if !p.clean() { // the kernel might choose a spoiled one
		return nil, errNoPort
	}
	return dialFrom(network, 0, addr, until)
}

// portInUse reports whether err says that a connection to addr has to be made from another port. Without a source
// address, no port will do.
func portInUse(err error, addr netip.AddrPort) bool {
	return errors.Is(err, syscall.EADDRINUSE) || errors.Is(err, syscall.EADDRNOTAVAIL) && routable(addr)
}

// routable reports whether the kernel has a route and a source address for connections to addr. Connecting a UDP socket
// needs both, and sends nothing.
func routable(addr netip.AddrPort) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err == nil {
		_ = c.Close()
		return true
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(lookUpShortages, errno)
}

// HasRoute reports whether this machine has a route to addr.
func HasRoute(addr netip.Addr) bool { return routable(netip.AddrPortFrom(addr, 1)) }

// dialFrom connects to addr from a local port, or one that the kernel chooses if it is 0.
func dialFrom(network string, port uint16, addr netip.AddrPort, until time.Time) (Transport, error) {
	// Keep-alive probes would only cost system calls: requests are frequent.
	dialer := net.Dialer{Deadline: until, KeepAlive: -1}
	if network == "udp" && port != 0 {
		if port == addr.Port() && addr.Addr().IsLoopback() {
			return nil, errItself
		}
		return connected(dialer.DialUDP(context.Background(), network, netip.AddrPortFrom(netip.Addr{}, port), addr))
	}
	if port != 0 {
		return connected(dialer.DialTCP(context.Background(), network, netip.AddrPortFrom(netip.Addr{}, port), addr))
	}
	for {
		// DialTCP would bind to any port first, and so need one that no connection uses, to wherever.
		c, err := dialer.Dial(network, addr.String())
		if err != nil {
			return nil, err
		}
		if network != "udp" || c.LocalAddr().String() != c.RemoteAddr().String() {
			return c.(Transport), nil
		}
		defer c.Close() // it is connected to itself, see errItself
	}
}

// errItself is the error of a local port from which a UDP socket would be connected to itself, where nobody listens:
// what it sends would come back.
var errItself = fmt.Errorf("the local port is the target's: %w", syscall.EADDRINUSE)

// connected is c, or no transport at all after an error.
func connected[C Transport](c C, err error) (Transport, error) {
	if err != nil {
		return nil, err
	}
	return c, nil
}

// A PortAllocator has the ports of every destination. Targets of one Service share theirs.
type PortAllocator struct {
	low, high uint16
	Choosing  atomic.Int64 // how many connections wait for a port, and not for their target

	mu  sync.Mutex
	all map[destination]*ports
}

// A destination is where connections go. TCP and UDP have local ports of their own.
type destination struct {
	network string // tcp or udp
	addr    netip.AddrPort
}

func NewPortAllocator() *PortAllocator {
	low, high := localPorts()
	return &PortAllocator{low: low, high: high, all: map[destination]*ports{}}
}

// dial connects to addr by until. TCP connections within this machine are not translated, so the kernel chooses their
// port. But a UDP socket to this machine needs a port of ours: on the port of a socket that was just closed, it would
// receive the late reply to that socket's request.
func (b *PortAllocator) dial(network string, addr netip.AddrPort, until time.Time) (Transport, error) {
	if b.low == 0 || network == "tcp" && addr.Addr().IsLoopback() {
		return dialFrom(network, 0, addr, until)
	}
	c, err := b.of(destination{network, addr}).dial(network, addr, until)
	if errors.Is(err, syscall.EADDRNOTAVAIL) && !routable(addr) {
		return nil, errNoSource
	}
	return c, err
}

// errNoSource: this machine has no address from which it could send to one of that family, as where IPv6 is switched
// off.
var errNoSource = fmt.Errorf("this machine has no address of that family: %w", syscall.ENETUNREACH)

func (b *PortAllocator) of(d destination) *ports {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.all[d]
	if p == nil {
		now := time.Now()
		maps.DeleteFunc(b.all, func(_ destination, other *ports) bool { return other.unused(now) })
		p = newPorts(b.low, b.high, &b.Choosing)
		b.all[d] = p
	}
	return p
}
