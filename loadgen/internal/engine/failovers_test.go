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
		for _, e := range p.Take(time.Duration(i+1)*ms, false) {
			told = append(told, e.Count)
		}
	}
	const end = 125 * ms
	last := p.Take(end, true)
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
	if again := p.Take(end, true); again != nil {
		t.Errorf("told twice: %v", again)
	}
	for i := range 2 * mostFailovers {
		at := netip.MustParseAddrPort(fmt.Sprintf("10.0.1.%d:80", i))
		p.note("other", wire.FailedAddress{Addr: at, Err: loadtest.DialError(os.ErrDeadlineExceeded)})
	}
	if n := len(p.Take(end, true)); n != mostFailovers {
		t.Errorf("%d addresses are counted of one target, want %d", n, mostFailovers)
	}
}

// Failures after a pause are counted anew, and so are those of an address that fails for longer than a minute: a guard
// has a run of each disruption.
func TestFailedAddressesAreCountedAnew(t *testing.T) {
	for name, test := range map[string]struct {
		every  time.Duration // from one failure to the next
		n      int
		counts int // that are over
		of     int // failures each
	}{
		"after a pause": {textsFor + time.Second, 40, 39, 1},
		"of a minute":   {time.Second, 10*61 + 5, 10, 61},
	} {
		t.Run(name, func(t *testing.T) {
			var p failovers
			sum, counts := 0, map[time.Duration]int{}
			take := func(now time.Duration, end bool) {
				for _, e := range p.Take(now, end) {
					sum += e.Count - counts[e.Since]
					counts[e.Since] = e.Count
				}
			}
			for i := range test.n {
				begun := time.Duration(i) * test.every
				p.note("new", wire.FailedAddress{Err: loadtest.DialError(os.ErrDeadlineExceeded), Begun: begun, Over: begun + ms})
				for now := begun + ms; now < begun+test.every; now += 500 * ms {
					take(now, false)
				}
			}
			end := time.Duration(test.n) * test.every
			take(end, true)
			if whole := len(counts) - 1; sum != test.n || whole != test.counts || counts[0] != test.of {
				t.Errorf("%d of %d connections told, in %d counts and a last one, the first of %d", sum, test.n, whole, counts[0])
			}
			if p.Take(end+time.Minute, false); len(p.counts) > 0 {
				t.Errorf("%d counts are kept", len(p.counts))
			}
		})
	}
}
