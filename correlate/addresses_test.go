package correlate

import (
	"net/netip"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Each event of an address has its count so far: the last one of each count is the sum of it.
func TestFailedAddressesCarryTheSumOfTheirCounts(t *testing.T) {
	event := func(from, to, n int, addr string, class timeline.Class, target string) timeline.Event {
		return timeline.Event{
			Kind: timeline.AddressFailed, Since: time.Duration(from) * tick, Seen: time.Duration(to) * tick,
			Addr: netip.MustParseAddr(addr), To: class.String(),
			Count: n, Detail: "i/o timeout", Object: timeline.Object{Kind: "Target", Name: target},
		}
	}
	run := rowRun(row("ok*700"),
		event(2, 3, 1, "10.0.0.9", timeline.TimeoutConnect, "new"),
		event(2, 12, 10, "10.0.0.9", timeline.TimeoutConnect, "new"),
		event(20, 21, 1, "10.0.0.9", timeline.Refused, "new"), event(22, 23, 1, "2001:db8::9", timeline.Refused, "new"),
		event(2, 60, 40, "10.0.0.9", timeline.TimeoutConnect, "new"),
		event(570, 571, 1, "10.0.0.9", timeline.TimeoutConnect, "new"),
		event(570, 590, 20, "10.0.0.9", timeline.TimeoutConnect, "new"),
		event(2, 90, 60, "10.0.0.9", timeline.TimeoutConnect, "another"))
	tl := analyze(t, run)
	at := func(from, to int) model.Instant {
		return model.Instant{Earliest: time.Duration(from) * tick, Latest: time.Duration(to) * tick}
	}
	want := []model.FailedAddress{
		{Addr: "10.0.0.9", Class: "timeout_connect", Text: "i/o timeout", Connections: 60, During: at(2, 590)},
		{Addr: "10.0.0.9", Class: "refused", Text: "i/o timeout", Connections: 1, During: at(20, 21)},
		{Addr: "2001:db8::9", Class: "refused", Text: "i/o timeout", Connections: 1, During: at(22, 23)},
	}
	if diff := gocmp.Diff(want, tl.Targets[0].FailedAddresses); diff != "" {
		t.Error(diff)
	}
}

// What a connection pool sees is not what `reused` saw, if its connections did not last.
func TestOnlyKeptConnectionsThatDidNotLastAreCounted(t *testing.T) {
	for kind, want := range map[timeline.TargetKind]int{timeline.New: 0, timeline.Reused: 3, timeline.Direct: 0} {
		requests := row("ok*8 x*4 ok*2")
		for i := range requests {
			requests[i].Reused = i > 1 && i != 9 && i != 13
		}
		run := rowRun(requests)
		run.Targets[0].Kind = kind
		if got := analyze(t, run).Targets[0].NewConnections; got != want {
			t.Errorf("%s: %d, want %d", kind, got, want)
		}
	}
}
