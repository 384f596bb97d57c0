package cluster

import (
	"net/netip"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Services returns how many endpoints each Service had from when on, by the order in which their first endpoints were
// seen. Changes seen in the same instant came in one update and are one step.
func Services(events []model.Event) []model.WatchedService {
	services := []model.WatchedService{}
	index := map[string]int{}
	var changes [][]*model.Event
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.EndpointChanged || e.Object.IsZero() {
			continue
		}
		at, known := index[e.Service]
		if !known {
			at = len(services)
			index[e.Service] = at
			services, changes = append(services, model.WatchedService{Name: e.Service}), append(changes, nil)
		}
		changes[at] = append(changes[at], e)
	}
	for i := range services {
		services[i].Endpoints = EndpointSteps(changes[i])
	}
	return services
}

// EndpointSteps returns how many endpoints there were from when on, by how they changed. Changes seen in the same
// instant came in one update and are one step.
func EndpointSteps(changes []*model.Event) (steps []model.EndpointStep) {
	var states timeline.Endpoints
	for _, e := range changes {
		SetEndpoint(&states, e)
		steps = appendStep(steps, model.EndpointStep{At: e.At, Ready: states.Ready(), Serving: states.Serving()})
	}
	return steps
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
	of.Set(e.Object, e.Addr, e.Port, e.To)
}

// Moves returns the changes, by their ID, with which endpoints only moved from one port to another, as where the
// Service's targetPort was changed: with one update each turned absent at the one port and ready at the other. Its
// Pod neither came nor left.
func Moves(events []model.Event) map[uint32]bool {
	type half struct {
		seen              time.Duration
		addr              netip.Addr
		service, portName string
		from              string
	}
	halves := map[half]uint32{}
	moves := map[uint32]bool{}
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.EndpointChanged || !(IsReady(e.From) && e.To == timeline.EndpointAbsent ||
			IsReady(e.To) && e.From == timeline.EndpointAbsent) {
			continue
		}
		if other, ok := halves[half{e.Seen, e.Addr, e.Service, e.PortName, e.To}]; ok {
			moves[e.ID], moves[other] = true, true
		}
		halves[half{e.Seen, e.Addr, e.Service, e.PortName, e.From}] = e.ID
	}
	return moves
}

func IsReady(state string) bool { return state == timeline.EndpointReady }
