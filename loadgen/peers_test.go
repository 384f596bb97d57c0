package loadgen

import (
	"net/netip"
	"testing"

	"lapse/loadgen/faultserver"
	"lapse/timeline"
)

func TestEveryRequestNamesTheAddressItWentTo(t *testing.T) {
	t.Parallel()
	for _, kind := range []timeline.TargetKind{timeline.New, timeline.Reused, timeline.Direct} {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			s := serve(t, faultserver.Config{})
			probe := probe(1, kind, s.URL(), 200)
			probe.Addr = s.Addr()
			f := run(t, timeline.StartClock(), func(_ *Prober, f *facts) {
				waitFor(t, "20 good answers", func() bool { return f.ended(1, timeline.OK) >= 20 })
				closeServer(t, s)
				waitFor(t, "20 refused connections", func() bool { return f.ended(1, timeline.Refused) >= 20 })
			}, probe)
			for _, r := range f.of(1) {
				if sent := r.Class.Observed() && r.Class != timeline.NoSlot; sent && f.peers[r.Peer] != s.Addr() {
					t.Fatalf("%v request %d went to %v, want %v", r.Class, r.Seq, f.peers[r.Peer], s.Addr())
				}
			}
		})
	}
}

func TestAPeerIsNumberedOnce(t *testing.T) {
	var p peers
	a, b := netip.MustParseAddrPort("10.0.0.1:80"), netip.MustParseAddrPort("[fd00::1]:80")
	if first, second, again, none := p.id(a), p.id(b), p.id(a), p.id(netip.AddrPort{}); first != 1 || second != 2 || again != 1 || none != 0 {
		t.Errorf("numbers %d, %d, %d and %d, want 1, 2, 1 and 0", first, second, again, none)
	}
	if got := p.take(); len(got) != 2 || got[1] != (timeline.Peer{ID: 2, Addr: b}) || p.take() != nil {
		t.Errorf("handed on: %v", got)
	}
}
