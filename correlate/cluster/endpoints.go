package cluster

import (
	"net/netip"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Services returns how many endpoints each Service had from when on, by the order in which their first endpoints were seen. Changes
// seen in the same instant came in one update and are one step.
func Services(events []model.Event) []model.WatchedService {
	services := []model.WatchedService{}
	index := map[string]int{}
	var states []timeline.Endpoints
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.EndpointChanged || e.Object == nil {
			continue
		}
		at, known := index[e.Service]
		if !known {
			at = len(services)
			index[e.Service] = at
			services, states = append(services, model.WatchedService{Name: e.Service}), append(states, timeline.Endpoints{})
		}
		SetEndpoint(&states[at], e)
		services[at].Endpoints = appendStep(services[at].Endpoints, model.EndpointStep{At: e.At, Ready: states[at].Ready(), Serving: states[at].Serving()})
	}
	return services
}

// appendStep appends a step unless nothing changes with it.
func appendStep(steps []model.EndpointStep, step model.EndpointStep) []model.EndpointStep {
	if last := len(steps) - 1; last >= 0 && steps[last].At.Latest == step.At.Latest {
		step.At.Earliest = min(step.At.Earliest, steps[last].At.Earliest)
		steps = steps[:last]
	}
	if last := len(steps) - 1; last >= 0 && steps[last].Ready == step.Ready && steps[last].Serving == step.Serving {
		return steps
	}
	return append(steps, step)
}

// SetEndpoint takes a change of an endpoint into the states of its Service's.
func SetEndpoint(of *timeline.Endpoints, e *model.Event) {
	addr, _ := netip.ParseAddr(e.Addr)
	of.Set(*e.Object, addr, e.Port, e.To)
}

func IsReady(state string) bool { return state == timeline.EndpointReady }
