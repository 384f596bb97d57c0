package direct

import (
	"net/netip"
	"slices"
	"testing"
	"time"

	"lapse/timeline"
)

// A budget that is changed is shared anew by the endpoints that are probed.
func TestABudgetIsSharedAnew(t *testing.T) {
	p := NewPlan(5, 10, "")
	for i := range 2 {
		p.Learn(timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady, Port: 80,
			Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Object: timeline.Object{Kind: "Pod", UID: string(rune('a' + i))}})
	}
	apply := func() (rates []float64) {
		for _, c := range p.Changes(time.Minute) {
			c.Endpoint.Probed, c.Endpoint.Rate = c.Probe, c.Rate
			rates = append(rates, c.Rate)
		}
		return rates
	}
	if rates := apply(); len(rates) != 2 || rates[0] != 2.5 {
		t.Errorf("at first %v", rates)
	}
	p.SetBudget(100)
	if rates := apply(); len(rates) != 2 || rates[0] != 50 {
		t.Errorf("then %v", rates)
	}
	if rates := apply(); len(rates) != 0 {
		t.Errorf("and again %v", rates)
	}
}

// Endpoints in transition get more than their share, and no more than others while the run waits for a sign.
func TestEndpointsInTransitionAreProbedFaster(t *testing.T) {
	for calm, want := range map[bool][]float64{false: {10, 10}, true: {5, 5}} {
		p := NewPlan(10, 10, "")
		p.Calm = calm
		for i, state := range []string{timeline.EndpointReady, timeline.EndpointNotReady} {
			p.Learn(timeline.Event{Kind: timeline.EndpointChanged, To: state, Port: 80,
				Addr: netip.AddrFrom4([4]byte{10, 0, 0, byte(i)}), Object: timeline.Object{Kind: "Pod", UID: string(rune('a' + i))}})
		}
		var rates []float64
		for _, c := range p.Changes(time.Second) {
			rates = append(rates, c.Rate)
		}
		if !slices.Equal(rates, want) {
			t.Errorf("calm %v: %v", calm, rates)
		}
	}
}
