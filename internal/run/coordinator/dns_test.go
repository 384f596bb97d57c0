package coordinator

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"lapse/internal/run/spec"
	"lapse/loadgen/lookup"
	"lapse/timeline"
)

// Outside of a cluster there is no name to ask for: why is an event, and nothing is asked.
func TestDNSIsNotAskedWithoutTheClustersDomain(t *testing.T) {
	o := &spec.Options{}
	o.DNS = &spec.DNS{Servers: []lookup.Server{{Addr: netip.MustParseAddrPort("127.0.0.1:1")}}}
	m := newMeasurement(o, slog.New(slog.DiscardHandler))
	m.Clock = timeline.StartClock()
	m.lookUp(t.Context())
	facts := m.Queue.Take()
	if len(facts) != 1 {
		t.Fatalf("%d facts", len(facts))
	}
	if e := facts[0].(timeline.Event); e.Kind != timeline.NameAnswered || e.To != timeline.LookupNotAsked || !strings.Contains(e.Detail, "DNS domain") {
		t.Errorf("%+v", e)
	}
}
