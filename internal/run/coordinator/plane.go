package coordinator

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"lapse/internal/run/plane"
	"lapse/internal/run/source"
	"lapse/loadgen"
	"lapse/timeline"
)

// lookForSigns is how often a run that waits again and again looks whether the full rate is on.
const lookForSigns = 200 * time.Millisecond

// askAPIServers asks the API servers until ctx ends: all the time, or while the full rate is on, if the API server is
// only watched in between. Without them the rest is measured.
func (m *measurement) askAPIServers(ctx context.Context) {
	tick := time.NewTicker(lookForSigns)
	defer tick.Stop()
	asked := false
	for {
		if wanted := m.raised == nil || m.raised(); wanted != asked {
			asked = wanted
			change := m.endPlane
			if wanted {
				probes, notAsked := m.planeProbes(ctx)
				change = func() { m.beginPlane(probes, notAsked) }
			}
			select {
			case m.Calls <- change:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// planeProbes returns how to ask the API servers, and why none is asked, or not each.
func (m *measurement) planeProbes(ctx context.Context) (probes []loadgen.Probe, notAsked string) {
	var servers plane.Servers
	switch {
	case m.opts.APIServers != nil:
		servers = *m.opts.APIServers
	case plane.Within(m.REST):
		servers = plane.Find(ctx, m.Client)
	}
	probes, err := plane.Probes(m.REST, servers.Addrs, m.Services[0].Info.Service.Namespace)
	if err != nil {
		return nil, err.Error()
	}
	return probes, servers.NotAsked
}

// beginPlane starts the targets of the API servers, or starts them again.
func (m *measurement) beginPlane(probes []loadgen.Probe, notAsked string) {
	if notAsked != "" {
		m.Add(timeline.Event{Seen: m.Clock.Now(), Kind: timeline.PlaneNotAsked, Detail: notAsked})
	}
	for _, p := range probes {
		start, id := m.StartTarget, m.planes[p.Name]
		if id > 0 {
			start, p.Target = m.startAgain, m.Targets[id]
		}
		if err := start(p); err != nil {
			m.log.Warn("an API server is not asked", "target", p.Name, "error", err)
			continue
		}
		m.planes[p.Name] = cmp.Or(id, m.NextTarget)
	}
}

// endPlane ends the targets of the API servers.
func (m *measurement) endPlane() {
	for _, name := range slices.Sorted(maps.Keys(m.planes)) {
		m.Prober.Stop(m.planes[name])
		m.Add(source.TargetIs(name, "measuring", "ended", m.Clock.Now()))
	}
}
