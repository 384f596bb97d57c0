package coordinator

import (
	"context"
	"errors"

	"lapse/internal/run/measure"
	"lapse/loadgen/hey"
)

// startTargets starts the probes of every target, unless probers measure them, and plans the direct targets.
func (m *measurement) startTargets() error {
	for _, s := range m.Resolved() {
		if m.fleet != nil && !m.fleet.also {
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
	probe := m.opts.ProbeOf(m.Resolved()[0])
	err := hey.Hammer(ctx, hey.HammerConfig{Args: m.opts.Hammer, Probe: probe, Clock: m.Clock, Sink: m.Queue.Put})
	if err != nil && !errors.Is(err, context.Canceled) {
		m.log.Warn("the background load failed", "error", err)
	}
}
