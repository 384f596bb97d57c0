package loadgen

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"sync"
	"syscall"
	"time"

	"lapse/timeline"
)

// This file is about names that have several addresses.

// dialAny connects to the first address that accepts, in the resolver's order, as clients do. Those to which there is no way
// from here are not tried. Each of the others gets an equal share of the time that is left. passed are the addresses that
// failed before the one that accepted. Where none does, the error is the one that tells most of the target; where one could
// not be asked for want of something of ours, what another says is no answer in its place, and that want is the error. peer is
// the address of the connection or of the error.
func (b *portBook) dialAny(addrs []netip.AddrPort, clock timeline.Clock, deadline time.Duration) (_ *net.TCPConn, peer netip.AddrPort, passed []failedAddress, _ error) {
	if len(addrs) == 1 {
		c, err := b.dial(addrs[0], clock.Wall(deadline))
		return c, addrs[0], nil, err
	}
	addrs = withWay(addrs)
	for i, addr := range addrs {
		now := clock.Now()
		until := now + (deadline-now)/time.Duration(len(addrs)-i)
		c, err := b.dial(addr, clock.Wall(until))
		if err != nil {
			passed = append(passed, failedAddress{addr, err, now, clock.Now()})
			continue
		}
		if addr, err := notAsked(passed); err != nil {
			_ = c.SetLinger(0) // see conn.reset
			_ = c.Close()
			return nil, addr, nil, err
		}
		return c, addr, passed, nil
	}
	most := mostTelling(passed)
	return nil, most.addr, nil, most.err
}

// A failedAddress is one to which no connection came about between begun and over.
type failedAddress struct {
	addr        netip.AddrPort
	err         error
	begun, over time.Duration
}

// sleptThrough reports whether f may have failed because the prober was stopped from since to seen: when f was given up, or for
// most of the time that it had.
func (f failedAddress) sleptThrough(since, seen time.Duration) bool {
	slept := min(seen, f.over) - max(since, f.begun)
	return slept > 0 && (f.over <= seen+longestSleep || slept > (f.over-f.begun)/2)
}

// withWay returns addrs without those at its end to which there is no way, or all where there is none to any of them. The
// resolver puts these last (RFC 6724, section 6, rule 1); of an IPv6 address on a machine without IPv6 it is so always.
func withWay(addrs []netip.AddrPort) []netip.AddrPort {
	for n := len(addrs); n > 0; n-- {
		if hasWay(addrs[n-1]) {
			return addrs[:n]
		}
	}
	return addrs
}

// hasWay reports whether the kernel has a route and a source address for connections to addr. To connect a UDP socket
// takes both, and sends nothing.
func hasWay(addr netip.AddrPort) bool {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(addr))
	if err == nil {
		_ = c.Close()
		return true
	}
	errno, ok := errors.AsType[syscall.Errno](err)
	return ok && slices.Contains(lookUpShortages, errno)
}

// notAsked is the error of the first address that there is a way to, and that was not asked for want of something of ours.
func notAsked(failed []failedAddress) (netip.AddrPort, error) {
	for _, f := range failed {
		if isOurOwn(f.err) && hasWay(f.addr) {
			return f.addr, fmt.Errorf("connect to %v, before another address answered: %w", f.addr.Addr(), f.err)
		}
	}
	return netip.AddrPort{}, nil
}

// mostTelling is the first of those whose errors tell most: what a host said tells more of the target than what came of
// the way to it, and that more than what we had too little of.
func mostTelling(failed []failedAddress) failedAddress {
	tells := func(err error) int {
		switch classify(err, connecting) {
		case timeline.Refused, timeline.Reset:
			return 2
		case timeline.Local:
			return 0
		}
		return 1
	}
	return slices.MaxFunc(failed, func(a, b failedAddress) int { return tells(a.err) - tells(b.err) })
}

// passedOver counts, for each target, the connections that one address of its name took only because another had failed: such
// a request succeeds, late, and its outcome has no place for who made it late. Of each target the first few different
// addresses and classes are counted. They are told as the count begins, each time it has grown tenfold, and at the end.
type passedOver struct {
	mu     sync.Mutex
	counts []*passedCount
}

// mostPassed is how many are counted per target: a name's addresses may change all the time.
const mostPassed = 8

// A passedCount is how often an address of a target failed so.
type passedCount struct {
	event timeline.Event // as it will be told
	told  int            // what the count was when it was told
}

// note counts an address that failed before a connection of a target came about.
func (p *passedOver) note(target string, f failedAddress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	count := p.of(target, f.addr.Addr(), classify(f.err, connecting).String())
	if count == nil {
		return
	}
	e := &count.event
	if e.Count == 0 {
		e.Since, e.Detail = floorMicros(f.begun), errorText(f.err)
	}
	e.Since, e.Seen = min(e.Since, floorMicros(f.begun)), max(e.Seen, ceilMicros(f.over))
	e.Count++
}

// of returns the count that begins at 0, or nil if the target has too many.
func (p *passedOver) of(target string, addr netip.Addr, class string) *passedCount {
	n := 0
	for _, c := range p.counts {
		if c.event.Object.Name != target {
			continue
		}
		if c.event.Addr == addr && c.event.To == class {
			return c
		}
		n++
	}
	if n == mostPassed {
		return nil
	}
	c := &passedCount{event: timeline.Event{
		Kind: timeline.AddressFailed, To: class, Object: timeline.Object{Kind: "Target", Name: target}, Addr: addr,
	}}
	p.counts = append(p.counts, c)
	return c
}

// take returns the counts that are to be told, which at the end are all that have changed.
func (p *passedOver) take(end bool) (events []timeline.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.counts {
		if n := c.event.Count; n >= max(1, 10*c.told) || end && n > c.told {
			c.told = n
			events = append(events, c.event)
		}
	}
	return events
}
