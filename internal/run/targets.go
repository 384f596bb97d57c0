package run

import (
	"context"
	"errors"
	"slices"

	"lapse/internal/run/measure"
	"lapse/internal/run/spec"
	"lapse/loadgen/hey"
	"lapse/timeline"
)

// resolved are the targets of the run, in order, each with the description of its Service.
func (r *found) resolved() []spec.Service {
	byTarget := map[spec.Target]spec.Service{}
	for _, s := range slices.Backward(r.services) { // the first of two counts
		byTarget[s.Target] = s
	}
	all := make([]spec.Service, len(r.opts.Parsed))
	for i, target := range r.opts.Parsed {
		all[i] = spec.Service{Target: target, Info: byTarget[target].Info, Measured: true}
	}
	return all
}

// distinct are the Services of the run, each once, with their measured ports.
func (r *found) distinct() []timeline.Service {
	var all []timeline.Service
	for _, s := range r.services {
		i := slices.IndexFunc(all, func(have timeline.Service) bool { return spec.ServiceKey(have) == spec.ServiceKey(s.Info.Service) })
		if i < 0 {
			i, all = len(all), append(all, s.Info.Service)
			all[i].Measured, all[i].NotCovered = nil, nil
		}
		for _, sentence := range s.Info.Service.NotCovered {
			if s.Measured && !slices.Contains(all[i].NotCovered, sentence) {
				all[i].NotCovered = append(all[i].NotCovered, sentence)
			}
		}
		if port := s.PortText(); s.Measured && !slices.Contains(all[i].Measured, port) {
			all[i].Measured = append(all[i].Measured, port)
		}
	}
	return all
}

// portsOf are the names of a Service's ports in the run: all, or the measured ones.
func (r *found) portsOf(of timeline.Service, measured bool) []string {
	var ports []string
	for _, s := range r.services {
		if spec.ServiceKey(s.Info.Service) == spec.ServiceKey(of) && (s.Measured || !measured) && !slices.Contains(ports, s.Info.PortName) {
			ports = append(ports, s.Info.PortName)
		}
	}
	return ports
}

// startTargets starts the probes of every target, unless probers measure them, and plans the direct targets.
func (m *measurement) startTargets() error {
	for _, s := range m.resolved() {
		if m.fleet != nil {
			break
		}
		for _, p := range m.opts.ProbesOf(s) {
			if err := m.StartTarget(p); err != nil {
				return err
			}
		}
	}
	m.planDirects()
	m.Parts = append(m.Parts, measure.Part{Event: m.followEndpoints, Refresh: m.followPlans})
	return nil
}

// hammer runs the background load until ctx ends.
func (m *measurement) hammer(ctx context.Context) {
	err := hey.Hammer(ctx, hey.HammerConfig{Args: m.opts.Hammer, Probe: m.opts.ProbeOf(m.resolved()[0]), Clock: m.Clock, Sink: m.Queue.Put})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the background load failed", "error", err)
	}
}
