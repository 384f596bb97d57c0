// Package evidence answers what the rules ask of a run: about targets and their requests, watches, changes, Pods'
// templates, Services with their endpoints, Pods' own addresses, Pods that failed or ended, and routes that outlived
// their Pods. It names no cause.
//
// Each part holds what it asks of the run once, and asks only the parts above it:
//
//	Traffic      targets and their requests
//	Watches      which watches were off, and when one had a gap
//	Changes      events
//	Templates    what Pods' specs say
//	Services     what stands behind a window: Pods, endpoints, who routes to them
//	Addresses    what Pods' own addresses answered
//	Suspects     Pods that failed though they were ready
//	Endings      how Pods ended, and failed meanwhile
//	Routes       requests that were routed to Pods which had stopped
package evidence

import (
	"cmp"
	"slices"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Evidence is all that rules ask of a run, by its parts.
type Evidence struct {
	*Input
	Traffic   *Traffic
	Watches   *Watches
	Changes   *Changes
	Templates Templates
	Services  *Services
	Addresses *Addresses
	Suspects  *Suspects
	Endings   *Endings
	Routes    *Routes
}

// New sorts the run's facts by what is asked of them: a run can have thousands of windows and events, and is judged
// several times per second while it goes on.
func New(s *Input) *Evidence {
	v := &Evidence{Input: s, Traffic: newTraffic(s), Templates: cluster.Templates(s.Run.Events)}
	v.Watches = &Watches{traffic: v.Traffic}
	v.Changes = newChanges(s, v.Traffic)
	v.Services = newServices(s, v.Traffic, v.Watches)
	v.readEvents()
	v.Addresses = &Addresses{
		Input: s, traffic: v.Traffic, changes: v.Changes, services: v.Services,
		probes: map[probed]Probe{}, healthy: map[*model.Window][]*model.Pod{},
	}
	v.Suspects = &Suspects{
		Input: s, traffic: v.Traffic, changes: v.Changes, services: v.Services, addresses: v.Addresses,
		suspected: map[*model.Window][]Suspect{}, outages: map[*Service][]Suspect{},
	}
	v.Endings = &Endings{
		Input: s, traffic: v.Traffic, changes: v.Changes, templates: v.Templates, services: v.Services,
		addresses: v.Addresses,
	}
	v.Routes = &Routes{
		Input: s, traffic: v.Traffic, watches: v.Watches, services: v.Services, addresses: v.Addresses,
		endings: v.Endings, races: map[*model.Window]Race{}, episodes: map[*model.Window]*Episode{},
		longest: map[*Service]LongestLag{},
	}
	return v
}

// readEvents sorts the run's events by the parts that ask for them.
func (v *Evidence) readEvents() {
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		v.Changes.add(e)
		switch e.Kind {
		case timeline.SnapshotTaken:
			if e.Snapshot != nil && e.Snapshot.Service != nil {
				v.Services.specs = append(v.Services.specs, e)
			}
		case timeline.ServiceChanged:
			if !e.Object.IsZero() {
				v.Services.Edits = append(v.Services.Edits, e)
			}
		case timeline.WatchLane:
			v.Watches.lanes = append(v.Watches.lanes, watched{e.Seen, v.Watches.lanesAt(e.Seen).With(e)})
		case timeline.WatchGap:
			v.Watches.gaps = append(v.Watches.gaps, e)
		case timeline.RequestError:
			if !e.Object.IsZero() {
				v.Traffic.Errors = append(v.Traffic.Errors, e)
			}
		}
	}
	slices.SortStableFunc(v.Changes.changes, func(a, b *model.Event) int { return cmp.Compare(a.Seen, b.Seen) })
}
