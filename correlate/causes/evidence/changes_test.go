package evidence

import (
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

func TestAnEvictionRequestNamesItsRequester(t *testing.T) {
	got := Describe(&model.Event{Event: timeline.Event{
		Kind: timeline.EvictionRequested, From: "absent", To: "Eviction", Detail: "upgrade-web-1", Actor: "example.com/upgrade",
		Object: timeline.Object{Kind: "Pod", Name: "web-1"},
	}})
	if want := "eviction-request web-1 absent → Eviction by example.com/upgrade"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
