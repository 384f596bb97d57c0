package wire

import (
	"net/netip"
	"slices"
	"sync/atomic"
)

// This file is about names with an address for each endpoint, such as the names of headless Services.

// Turns chooses where each connection goes, of the addresses that a name has at that moment: to each in turn, by
// their order, so that each gets the same share of the connections, and one that fails is the failure of its own
// share. Clients choose one at random, or the first of a list that the DNS server has shuffled: over many that is the
// same share.
type Turns struct{ last atomic.Uint64 }

// next returns the address whose turn it is. Those without a route from here get none, unless none has one: clients do
// not try them either (RFC 6724, section 6, rule 1).
func (t *Turns) next(addrs []netip.AddrPort) netip.AddrPort {
	usable := slices.DeleteFunc(slices.Clone(addrs), func(addr netip.AddrPort) bool { return !routable(addr) })
	if len(usable) == 0 {
		usable = slices.Clone(addrs)
	}
	slices.SortFunc(usable, netip.AddrPort.Compare)
	return usable[(t.last.Add(1)-1)%uint64(len(usable))]
}
