package verdict

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// fleetRun has three removals that three nodes followed, each after 100 ms to 900 ms, ±50 ms.
func fleetRun() *model.Timeline {
	tl := &model.Timeline{}
	at := func(t time.Duration) model.Instant {
		return model.Instant{Earliest: t - 50*time.Millisecond, Latest: t}
	}
	for i := range 3 {
		pod := fmt.Sprintf("web-%d", i+1)
		tl.Events = append(tl.Events, model.Event{
			Event: timeline.Event{
				ID: uint32(i + 1), Kind: timeline.EndpointChanged, From: timeline.EndpointReady,
				To: timeline.EndpointTerminatingServing, Service: "shop/web",
				Object: timeline.Object{Kind: "Pod", Name: pod, UID: pod},
			}, At: at(time.Duration(i+1) * 5 * time.Second),
		})
	}
	for i := range 3 {
		node := fmt.Sprintf("node%d", i+1)
		source := model.Source{Name: "prober-" + node, Role: timeline.Prober, Coverage: new(1 - float64(i)/100)}
		tl.Sources = append(tl.Sources, source)
		target := model.Target{Target: timeline.Target{Name: "new from " + node, Kind: timeline.New, Service: "shop/web"}, Source: source.Name,
			Measured: model.Instant{Latest: 30 * time.Second}}
		tl.Targets = append(tl.Targets, target)
		for j, e := range tl.Events {
			lag := time.Duration(3*i+j+1) * 100 * time.Millisecond
			tl.Routes = append(tl.Routes, model.Route{
				Change: model.Removal, Service: "shop/web", Node: node, Target: target.Name, Event: e.ID,
				Pod: e.Object.Name,
				Lag: model.Length{Min: lag - 50*time.Millisecond, Max: lag + 50*time.Millisecond},
			})
		}
	}
	tl.Routes = append(tl.Routes, model.Route{Change: model.Addition, Target: "new from node1", Event: 99,
		Lag: model.Length{Min: time.Hour, Max: time.Hour}})
	return tl
}

func TestRouteGatesHoldTheLagsOfAllNodes(t *testing.T) {
	all := map[string]model.GateOutcome{"route.lag.max>849ms": model.GateFail,
		"route.lag.max>900ms": model.GateUndecided, "route.lag.max>950ms": model.GatePass,
		"route.lag.p99>950ms": model.GatePass}
	unknown := map[string]model.GateOutcome{"route.lag.max>849ms": model.GateFail,
		"route.lag.max>900ms": model.GateUndecided, "route.lag.max>1h": model.GateUndecided}
	for _, tt := range []struct {
		name   string
		change func(*model.Timeline)
		want   map[string]model.GateOutcome
	}{
		{"all are known", func(*model.Timeline) {}, all},
		{"of one nothing is known", func(tl *model.Timeline) { tl.Routes = slices.Delete(tl.Routes, 0, 1) }, unknown},
		{"one was not seen to be followed", func(tl *model.Timeline) { tl.Routes[0].Open = true }, unknown},
		{"one was removed when no one measured any more", func(tl *model.Timeline) {
			e := tl.Events[0]
			e.ID, e.At = 77, model.Instant{Earliest: 31 * time.Second, Latest: 31 * time.Second}
			tl.Events = append(tl.Events, e)
		}, all},
		{"another Service lost one", func(tl *model.Timeline) {
			e := tl.Events[0]
			e.ID, e.Service = 77, "shop/other"
			tl.Events = append(tl.Events, e)
		}, all},
		{"no routes", func(tl *model.Timeline) {
			tl.Routes = nil
		}, map[string]model.GateOutcome{"route.lag.max>1h": model.GateUndecided,
			"route.lag.p99>0": model.GateUndecided}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tl := fleetRun()
			tt.change(tl)
			judgeGates(t, tl, tt.want)
		})
	}
}

// A percentile leaves the longest out, also those that are longer than anyone knows.
func TestRouteLagP99LeavesOneInAHundredOut(t *testing.T) {
	tl := fleetRun()
	for len(tl.Routes) < 200 {
		tl.Routes = append(tl.Routes, tl.Routes[:9]...)
	}
	tl.Routes[0].Open, tl.Routes[10].Open = true, true
	judgeGates(t, tl, map[string]model.GateOutcome{"route.lag.p99>849ms": model.GateFail,
		"route.lag.p99>950ms": model.GatePass, "route.lag.max>950ms": model.GateUndecided})
	tl.Routes[20].Open = true
	judgeGates(t, tl, map[string]model.GateOutcome{"route.lag.p99>950ms": model.GateUndecided})
}

func TestSourcesCoverageIsThatOfTheWorst(t *testing.T) {
	judgeGates(t, fleetRun(), map[string]model.GateOutcome{"sources.coverage<97.9%": model.GatePass,
		"sources.coverage<98.1%": model.GateFail, "coverage<98.1%": model.GatePass})
	judgeGates(t, &model.Timeline{}, map[string]model.GateOutcome{"sources.coverage<99.8%": model.GatePass,
		"sources.coverage<100%": model.GateFail})
}

func judgeGates(t *testing.T, tl *model.Timeline, want map[string]model.GateOutcome) {
	t.Helper()
	for expr, outcome := range want {
		gate, err := ParseGate(expr)
		if err != nil {
			t.Fatal(err)
		}
		if got := gate.judge(tl, &model.Verdict{Sent: 1000, Coverage: 0.999}); got.Outcome != outcome {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, outcome)
		}
	}
}
