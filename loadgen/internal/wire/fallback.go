package wire

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"lapse/timeline"
)

// This file is about names that have several addresses.

// DialFallback connects to the first address that accepts, in the resolver's order, as clients do. Addresses without
// a route from here are not tried. Each of the others gets an equal share of the time that is left. passed are the
// addresses that failed before the one that accepted. If none accepts, the error is the most informative one. If an
// address could not be tried because of a local shortage, or for want of time that this process took, that is the
// error: the answer of another address does not stand for it. peer is the address of the connection or of the error.
// A UDP socket is connected as soon as there is a route.
func (b *PortAllocator) DialFallback(
	network string, addrs []netip.AddrPort, clock timeline.Clock, deadline time.Duration,
) (_ Transport, peer netip.AddrPort, passed []FailedAddress, _ error) {
	if len(addrs) == 1 {
		c, err := b.dial(network, addrs[0], clock.Wall(deadline))
		return c, addrs[0], nil, err
	}
	addrs = routableOnly(addrs)
	share := (deadline - clock.Now()) / time.Duration(len(addrs))
	for i, addr := range addrs {
		now := clock.Now()
		until := now + (deadline-now)/time.Duration(len(addrs)-i)
		c, err := b.dial(network, addr, clock.Wall(until))
		if err != nil {
			passed = append(passed, FailedAddress{addr, err, now, clock.Now(), IsTimeout(err) && until-now < share/2})
			continue
		}
		if addr, err := localFailure(passed); err != nil {
			reset(c)
			return nil, addr, nil, err
		}
		return c, addr, passed, nil
	}
	addr, err := failureOf(passed)
	return nil, addr, nil, err
}

// A FailedAddress is an address that could not be connected to between begun and over.
type FailedAddress struct {
	Addr        netip.AddrPort
	Err         error
	Begun, Over time.Duration
	late        bool // it had less than half of its share of the time: this process was too slow with the others
}

// failureOf returns the error of a connection that no address accepted, and whose it is. That one address refuses says
// nothing of another that had no time to answer. Where nothing has answered, nothing answered in time, whoever had
// how much of it.
func failureOf(failed []FailedAddress) (netip.AddrPort, error) {
	most := mostInformative(failed)
	if i := slices.IndexFunc(failed, func(f FailedAddress) bool { return f.late }); i >= 0 && !IsTimeout(most.Err) {
		return failed[i].Addr, fmt.Errorf("connect to %v: %w", failed[i].Addr.Addr(), errLate)
	}
	return most.Addr, most.Err
}

// routableOnly returns addrs without those at its end that have no route from here, or all if none has. The
// resolver puts these last (RFC 6724, section 6, rule 1), such as IPv6 addresses on a machine without IPv6.
func routableOnly(addrs []netip.AddrPort) []netip.AddrPort {
	for n := len(addrs); n > 0; n-- {
		if routable(addrs[n-1]) {
			return addrs[:n]
		}
	}
	return addrs
}

// localFailure returns the error of the first address that has a route and was not tried because of a local shortage.
func localFailure(failed []FailedAddress) (netip.AddrPort, error) {
	for _, f := range failed {
		if isOurOwn(f.Err) && routable(f.Addr) {
			return f.Addr, fmt.Errorf("connect to %v, before another address answered: %w", f.Addr.Addr(), f.Err)
		}
	}
	return netip.AddrPort{}, nil
}

// mostInformative returns the first of those whose errors say most about the target: an answer of the host says more
// than an error of the route to it, and that more than a local shortage.
func mostInformative(failed []FailedAddress) FailedAddress {
	tells := func(err error) int {
		switch Classify(err, Connecting) {
		case timeline.Refused, timeline.Reset:
			return 2
		case timeline.Local:
			return 0
		}
		return 1
	}
	return slices.MaxFunc(failed, func(a, b FailedAddress) int { return tells(a.Err) - tells(b.Err) })
}
