package causes

import (
	"cmp"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// An index is the input with what several rules ask of it, found once: a run can have thousands of
// windows and events, and is judged several times per second while it goes on.
type index struct {
	*Input
	targets   map[string]*model.Target   // by name
	direct    map[string][]*model.Target // the direct ones, by the UID of their Pod
	failures  map[string][]model.Failure // by target, by Sent
	changes   []*model.Event             // what can have had an effect on traffic, by Seen; without what the first list found
	widest    time.Duration
	stalls    []*model.Event
	specs     []*model.Event // snapshots of Services
	edits     []*model.Event // changes of Services, by Seen
	lanes     []watched
	gaps      []*model.Event
	errors    []*model.Event
	checks    []*model.Event                 // of nodes' health checks
	frontends map[timeline.TargetID]frontend // of targets, as far as they were asked for
	services  map[frontend]*service
	served    map[string]*service // by the target that sends to it
	healthy   map[*model.Window][]*model.Pod
	races     map[*model.Window]race
	episodes  map[*model.Window]*episode
	suspected map[*model.Window][]suspect
	states    cluster.Workloads
	moves     map[uint32]bool                  // of endpoints that only moved to another port, by the ID of their changes
	ends      map[string][]*model.Event        // of containers, by the UID of their Pod, where they are stamped
	templates map[string]*timeline.PodTemplate // by ID
	events    map[uint32]*model.Event          // by ID
	about     map[string][]*model.Event        // by the UID of their object, in the order in which they were seen
}

// event is the one with an ID, nil if there is none.
func (v *index) event(id uint32) *model.Event { return v.events[id] }

// A frontend is what a judged target sends to: one port of a Service at one of its addresses. A bare URL has no
// Service.
type frontend struct {
	service, port string
	family        family
}

// A family is that of IP addresses; 0 if it is not known.
type family int

func familyOf(addr netip.Addr) family {
	switch {
	case addr.Unmap().Is4():
		return 4
	case addr.IsValid():
		return 6
	}
	return 0
}

// frontendOf is what t sends to. The family is known of an endpoint, and where the URL names an address, as that of a
// Service does.
func frontendOf(t *model.Target) frontend {
	f := frontend{service: t.Service, port: t.PortName}
	if t.Kind == timeline.Direct {
		addr, _ := netip.ParseAddrPort(t.Addr)
		f.family = familyOf(addr.Addr())
	} else if u, err := url.Parse(t.URL); err == nil {
		addr, _ := netip.ParseAddr(u.Hostname())
		f.family = familyOf(addr)
	}
	return f
}

// frontend is what t sends to.
func (v *index) frontend(t *model.Target) frontend {
	f, known := v.frontends[t.ID]
	if !known {
		f = frontendOf(t)
		v.frontends[t.ID] = f
	}
	return f
}

// probed is what is known of t beside what is published; nothing where there is no such target.
func (v *index) probed(t *model.Target) *Probed {
	if t == nil || v.Probed[t.ID] == nil {
		return &Probed{}
	}
	return v.Probed[t.ID]
}

// reaches reports whether requests to f may get to an endpoint of this Service and port, at an address of this
// family. What is not known rules nothing out.
func (f frontend) reaches(o frontend) bool {
	return (f.service == "" || o.service == "" || f.service == o.service) && (f.port == "" || o.port == "" || f.port == o.port) &&
		(f.family == 0 || o.family == 0 || f.family == o.family)
}

// A service is what the rules ask about what stands behind a window, or about all there is if the
// window's target is a bare URL.
type service struct {
	frontend
	pods      []*model.Pod
	probes    map[string]probe       // of their own addresses, by UID
	endpoints []*model.Event         // their changes, by Seen
	order     map[string]int         // by UID of its Pod: the place in the order in which endpoints left the ready ones; those that one update took away share it
	leaves    []*model.Event         // by that place
	before    []int                  // by that place: how many endpoints were ready before
	steps     []model.EndpointStep   // how many endpoints were ready
	empty     []emptySpan            // when there was no endpoint to route to
	local     map[string][]emptySpan // and none on a node; by the node
	longest   *longestLag            // nil until asked for
	outages   []suspect              // of its Pods at their own addresses; nil until asked for
}

func newIndex(s *Input) *index {
	v := &index{
		Input: s, frontends: map[timeline.TargetID]frontend{}, served: map[string]*service{}, healthy: map[*model.Window][]*model.Pod{}, services: map[frontend]*service{}, races: map[*model.Window]race{}, episodes: map[*model.Window]*episode{}, ends: map[string][]*model.Event{}, suspected: map[*model.Window][]suspect{},
		targets: make(map[string]*model.Target, len(s.Run.Targets)), direct: map[string][]*model.Target{}, failures: map[string][]model.Failure{},
	}
	for i := range s.Run.Targets {
		t := &s.Run.Targets[i]
		v.targets[t.Name] = t
		if t.Kind == timeline.Direct {
			v.direct[t.PodUID] = append(v.direct[t.PodUID], t)
		}
	}
	for _, f := range s.Run.Failures {
		v.failures[f.Target] = append(v.failures[f.Target], f)
	}
	v.states, v.moves = cluster.ReadWorkloads(s.Run.Events), cluster.Moves(s.Run.Events)
	v.readEvents()
	return v
}

// readEvents sorts the run's events by what rules look for.
func (v *index) readEvents() {
	v.templates, v.events, v.about = map[string]*timeline.PodTemplate{}, map[uint32]*model.Event{}, map[string][]*model.Event{}
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		v.events[e.ID] = e
		if e.Object != nil && e.Object.UID != "" {
			v.about[e.Object.UID] = append(v.about[e.Object.UID], e)
		}
		switch e.Kind {
		case timeline.SnapshotTaken:
			if e.Snapshot != nil && e.Snapshot.Template != nil {
				v.templates[e.Snapshot.Template.ID] = e.Snapshot.Template
			}
			if e.Snapshot != nil && e.Snapshot.Service != nil {
				v.specs = append(v.specs, e)
			}
		case timeline.PodContainer:
			if e.To == "terminated" && e.Stamp != nil && e.Object != nil {
				v.ends[e.Object.UID] = append(v.ends[e.Object.UID], e)
			}
		case timeline.ServiceChanged:
			if e.Object != nil {
				v.edits = append(v.edits, e)
			}
		case timeline.ProberStall:
			v.stalls = append(v.stalls, e)
		case timeline.WatchLane:
			v.lanes = append(v.lanes, watched{e.Seen, v.lanesAt(e.Seen).With(e)})
		case timeline.WatchGap:
			v.gaps = append(v.gaps, e)
		case timeline.NodeChecked:
			if e.Object != nil {
				v.checks = append(v.checks, e)
			}
		case timeline.RequestError:
			if e.Object != nil {
				v.errors = append(v.errors, e)
			}
		}
		if isChange(e) && e.At.Bounded() {
			v.changes = append(v.changes, e)
			v.widest = max(v.widest, e.At.Latest-e.At.Earliest)
		}
	}
	slices.SortStableFunc(v.changes, func(a, b *model.Event) int { return cmp.Compare(a.Seen, b.Seen) })
}

// service is what stands behind the window's target.
func (v *index) service(w *model.Window) *service {
	if known := v.served[w.Target]; known != nil {
		return known
	}
	t := v.target(w)
	f := v.frontend(t)
	if known := v.services[f]; known != nil {
		v.served[t.Name] = known
		return known
	}
	svc := &service{frontend: f, probes: map[string]probe{}, local: map[string][]emptySpan{}}
	v.services[f], v.served[t.Name] = svc, svc
	strangers := map[string]bool{}
	for i := range v.Run.Pods {
		p := &v.Run.Pods[i]
		if v.behind(p, t) {
			svc.pods = append(svc.pods, p)
		} else {
			strangers[p.UID] = true
		}
	}
	for i := range v.Run.Events {
		e := &v.Run.Events[i]
		if e.Kind == timeline.EndpointChanged && e.Object != nil && !strangers[e.Object.UID] && f.reaches(frontendOfEndpoint(e)) {
			svc.endpoints = append(svc.endpoints, e)
		}
	}
	svc.readEndpoints(v.end(), v.moves)
	return svc
}

func frontendOfEndpoint(e *model.Event) frontend {
	addr, _ := netip.ParseAddr(e.Addr)
	return frontend{service: e.Service, port: e.PortName, family: familyOf(addr)}
}

// pods are the Pods that may stand behind the window's Service.
func (v *index) pods(w *model.Window) []*model.Pod { return v.service(w).pods }

// target is the judged target of a window.
func (v *index) target(w *model.Window) *model.Target { return v.targetNamed(w.Target) }

func (v *index) targetNamed(name string) *model.Target {
	if t := v.targets[name]; t != nil {
		return t
	}
	return &model.Target{Name: name}
}

// from says where a window was seen from: the prober's node, or the machine Lapse ran on.
func (v *index) from(w *model.Window) string {
	if node := v.target(w).Node; node != "" {
		return node
	}
	return "the prober's machine"
}

// onset is when the window's trouble can have begun: its start bracket, and where that is open, the
// unobserved time before it too.
func (v *index) onset(w *model.Window) model.Instant {
	onset := w.Start
	if w.Kind == model.CutKind { // each cut has a bracket as long as a heartbeat, but what is closed or reset is noticed at once
		onset = model.Instant{Earliest: w.Start.Latest, Latest: w.Start.Latest}
		if w.Cut != nil {
			onset = *w.Cut
		}
		return onset
	}
	if !w.Open.Start {
		return onset
	}
	onset.Earliest = model.Unbounded // no success was ever seen before
	for _, gap := range v.Run.Unobserved {
		if gap.Target == w.Target && gap.Start <= w.Start.Earliest && w.Start.Earliest <= gap.End {
			onset.Earliest = max(onset.Earliest, gap.Start)
		}
	}
	return onset
}

// behind reports whether the Pod may serve the target: its direct target says for which Services it
// does. Where none does, or the target is a bare URL, no Pod can be ruled out but by its namespace.
func (v *index) behind(p *model.Pod, t *model.Target) bool {
	if t.Service == "" {
		return true
	}
	known := false
	for _, direct := range v.direct[p.UID] {
		if direct.Service != "" {
			if direct.Service == t.Service {
				return true
			}
			known = true
		}
	}
	namespace, _, _ := strings.Cut(t.Service, "/")
	return !known && p.Namespace == namespace
}

// directOf are the targets that probe the Pod's own address at the window's port, and in its address family.
func (v *index) directOf(w *model.Window, p *model.Pod) []*model.Target {
	var found []*model.Target
	f := v.frontend(v.target(w))
	for _, t := range v.direct[p.UID] {
		if f.reaches(v.frontend(t)) {
			found = append(found, t)
		}
	}
	return found
}

// A probe is what a Pod's own address answered, at the port of a window.
type probe struct {
	target          string         // its name; "" if the address was not probed
	stopped         *model.Instant // when it stopped answering for good; nil if that was not seen
	firstOK, lastOK *time.Duration
}

// probe is what the Pod's own address answered. Of several targets, as where the Pod came back after it had been
// gone, the one that was answered last tells.
func (v *index) probe(w *model.Window, p *model.Pod) probe {
	svc := v.service(w)
	best, known := svc.probes[p.UID]
	if known {
		return best
	}
	for _, t := range v.directOf(w, p) {
		now := probe{target: t.Name}
		if edge := v.probed(t).FirstLast; edge.FirstOK != nil {
			now.firstOK, now.lastOK, now.stopped = new(edge.FirstOK.Done), new(edge.LastOK.Sent), edge.Stopped
		}
		if best.target == "" || now.lastOK != nil && (best.lastOK == nil || *best.lastOK < *now.lastOK) {
			best = now
		}
	}
	svc.probes[p.UID] = best
	return best
}

// directName is the target that probes the Pod's own address at the window's port, "" if there is none.
func (v *index) directName(w *model.Window, p *model.Pod) string { return v.probe(w, p).target }

// outageNear returns a target's outage that overlaps the bracket, nil if there is none.
func (v *index) outageNear(target string, at model.Instant) *model.Window {
	return v.troubleNear(target, at, false)
}

// troubleNear is like outageNear; slow answers count too if wanted.
func (v *index) troubleNear(target string, at model.Instant, slow bool) *model.Window {
	for i, w := range v.probed(v.targets[target]).Outages {
		if (slow || w.Kind != model.Slow) && w.Span().Overlaps(at) {
			return &v.probed(v.targets[target]).Outages[i]
		}
	}
	return nil
}

// only reports whether all the failures are of these classes.
func only(failures map[string]int, classes ...timeline.Class) bool {
	for class, n := range failures {
		if n > 0 && !slices.ContainsFunc(classes, func(c timeline.Class) bool { return c.String() == class }) {
			return false
		}
	}
	return true
}

// some counts the failures of these classes.
func some(failures map[string]int, classes ...timeline.Class) int {
	n := 0
	for _, class := range classes {
		n += failures[class.String()]
	}
	return n
}

// length is how long the time between two brackets is.
func length(from, to model.Instant) model.Length {
	return model.Length{Min: max(0, to.Earliest-from.Latest), Max: max(0, to.Latest-from.Earliest)}
}

// common is the time two stretches share, at most.
func common(a, b model.Instant) time.Duration {
	return max(0, min(a.Latest, b.Latest)-max(a.Earliest, b.Earliest))
}

// healthyOthers are the Pods that were ready before and not ending, and that were probed directly.
func (v *index) healthyOthers(w *model.Window) []*model.Pod {
	others, known := v.healthy[w]
	if known {
		return others
	}
	for _, p := range v.pods(w) {
		if p.TerminatingBy(w.End.Latest) || !p.ReadyBy(w.Start.Latest) {
			continue
		}
		if first := v.probe(w, p).firstOK; first != nil && *first < w.Start.Latest {
			others = append(others, p)
		}
	}
	v.healthy[w] = others
	return others
}

// failuresOf are the failures of a window, by Sent. Those beyond the cap of the list are stood in for by the first
// and the last.
func (v *index) failuresOf(w *model.Window) []model.Failure {
	list := v.failures[w.Target]
	after := func(at time.Duration) int {
		i, _ := slices.BinarySearchFunc(list, at+1, func(f model.Failure, t time.Duration) int { return cmp.Compare(f.Earliest(), t) })
		return i
	}
	end := w.End.Earliest // the last was sent then, or later if it waited for a connection
	if some(w.Classes, timeline.NoSlot) > 0 {
		end = w.End.Latest
	}
	to := after(end)
	list = list[max(min(after(w.Start.Earliest-1), to), to-w.Failed):to]
	if len(list) < w.Failed && only(w.Classes, timeline.Refused, timeline.TimeoutConnect, timeline.Unreachable) {
		first, last := w.Start.Latest, max(w.Start.Latest, w.End.Earliest)
		list = slices.Clip(list)
		if len(list) == 0 {
			list = append(list, model.Failure{Target: w.Target, Sent: first, Done: first, Class: timeline.Refused})
		}
		list = append(list, model.Failure{Target: w.Target, Sent: last, Done: last, Class: timeline.Refused})
	}
	return list
}

// end is how far the run has come.
func (v *index) end() time.Duration {
	end := v.Run.Run.Duration
	for _, e := range v.Run.Events {
		end = max(end, e.Seen)
	}
	for _, w := range v.Run.Windows {
		end = max(end, w.End.Latest)
	}
	return end
}
