package protocol

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"testing"

	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

func TestAddressesOfAnotherFamilyAreNotAsked(t *testing.T) {
	four, six := netip.MustParseAddrPort("127.0.0.1:80"), netip.MustParseAddrPort("[::1]:80")
	for family, want := range map[int][]netip.AddrPort{0: {six, four}, 4: {four}, 6: {six}} {
		p := &wire.Dialer{Family: family}
		chosen, err := p.Choose([]netip.AddrPort{six, four})
		if err != nil || fmt.Sprint(chosen) != fmt.Sprint(want) {
			t.Errorf("family %d: %v, %v; want %v", family, chosen, err, want)
		}
	}
	p := &wire.Dialer{Family: 6, Host: "web.test"}
	_, err := p.Choose([]netip.AddrPort{four})
	if dns, ok := errors.AsType[*net.DNSError](err); !ok || wire.Classify(dns, wire.Resolving) != timeline.DNS {
		t.Errorf("no address of the family: %v, want a failed look-up", err)
	}
	if err := (Probe{Target: timeline.Target{Name: "web", Kind: timeline.New, URL: "http://web.test/", Rate: 1,
		Family: 5}}).Check(); err == nil {
		t.Error("family 5 was taken")
	}
}
