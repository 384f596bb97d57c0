package engine

import (
	"fmt"
	"net/netip"
	"os"
	"reflect"
	"slices"
	"testing"
	"time"

	"lapse/loadgen/internal/loadtest"
	"lapse/loadgen/internal/wire"
	"lapse/timeline"
)

// A count is reported when it begins, when it has grown tenfold, and at the end if it has changed since.
func TestPassedAddressesAreCountedAndSeldomTold(t *testing.T) {
	var p failovers
	addr := netip.MustParseAddrPort("10.0.0.9:80")
	failed := func(i int) wire.FailedAddress {
		return wire.FailedAddress{Addr: addr, Err: loadtest.DialError(os.ErrDeadlineExceeded), Begun: time.Duration(i) * ms,
			Over: time.Duration(i+1) * ms}
	}
	var told []int
	for i := range 125 {
		p.note("new", failed(i))
		for _, e := range p.Take(false) {
			told = append(told, e.Count)
		}
	}
	last := p.Take(true)
	if want := []int{1, 10, 100}; !slices.Equal(told, want) || len(last) != 1 {
		t.Fatalf("told at %v, at the end %v", told, last)
	}
	want := timeline.Event{
		Kind: timeline.AddressFailed, Since: 0, Seen: 125 * ms, To: "timeout_connect", Object: timeline.Object{Kind: "Target", Name: "new"},
		Addr: addr.Addr(), Count: 125, Detail: "i/o timeout",
	}
	if !reflect.DeepEqual(last[0], want) {
		t.Errorf("%+v, want %+v", last[0], want)
	}
	if again := p.Take(true); again != nil {
		t.Errorf("told twice: %v", again)
	}
	for i := range 2 * mostFailovers {
		at := netip.MustParseAddrPort(fmt.Sprintf("10.0.1.%d:80", i))
		p.note("other", wire.FailedAddress{Addr: at, Err: loadtest.DialError(os.ErrDeadlineExceeded)})
	}
	if n := len(p.Take(true)); n != mostFailovers {
		t.Errorf("%d addresses are counted of one target, want %d", n, mostFailovers)
	}
}
