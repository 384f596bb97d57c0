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
	"time"

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
	v := &Evidence{Input: s, Traffic: newTraffic(s), Templates: Templates{}}
	v.Watches = &Watches{traffic: v.Traffic}
	v.Changes = newChanges(s, v.Traffic)
	v.Services = newServices(s, v.Traffic, v.Watches)
	v.readEvents()
	v.Addresses = &Addresses{
		Input: s, traffic: v.Traffic, changes: v.Changes, services: v.Services,
		healthy: map[*model.Window][]*model.Pod{},
	}
	v.Suspects = &Suspects{
		Input: s, traffic: v.Traffic, changes: v.Changes, services: v.Services, addresses: v.Addresses,
		suspected: map[*model.Window][]Suspect{},
	}
	v.Endings = &Endings{
		Input: s, traffic: v.Traffic, changes: v.Changes, templates: v.Templates, services: v.Services,
		addresses: v.Addresses,
	}
	v.Routes = &Routes{
		Input: s, traffic: v.Traffic, watches: v.Watches, services: v.Services, addresses: v.Addresses,
		endings: v.Endings, races: map[*model.Window]Race{}, episodes: map[*model.Window]*Episode{},
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
			if e.Snapshot != nil && e.Snapshot.Template != nil {
				v.Templates[e.Snapshot.Template.ID] = e.Snapshot.Template
			}
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

// Traffic is the run's targets and the requests to them.
type Traffic struct {
	*Input
	Targets   map[string]*model.Target   // by name
	Errors    []*model.Event             // texts of failures
	direct    map[string][]*model.Target // the direct ones, by the UID of their Pod
	failures  map[string][]model.Failure // by target, by Sent
	frontends map[timeline.TargetID]frontend
}

func newTraffic(s *Input) *Traffic {
	v := &Traffic{
		Input:     s,
		Targets:   make(map[string]*model.Target, len(s.Run.Targets)),
		direct:    map[string][]*model.Target{},
		failures:  map[string][]model.Failure{},
		frontends: map[timeline.TargetID]frontend{},
	}
	for i := range s.Run.Targets {
		t := &s.Run.Targets[i]
		v.Targets[t.Name] = t
		if t.Kind == timeline.Direct {
			v.direct[t.PodUID] = append(v.direct[t.PodUID], t)
		}
	}
	for _, f := range s.Run.Failures {
		v.failures[f.Target] = append(v.failures[f.Target], f)
	}
	return v
}

// Watches is what was watched, and when a watch brought nothing.
type Watches struct {
	lanes   []watched
	gaps    []*model.Event
	traffic *Traffic
}

// Changes is the run's events.
type Changes struct {
	*Input
	States cluster.Workloads         // how workloads were set
	About  map[string][]*model.Event // by the UID of their object, in the order in which they were seen
	Stalls []*model.Event            // of probers
	Checks []*model.Event            // of nodes' health checks
	Ends   map[string][]*model.Event // of containers, by the UID of their Pod, where they are stamped

	events  map[uint32]*model.Event // by ID
	changes []*model.Event          // what can have had an effect on traffic, by Seen
	widest  time.Duration           // of their brackets
	traffic *Traffic
}

func newChanges(s *Input, traffic *Traffic) *Changes {
	return &Changes{
		Input:   s,
		States:  cluster.ReadWorkloads(s.Run.Events),
		About:   map[string][]*model.Event{},
		events:  map[uint32]*model.Event{},
		Ends:    map[string][]*model.Event{},
		traffic: traffic,
	}
}

func (v *Changes) add(e *model.Event) {
	v.events[e.ID] = e
	if e.Object.UID != "" {
		v.About[e.Object.UID] = append(v.About[e.Object.UID], e)
	}
	switch {
	case e.Kind == timeline.PodContainer && e.To == "terminated" && !e.Stamp.IsZero() && !e.Object.IsZero():
		v.Ends[e.Object.UID] = append(v.Ends[e.Object.UID], e)
	case e.Kind == timeline.ProberStall:
		v.Stalls = append(v.Stalls, e)
	case e.Kind == timeline.NodeChecked && !e.Object.IsZero():
		v.Checks = append(v.Checks, e)
	}
	if isChange(e) && e.At.Bounded() {
		v.changes = append(v.changes, e)
		v.widest = max(v.widest, e.At.Latest-e.At.Earliest)
	}
}

// Templates is the Pod templates by their IDs.
type Templates map[string]*timeline.PodTemplate

// Services is what stands behind the targets: Pods, their endpoints, and how Services were set.
type Services struct {
	*Input
	Edits    []*model.Event  // changes of Services, by Seen
	Moves    map[uint32]bool // of endpoints that only moved to another port, by the ID of their changes
	specs    []*model.Event  // snapshots of Services
	services map[frontend]*Service
	served   map[string]*Service // by the target that sends to it
	traffic  *Traffic
	watches  *Watches
}

func newServices(s *Input, traffic *Traffic, watches *Watches) *Services {
	return &Services{
		Input:    s,
		Moves:    cluster.Moves(s.Run.Events),
		services: map[frontend]*Service{},
		served:   map[string]*Service{},
		traffic:  traffic,
		watches:  watches,
	}
}

// Addresses is what Pods' own addresses answered.
type Addresses struct {
	*Input
	traffic  *Traffic
	changes  *Changes
	services *Services
	healthy  map[*model.Window][]*model.Pod
}

// Suspects is the Pods that failed at their own addresses though they were ready.
type Suspects struct {
	*Input
	traffic   *Traffic
	changes   *Changes
	services  *Services
	addresses *Addresses
	suspected map[*model.Window][]Suspect
}

// Endings is how Pods ended, and how they failed meanwhile.
type Endings struct {
	*Input
	traffic   *Traffic
	changes   *Changes
	templates Templates
	services  *Services
	addresses *Addresses
}

// Routes is the requests that were routed to Pods which had stopped.
type Routes struct {
	*Input
	traffic   *Traffic
	watches   *Watches
	services  *Services
	addresses *Addresses
	endings   *Endings
	races     map[*model.Window]Race
	episodes  map[*model.Window]*Episode
}
