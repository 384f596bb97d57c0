package correlate

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

func TestWaitedTimeIsSplitByWhatTheNodeWaitedFor(t *testing.T) {
	type parts struct {
		startUp, controller, proxy time.Duration
		mostly                     model.LostPart
	}
	ready := func(at ...time.Duration) (states []model.PodState) {
		for _, start := range at {
			states = append(states, model.PodState{Start: start, State: "ready"},
				model.PodState{Start: start + time.Millisecond, State: "running"})
		}
		return states
	}
	for name, c := range map[string]struct {
		created, started, ready, api, routed time.Duration
		states                               []model.PodState
		open                                 bool
		want                                 *parts
	}{
		"it takes long to become ready": {0, 1000 * ms, 9000 * ms, 9100 * ms, 9300 * ms, ready(9000 * ms), false,
			&parts{8000 * ms, 100 * ms, 200 * ms, model.LostStartUp}},
		"the controller is slow": {0, 1000 * ms, 2000 * ms, 7000 * ms, 7300 * ms, ready(2000 * ms), false,
			&parts{1000 * ms, 5000 * ms, 300 * ms, model.LostController}},
		"the proxy is slow": {0, 1000 * ms, 2000 * ms, 2100 * ms, 8000 * ms, ready(2000 * ms), false,
			&parts{1000 * ms, 100 * ms, 5900 * ms, model.LostProxy}},
		"the proxy may be slower yet": {0, 1000 * ms, 9000 * ms, 9100 * ms, 9300 * ms, ready(9000 * ms), true,
			&parts{8000 * ms, 100 * ms, 200 * ms, ""}},
		"it had been ready before": {0, 1000 * ms, 2000 * ms, 20000 * ms, 21000 * ms, ready(2000*ms, 19000*ms),
			false, nil},
		"it was ready after the change": {0, 1000 * ms, 9000 * ms, 5000 * ms, 6000 * ms, ready(9000 * ms), false, nil},
	} {
		at := func(d time.Duration) *model.Instant { return new(exactly(d)) }
		pod := model.Pod{UID: "u", Created: at(c.created), Started: at(c.started), Ready: at(c.ready), States: c.states}
		routes := []model.Route{{Change: model.Addition, PodUID: "u", API: exactly(c.api), Changed: exactly(c.routed),
			Open: c.open}}
		addWaited([]model.Pod{pod}, routes)
		got := routes[0].Waited
		if got == nil || c.want == nil {
			if got != nil || c.want != nil {
				t.Errorf("%s: %+v, want %+v", name, got, c.want)
			}
			continue
		}
		of := func(d time.Duration) model.Length { return model.Length{Min: d, Max: d} }
		want := model.WaitedTime{Length: of(c.routed - c.started), StartUp: of(c.want.startUp),
			Controller: of(c.want.controller), Proxy: of(c.want.proxy), Mostly: c.want.mostly}
		if *got != want {
			t.Errorf("%s: %+v, want %+v", name, *got, want)
		}
	}
	for name, pod := range map[string]model.Pod{
		"there when the run began": {UID: "u", Started: new(exactly(0)), Ready: new(exactly(time.Second))},
		"no container was seen":    {UID: "u", Created: new(exactly(0)), Ready: new(exactly(time.Second))},
	} {
		routes := []model.Route{{Change: model.Addition, PodUID: "u", API: exactly(2000 * ms),
			Changed: exactly(3000 * ms)}}
		if addWaited([]model.Pod{pod}, routes); routes[0].Waited != nil {
			t.Errorf("%s: %+v, want nothing", name, routes[0].Waited)
		}
	}
}
