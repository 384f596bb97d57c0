package cluster

import (
	"net/netip"
	"reflect"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

func TestEachServiceHasItsOwnStepsAndOneUpdateIsOneStep(t *testing.T) {
	change := func(seen time.Duration, service, uid, addr, to string) model.Event {
		return model.Event{
			Event: timeline.Event{
				Kind: timeline.EndpointChanged, Seen: seen * time.Second,
				Service: service, Object: timeline.Object{Kind: "Pod", UID: uid}, Addr: netip.MustParseAddr(addr), Port: 80, To: to,
			},
			At: model.Instant{Earliest: (seen - 1) * time.Second, Latest: seen * time.Second},
		}
	}
	step := func(seen time.Duration, ready, serving int) model.EndpointStep {
		return model.EndpointStep{At: model.Instant{Earliest: (seen - 1) * time.Second, Latest: seen * time.Second},
			Ready: ready, Serving: serving}
	}
	got := Services([]model.Event{
		change(1, "shop/web", "a", "10.0.0.1", timeline.EndpointReady),
		change(1, "shop/web", "a", "fd00::1", timeline.EndpointReady),
		change(1, "shop/web", "b", "10.0.0.2", timeline.EndpointReady),
		change(2, "shop/api", "a", "10.0.0.1", timeline.EndpointNotReady),
		change(3, "shop/web", "a", "fd00::1", timeline.EndpointAbsent), // its other address is ready
		change(4, "shop/web", "a", "10.0.0.1", timeline.EndpointTerminatingServing),
		change(4, "shop/web", "c", "10.0.0.3", timeline.EndpointReady),
		change(5, "shop/web", "a", "10.0.0.1", timeline.EndpointTerminating),
		// in one update
		change(6, "shop/web", "b", "10.0.0.2", timeline.EndpointTerminating),
		change(6, "shop/web", "d", "10.0.0.4", timeline.EndpointReady),
	})
	want := []model.WatchedService{
		{Name: "shop/web", Endpoints: []model.EndpointStep{step(1, 2, 2), step(4, 2, 3), step(5, 2, 2)}},
		{Name: "shop/api", Endpoints: []model.EndpointStep{step(2, 0, 0)}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}
