package wire

import (
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"lapse/timeline"
)

// A SYN that nobody answers is given up at the deadline, from a port of our own choice and from the kernel's.
func TestConnectEndsAtItsDeadline(t *testing.T) {
	addr := fullListener(t)
	low, high := localPorts()
	if low == 0 {
		t.Fatal("the kernel names no range of local ports (ip_local_port_range)")
	}
	own := func() (Transport, error) {
		return newPorts(low, high, new(atomic.Int64)).dial("tcp", addr, time.Now().Add(50*time.Millisecond))
	}
	kernels := func() (Transport, error) { return dialFrom("tcp", 0, addr, time.Now().Add(50*time.Millisecond)) }
	for name, dial := range map[string]func() (Transport, error){"our port": own, "the kernel's port": kernels} {
		c, err := dial()
		if err == nil {
			c.Close()
			t.Fatalf("from %s: connected to a listener whose backlog is full", name)
		}
		if class := Classify(err, Connecting); class != timeline.TimeoutConnect {
			t.Errorf("from %s: %v is %v", name, err, class)
		}
	}
}

// fullListener returns the address of a listener that accepts nothing and whose backlog is full: the kernel drops
// further SYNs.
func fullListener(t *testing.T) netip.AddrPort {
	t.Helper()
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	if err := unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		t.Fatal(err)
	}
	if err := unix.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	name, err := unix.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(name.(*unix.SockaddrInet4).Port))
	for range 8 {
		c, err := net.DialTimeout("tcp", addr.String(), 50*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { c.Close() })
	}
	t.Fatal("the backlog does not fill")
	return addr
}
