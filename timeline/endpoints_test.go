package timeline

import (
	"net/netip"
	"testing"
)

func TestAPodIsOneEndpointWhateverAddressesAndPortsItHas(t *testing.T) {
	pod := func(uid string) Object { return Object{Kind: "Pod", UID: uid} }
	slice := Object{Kind: "EndpointSlice", UID: "slice"}
	var of Endpoints
	for i, step := range []struct {
		behind         Object
		addr           string
		port           uint16
		state          string
		ready, serving int
	}{
		{pod("a"), "10.0.0.1", 8080, EndpointReady, 1, 1},
		{pod("a"), "10.0.0.1", 9090, EndpointReady, 1, 1},
		{pod("a"), "fd00::1", 8080, EndpointReady, 1, 1},
		{pod("b"), "10.0.0.2", 8080, EndpointReady, 2, 2},
		{slice, "10.0.0.3", 8080, EndpointReady, 3, 3},
		{slice, "10.0.0.4", 8080, EndpointReady, 4, 4}, // of the same slice, and another endpoint
		{pod("a"), "10.0.0.1", 8080, EndpointTerminating, 4, 4},
		{pod("a"), "10.0.0.1", 8080, EndpointTerminating, 4, 4}, // seen again, in another slice
		{pod("a"), "10.0.0.1", 9090, EndpointAbsent, 4, 4},
		{pod("a"), "fd00::1", 8080, EndpointTerminatingServing, 3, 4},
		{pod("a"), "fd00::1", 8080, EndpointAbsent, 3, 3},
		{pod("b"), "10.0.0.2", 8080, EndpointNotReady, 2, 2},
	} {
		of.Set(step.behind, netip.MustParseAddr(step.addr), step.port, step.state)
		if of.Ready() != step.ready || of.Serving() != step.serving {
			t.Errorf("step %d: %d ready, %d serving, want %d and %d", i, of.Ready(), of.Serving(), step.ready, step.serving)
		}
	}
}
