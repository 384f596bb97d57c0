package wire

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

func TestPortsComeBackAsLateAsPossible(t *testing.T) {
	p, now := newPorts(100, 103, new(atomic.Int64)), time.Now()
	for range 2 {
		for want := uint16(100); want <= 103; want++ {
			got := p.take(now)
			if got != want {
				t.Fatalf("port %d, want %d", got, want)
			}
			p.put(got, nil, now)
		}
	}
}

func TestUnansweredPortsRestUntilTheyAreForgotten(t *testing.T) {
	p, now := newPorts(100, 103, new(atomic.Int64)), time.Now()
	p.put(p.take(now), os.ErrDeadlineExceeded, now)
	for _, want := range []uint16{101, 102, 103, 101} {
		got := p.take(now.Add(quarantine))
		if got != want {
			t.Fatalf("port %d, want %d", got, want)
		}
		p.put(got, nil, now)
	}
	for _, want := range []uint16{102, 103, 100} {
		if got := p.take(now.Add(quarantine + 1)); got != want {
			t.Errorf("port %d, want %d", got, want)
		}
	}
}

// Only a SYN without an answer stays in the tracker's table.
func TestOnlyUnansweredPortsRest(t *testing.T) {
	for _, test := range []struct {
		err   error
		rests bool
	}{
		{nil, false},
		{syscall.ECONNREFUSED, false},
		{syscall.ECONNRESET, false},
		{syscall.EADDRINUSE, false},
		{syscall.EMFILE, false},
		{os.ErrDeadlineExceeded, true},
		{syscall.ETIMEDOUT, true},
		{syscall.EHOSTUNREACH, true},
	} {
		p, now := newPorts(65535, 65535, new(atomic.Int64)), time.Now()
		err := test.err
		if err != nil {
			err = &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", err)}
		}
		p.put(p.take(now), err, now)
		if rests := p.take(now) == 0; rests != test.rests {
			t.Errorf("after %v: rests %v, want %v", err, rests, test.rests)
		}
	}
}

// A refused outage of any length is seen as one: no request fails for want of a port.
func TestRefusalsUseUpNoPorts(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.MustParseAddrPort(server.Addr().String())
	server.Close()
	p := newPorts(50000, 50063, new(atomic.Int64))
	for i := range 200 {
		_, err := p.dial("tcp", addr, time.Now().Add(10*time.Second))
		if class := Classify(err, Connecting); class != timeline.Refused {
			t.Fatalf("connection %d: %v is %v", i, err, class)
		}
	}
}

func TestWithoutAPortTheFaultIsOurs(t *testing.T) {
	p, now := newPorts(65535, 65535, new(atomic.Int64)), time.Now()
	p.put(p.take(now), os.ErrDeadlineExceeded, now)
	_, err := p.dial("tcp", netip.MustParseAddrPort("127.0.0.1:9"), now.Add(10*time.Second))
	if class := Classify(err, Connecting); class != timeline.Local {
		t.Errorf("%v is %v, want local", err, class)
	}
}

// Ten minutes at 1000 requests per second without an answer take 600 000 ports. No more than 28 232 in 125 s may be
// used, and yet some in every stretch, so that the end of the outage is seen when it comes.
func TestALongSilenceIsWatchedToItsEnd(t *testing.T) {
	const rest = 20 * time.Millisecond // half the ports in 125 s less 14 s are one each 8 ms
	p, now := newPorts(32768, 60999, new(atomic.Int64)), time.Now()
	begun, last := now, now
	used := map[uint16]time.Time{}
	for ; now.Sub(begun) < 10*time.Minute; now = now.Add(time.Millisecond) {
		port := p.take(now)
		if port == 0 {
			continue
		}
		if before, again := used[port]; again && now.Sub(before) <= quarantine {
			t.Fatalf("after %v: port %d was used %v before", now.Sub(begun), port, now.Sub(before))
		}
		if now.Sub(last) > rest {
			t.Fatalf("after %v: nothing was sent for %v", now.Sub(begun), now.Sub(last))
		}
		used[port], last = now, now
		p.put(port, os.ErrDeadlineExceeded, now)
	}
	recovered := false
	for range 1000 {
		now = now.Add(time.Millisecond)
		port := p.take(now)
		switch {
		case port != 0:
			recovered = true
			p.put(port, nil, now)
		case recovered:
			t.Fatal("a port is missing after the first answer")
		}
	}
	if !recovered {
		t.Error("the end was not seen")
	}
}

func TestAPortInUseCostsASilenceNoRequest(t *testing.T) {
	p, now := newPorts(100, 103, new(atomic.Int64)), time.Now()
	for range 2 {
		p.put(p.take(now), os.ErrDeadlineExceeded, now)
	}
	now = now.Add(quarantine / 2)
	p.put(p.take(now), syscall.EADDRINUSE, now)
	if got := p.take(now); got != 103 {
		t.Errorf("port %d, want 103 instead of the one in use", got)
	}
}

// Whoever waits for the choice of a port is counted.
func TestWhoWaitsForAPortIsCounted(t *testing.T) {
	var choosing atomic.Int64
	p := newPorts(100, 103, &choosing)
	p.mu.Lock()
	taken := make(chan uint16)
	go func() { taken <- p.take(time.Now()) }()
	loadtest.WaitFor(t, "the choice of a port", func() bool { return choosing.Load() == 1 })
	p.mu.Unlock()
	if port := <-taken; port != 100 || choosing.Load() != 0 {
		t.Errorf("port %d, and %d wait", port, choosing.Load())
	}
}

func TestPortsInUseArePassedOver(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	taken := usedPort(t)
	p := newPorts(taken, min(taken, 65535-tries)+tries-1, new(atomic.Int64))
	c, err := p.dial("tcp", netip.MustParseAddrPort(server.Addr().String()), time.Now().Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if port := netip.MustParseAddrPort(c.LocalAddr().String()).Port(); port == taken || port < taken {
		t.Errorf("connected from port %d, with %d in use", port, taken)
	}
}

func TestKernelChoosesOnlyWhileNoPortRests(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	addr := netip.MustParseAddrPort(server.Addr().String())
	taken := usedPort(t)
	p, now := newPorts(taken, taken, new(atomic.Int64)), time.Now()
	c, err := p.dial("tcp", addr, now.Add(10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	p.spoiled = append(p.spoiled, resting{taken, now})
	if _, err := p.dial("tcp", addr, now.Add(10*time.Second)); !errors.Is(err, errNoPort) {
		t.Errorf("%v, want %v: the kernel may choose a port that rests", err, errNoPort)
	}
}

// usedPort returns a local port that another socket uses until the test ends.
func usedPort(t *testing.T) uint16 {
	t.Helper()
	used, err := net.Listen("tcp", ":0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { used.Close() })
	return netip.MustParseAddrPort(used.Addr().String()).Port()
}

// The late reply to a UDP socket's request reaches whoever has its port next. On loopback too, that is another socket
// only after all other ports: the kernel chooses at random, and so would give a socket the port of the one just closed
// once in 28 000.
func TestUDPPortsOnLoopbackComeBackAsLateAsPossible(t *testing.T) {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	low := freeUDPPorts(t, 4)
	b := &PortAllocator{low: low, high: low + 3, all: map[destination]*ports{}}
	for range 2 {
		for want := low; want < low+4; want++ {
			c, err := b.dial("udp", server.LocalAddr().(*net.UDPAddr).AddrPort(), time.Now().Add(time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if got := c.LocalAddr().(*net.UDPAddr).AddrPort().Port(); got != want {
				t.Errorf("port %d, want %d", got, want)
			}
			c.Close()
		}
	}
}

// Where nobody listens, a UDP socket from the target's own port would be connected to itself.
func TestNoUDPSocketIsConnectedToItself(t *testing.T) {
	low := freeUDPPorts(t, 2)
	b := &PortAllocator{low: low, high: low + 1, all: map[destination]*ports{}}
	for range 2 {
		c, err := b.dial("udp", netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), low), time.Now().Add(time.Second))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.LocalAddr().(*net.UDPAddr).AddrPort().Port(); got != low+1 {
			t.Errorf("from port %d, want %d", got, low+1)
		}
		c.Close()
	}
}

// freeUDPPorts returns the first of n adjoining ports, below those that the kernel gives out, that nobody uses.
func freeUDPPorts(t *testing.T, n uint16) uint16 {
	t.Helper()
search:
	for low := uint16(20000); low < 30000; low += n {
		for port := low; port < low+n; port++ {
			c, err := net.ListenUDP("udp", &net.UDPAddr{Port: int(port)})
			if err != nil {
				continue search
			}
			defer c.Close()
		}
		return low
	}
	t.Fatal("no free UDP ports")
	return 0
}
