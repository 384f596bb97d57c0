package wire

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/timeline"
)

// Of several addresses, the most informative failure is reported.
func TestTheErrorOfManyAddressesIsTheOneThatTellsMost(t *testing.T) {
	own, way := loadtest.DialError(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL)), loadtest.DialError(os.NewSyscallError("connect", syscall.ENETUNREACH))
	refused, silent := loadtest.DialError(os.NewSyscallError("connect", syscall.ECONNREFUSED)), loadtest.DialError(os.ErrDeadlineExceeded)
	for _, test := range []struct {
		errs []error
		want error
	}{
		{[]error{refused, own}, refused},
		{[]error{own, refused}, refused},
		{[]error{refused, way}, refused},
		{[]error{silent, refused}, refused},
		{[]error{silent, way}, silent},
		{[]error{way, silent}, way},
		{[]error{errNoPort, silent}, silent},
		{[]error{own, errNoPort}, own},
	} {
		var failed []FailedAddress
		for _, err := range test.errs {
			failed = append(failed, FailedAddress{Err: err})
		}
		if got := mostInformative(failed).Err; got != test.want {
			t.Errorf("of %v: %v", test.errs, got)
		}
	}
}

// Where this process was too slow to ask every address, the refusal of another one is not the answer of all; silence
// is.
func TestAnAddressWithoutTimeIsNotRefused(t *testing.T) {
	refused, silent := FailedAddress{Err: loadtest.DialError(syscall.ECONNREFUSED)}, FailedAddress{Err: loadtest.DialError(os.ErrDeadlineExceeded)}
	late := silent
	late.late = true
	for _, test := range []struct {
		failed []FailedAddress
		want   timeline.Class
	}{
		{[]FailedAddress{refused, silent}, timeline.Refused},
		{[]FailedAddress{refused, late}, timeline.Local},
		{[]FailedAddress{late, refused}, timeline.Local},
		{[]FailedAddress{silent, late}, timeline.TimeoutConnect},
	} {
		if _, err := failureOf(test.failed); Classify(err, Connecting) != test.want {
			t.Errorf("%+v: %v, want %v", test.failed, err, test.want)
		}
	}
}

// listening returns an address of this machine that accepts connections, and one that refuses them.
func listening(t *testing.T) (accepts, refuses netip.AddrPort) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { server.Close() })
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	return netip.MustParseAddrPort(server.Addr().String()), netip.MustParseAddrPort(closed.Addr().String())
}

func TestAddressesThatFailedBeforeAGoodOneAreNamed(t *testing.T) {
	accepts, refuses := listening(t)
	clock := timeline.StartClock()
	c, peer, passed, err := NewPortAllocator().DialFallback("tcp", []netip.AddrPort{refuses, accepts}, clock, clock.Now()+10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
	if peer != accepts {
		t.Errorf("connected to %v, want %v", peer, accepts)
	}
	if len(passed) != 1 || passed[0].Addr != refuses || !errors.Is(passed[0].Err, syscall.ECONNREFUSED) {
		t.Errorf("passed over: %v", passed)
	}
	if _, peer, _, err := NewPortAllocator().DialFallback("tcp", []netip.AddrPort{refuses, refuses}, clock,
		clock.Now()+10*time.Second); peer != refuses || Classify(err, Connecting) != timeline.Refused {
		t.Errorf("of two that refuse: %v from %v", err, peer)
	}
}

// Where there is no local port left for the first address, it is not known what a client would meet there. 0.0.0.0 is
// this machine, but no loopback address.
func TestAnAddressThatCouldNotBeAskedIsNotPassedOver(t *testing.T) {
	accepts, refuses := listening(t)
	book := &PortAllocator{low: 50000, high: 50000, all: map[destination]*ports{}}
	first := netip.MustParseAddrPort("0.0.0.0:9")
	now := time.Now()
	book.of(destination{"tcp", first}).put(book.of(destination{"tcp", first}).take(now), os.ErrDeadlineExceeded, now)
	clock := timeline.StartClock()
	c, _, _, err := book.DialFallback("tcp", []netip.AddrPort{first, accepts}, clock, clock.Now()+10*time.Second)
	if c != nil || !errors.Is(err, errNoPort) || Classify(err, Connecting) != timeline.Local {
		t.Errorf("before a good one: %v, %v", c, err)
	}
	if _, _, _, err := book.DialFallback("tcp", []netip.AddrPort{first, refuses}, clock,
		clock.Now()+10*time.Second); Classify(err, Connecting) != timeline.Refused {
		t.Errorf("before one that refuses: %v", err)
	}
}

func TestOnlyAddressesWithAWayAreTried(t *testing.T) {
	near, _ := listening(t)
	lost := netip.MustParseAddrPort("[fe80::1]:9") // without a zone, nobody knows where it is
	for _, test := range []struct{ all, want []netip.AddrPort }{
		{[]netip.AddrPort{near, lost}, []netip.AddrPort{near}},
		{[]netip.AddrPort{near, lost, lost}, []netip.AddrPort{near}},
		{[]netip.AddrPort{near, near}, []netip.AddrPort{near, near}},
		{[]netip.AddrPort{lost, lost}, []netip.AddrPort{lost, lost}},
	} {
		if got := routableOnly(test.all); !slices.Equal(got, test.want) {
			t.Errorf("of %v: %v", test.all, got)
		}
	}
}
