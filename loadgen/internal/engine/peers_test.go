package engine

import (
	"net/netip"
	"testing"

	"lapse/timeline"
)

func TestAPeerIsNumberedOnce(t *testing.T) {
	var p peers
	a, b := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[fd00::1]:80")
	if first, second, again, none := p.id(a), p.id(b), p.id(a), p.id(netip.AddrPort{}); first != 1 || second != 2 ||
		again != 1 || none != 0 {
		t.Errorf("numbers %d, %d, %d and %d, want 1, 2, 1 and 0", first, second, again, none)
	}
	if got := p.Take(); len(got) != 2 || got[1] != (timeline.Peer{ID: 2, Addr: b}) || p.Take() != nil {
		t.Errorf("handed on: %v", got)
	}
}
