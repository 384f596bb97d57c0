package correlate

import (
	"cmp"
	"math"
	"slices"

	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says when the routes of each node followed the changes of endpoints, by which Pods answered.

// routes returns the routes of all targets that probers send new connections to. Of a Pod whose endpoint came or went
// more than once nothing is said: which of its answers belong to which change is not known. Nor is it of Pods of one
// name, as those of a StatefulSet that follow each other: they answer by that name.
func (t *Tracker) routes(tl *model.Timeline, snapshots []*snapshot) []model.Route {
	asking := slices.DeleteFunc(slices.Clone(snapshots), func(s *snapshot) bool {
		// no node routes to the addresses of a name
		return s.reading.Answers == nil || s.target.Service == "" || s.target.Turns
	})
	if len(asking) == 0 {
		return nil
	}
	var list []model.Route
	all, changes := endpointChanges(tl.Events), map[servicePort][]endpointChange{}
	named := podsNamed(tl.Events)
	for _, s := range asking {
		source := t.sources[s.target.Source]
		service := servicePort{s.target.Service, s.target.PortName}
		if _, known := changes[service]; !known {
			changes[service] = slices.DeleteFunc(all[service], func(c endpointChange) bool {
				return len(named[c.event.Object.Namespace+"/"+c.event.Object.Name]) > 1
			})
		}
		clock, k := t.aligned(s.target.Source), windows.InARow(mostReady(tl, s.target.Service))
		prefers := prefersPods(tl.Events, s.target.Service)
		for _, c := range changes[service] {
			inARow := k
			if prefers && c.change == model.Addition {
				inARow = math.MaxInt // however many others answered, the Pod may have been one of the routes
			}
			if route, ok := s.follow(c, t.backends[s.target.Source], clock, inARow); ok {
				stale(tl, s.target.Name, &route)
				route.Service, route.Node, route.Target = s.target.Service, cmp.Or(s.target.RouteNode, source.Node),
					s.target.Name
				list = append(list, route)
			}
		}
	}
	asked(tl.Events, list)
	slices.SortStableFunc(list, func(a, b model.Route) int {
		return cmp.Or(cmp.Compare(a.API.Latest, b.API.Latest), cmp.Compare(a.Event, b.Event),
			cmp.Compare(a.Node, b.Node), cmp.Compare(a.Target, b.Target))
	})
	return list
}

// prefersPods reports whether a Service was seen to prefer some of its Pods.
func prefersPods(events []model.Event, service string) bool {
	return slices.ContainsFunc(events, func(e model.Event) bool {
		return e.Kind == timeline.SnapshotTaken && e.Snapshot != nil && e.Snapshot.Service != nil &&
			e.Object.Namespace+"/"+e.Object.Name == service && e.Snapshot.Service.Prefers()
	})
}

// podsNamed returns the UIDs of the Pods behind endpoints, by NAMESPACE/NAME.
func podsNamed(events []model.Event) map[string]map[string]bool {
	named := map[string]map[string]bool{}
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.EndpointChanged || e.Object.Kind != "Pod" {
			continue
		}
		name := e.Object.Namespace + "/" + e.Object.Name
		if named[name] == nil {
			named[name] = map[string]bool{}
		}
		named[name][e.Object.UID] = true
	}
	return named
}

// An endpointChange is an endpoint that came or went.
type endpointChange struct {
	change model.RouteChange
	event  *model.Event
}

// A servicePort names a port of a Service.
type servicePort struct{ service, port string }

// endpointChanges returns the changes of the endpoints of each Service and port that were watched, of each Pod at most
// one of each kind.
func endpointChanges(events []model.Event) map[servicePort][]endpointChange {
	type key struct {
		servicePort
		uid    string
		change model.RouteChange
	}
	var order []key
	found := map[key][]*model.Event{}
	moves := cluster.Moves(events)
	for i := range events {
		e := &events[i]
		if e.Kind != timeline.EndpointChanged || e.Object.Kind != "Pod" || moves[e.ID] {
			continue
		}
		k := key{servicePort: servicePort{e.Service, e.PortName}, uid: e.Object.UID}
		switch was, is := e.From == timeline.EndpointReady, e.To == timeline.EndpointReady; {
		case is && !was:
			k.change = model.Addition
		case was && !is:
			k.change = model.Removal
		default:
			continue
		}
		if found[k] == nil {
			order = append(order, k)
		}
		found[k] = append(found[k], e)
	}
	changes := map[servicePort][]endpointChange{}
	for _, k := range order {
		// One that was there when watching began was added at some time before.
		if e := found[k][0]; len(found[k]) == 1 && e.At.Bounded() {
			changes[k.servicePort] = append(changes[k.servicePort], endpointChange{k.change, e})
		}
	}
	return changes
}

// mostReady returns how many endpoints a Service had at one time at most.
func mostReady(tl *model.Timeline, service string) (most int) {
	for _, s := range tl.Services {
		if s.Name == service {
			most = max(most, model.MostReady(s.Endpoints, model.Unbounded, model.Never))
		}
	}
	return most
}

// follow says when the routes of a target's node followed the change. It is not known where no request reached the Pod.
func (s *snapshot) follow(c endpointChange, backends []string, clock aligned, k int) (model.Route, bool) {
	pod := c.event.Object
	backend := len(backends) - 1 // a name that was not used for long has another number again
	for backend > 0 && backends[backend] != pod.Name {
		backend--
	}
	if backend < 1 || backend > math.MaxUint16 {
		return model.Route{}, false
	}
	route := model.Route{Change: c.change, Pod: pod.Name, PodUID: pod.UID, Event: c.event.ID, API: c.event.At}
	bounds := s.reading.Answers.Left
	if c.change == model.Addition {
		bounds = s.reading.Answers.Came
	}
	at, ok := bounds(uint16(backend), k)
	if !ok {
		return model.Route{}, false
	}
	end := clock.at(s.known()).Latest
	if route.Open = at.Latest == model.Never; route.Open {
		route.Changed = model.Instant{Earliest: clock.at(at.Earliest).Earliest, Latest: end}
	} else {
		route.Changed.Latest = clock.at(at.Latest).Latest
		if at.Earliest > model.Unbounded {
			route.Changed.Earliest = clock.at(at.Earliest).Earliest
		}
	}
	// A node follows what the API server says, and does not precede it.
	route.Changed.Earliest = max(route.Changed.Earliest, route.API.Earliest)
	if route.Changed.Latest < route.Changed.Earliest {
		// the Pod answered before its endpoint was ready: it is not what answers by that name
		return model.Route{}, false
	}
	route.Lag = lagOf(route)
	return route, true
}

// deletionsAsked returns when Lapse itself asked for the deletions of Pods, by UID.
func deletionsAsked(events []model.Event) map[string]model.Instant {
	at := map[string]model.Instant{}
	for i := range events {
		if e := &events[i]; e.Kind == timeline.DeletionAsked && !e.Object.IsZero() {
			at[e.Object.UID] = e.At
		}
	}
	return at
}

// asked fills in when Lapse itself asked for the deletions of Pods, and raises the lower bounds of the changes to that.
func asked(events []model.Event, routes []model.Route) {
	at := deletionsAsked(events)
	for i := range routes {
		r := &routes[i]
		if t, known := at[r.PodUID]; known && r.Change == model.Removal {
			r.Asked = &t
			r.API.Earliest = min(max(r.API.Earliest, t.Earliest), r.API.Latest)
			r.Changed.Earliest = min(max(r.Changed.Earliest, t.Earliest), r.Changed.Latest)
			r.Lag = lagOf(*r)
		}
	}
}

func lagOf(r model.Route) model.Length {
	return model.Length{Min: max(0, r.Changed.Earliest-r.API.Latest), Max: r.Changed.Latest - r.API.Earliest}
}

// stale narrows when a route went, by the failures of its target after the Pod had stopped.
func stale(tl *model.Timeline, target string, r *model.Route) {
	if r.Change != model.Removal {
		return
	}
	i := slices.IndexFunc(tl.Pods, func(p model.Pod) bool { return p.UID == r.PodUID })
	if i < 0 || tl.Pods[i].Stopped == nil {
		return
	}
	stopped := *tl.Pods[i].Stopped
	for _, w := range tl.Windows {
		if w.Target != target || len(w.Causes) == 0 || w.Causes[0].Confidence != model.High {
			continue
		}
		for _, m := range w.Causes[0].Measures {
			if m.Name != model.RouteLag || m.Object != r.Pod || m.Length.Min == 0 {
				continue
			}
			at := model.Instant{Earliest: max(r.Changed.Earliest, stopped.Latest+m.Length.Min),
				Latest: min(r.Changed.Latest, stopped.Earliest+m.Length.Max)}
			if at.Earliest <= at.Latest {
				r.Changed, r.Open = at, false
				r.Lag = lagOf(*r)
			}
		}
	}
}
