package loadgen

import (
	"net"
	"net/netip"
	"testing"
	"time"
)

func TestPortsComeBackAsLateAsPossible(t *testing.T) {
	p, now := newPorts(100, 103), time.Now()
	for range 2 {
		for want := uint16(100); want <= 103; want++ {
			if got := p.take(now); got != want {
				t.Fatalf("port %d, want %d", got, want)
			}
		}
	}
}

func TestFailedPortsRestUntilTheyAreForgotten(t *testing.T) {
	p, now := newPorts(100, 102), time.Now()
	p.spoil(101, now)
	for _, want := range []uint16{100, 102, 100} {
		if got := p.take(now.Add(quarantine)); got != want {
			t.Errorf("port %d, want %d", got, want)
		}
	}
	if got := p.take(now.Add(quarantine + 1)); got != 101 {
		t.Errorf("port %d, want 101 again", got)
	}
}

func TestKernelChoosesWhenAllPortsRest(t *testing.T) {
	p, now := newPorts(65534, 65535), time.Now()
	p.spoil(65534, now)
	p.spoil(65535, now)
	if got := p.take(now); got != 0 {
		t.Errorf("port %d, want none", got)
	}
}

func TestPortsInUseArePassedOver(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	used, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer used.Close()
	taken := netip.MustParseAddrPort(used.Addr().String()).Port()
	p := newPorts(taken, min(taken, 65535-tries)+tries-1)
	c, err := p.dial(netip.MustParseAddrPort(server.Addr().String()), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if port := netip.MustParseAddrPort(c.LocalAddr().String()).Port(); port == taken || port < taken {
		t.Errorf("connected from port %d, with %d in use", port, taken)
	}
}
