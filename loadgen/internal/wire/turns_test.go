package wire

import (
	"fmt"
	"net/netip"
	"testing"

	"lapse/internal/layer"
)

// Of a name with 50 addresses, each gets every 50th connection, in whatever order the resolver lists them.
func TestEachAddressOfANameHasItsTurn(t *testing.T) {
	layer.Real(t)
	p := &Dialer{Turns: new(Turns)}
	got := map[netip.AddrPort]int{}
	for n := range 500 {
		var addrs []netip.AddrPort
		for i := range 50 {
			addrs = append(addrs, netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:8080", 1+(i+n)%50)))
		}
		chosen, err := p.Choose(addrs)
		if err != nil || len(chosen) != 1 {
			t.Fatalf("chosen %v, %v: want one", chosen, err)
		}
		got[chosen[0]]++
	}
	for addr, n := range got {
		if n != 10 {
			t.Errorf("%v had %d of 500 connections, want 10", addr, n)
		}
	}
	if len(got) != 50 {
		t.Errorf("%d addresses had a connection, want 50", len(got))
	}
}

// Addresses without a route from here get no connection, unless there is no other.
func TestAddressesWithoutARouteHaveNoTurn(t *testing.T) {
	// a link-local address needs a zone
	near, far := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[fe80::1]:80")
	if routable(far) {
		t.Fatalf("%v has a route", far)
	}
	p := &Dialer{Turns: new(Turns)}
	for range 4 {
		if chosen, err := p.Choose([]netip.AddrPort{far, near}); err != nil || chosen[0] != near {
			t.Errorf("chosen %v, %v; want %v", chosen, err, near)
		}
	}
	if chosen, err := p.Choose([]netip.AddrPort{far, far}); err != nil || chosen[0] != far {
		t.Errorf("chosen %v, %v; want %v, whose failure is the answer", chosen, err, far)
	}
}
