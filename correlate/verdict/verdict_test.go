package verdict

import (
	"testing"

	"lapse/correlate/model"
	"lapse/timeline"
)

func TestPodsThatWereNeverProbedDirectlyAreCounted(t *testing.T) {
	endpoint := func(uid string) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady,
			Object: timeline.Object{Kind: "Pod", Name: "web-" + uid, UID: uid}}}
	}
	tl := &model.Timeline{Events: []model.Event{endpoint("a"), endpoint("b"), endpoint("b"), endpoint("c")},
		Targets: []model.Target{{Target: timeline.Target{Name: "web direct web-a", Kind: timeline.Direct, PodUID: "a"}}}}
	if got := validity(tl).NotProbed; got != 2 {
		t.Errorf("%d, want 2", got)
	}
	tl.Targets = nil
	if got := validity(tl).NotProbed; got != 0 {
		t.Errorf("%d of a run that probes none directly, want 0", got)
	}
}
