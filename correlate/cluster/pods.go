package cluster

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// Lifecycles returns the lifecycle of every Pod: what was watched of it, and when its own address answered. Pods come
// in the order in which they were first seen. firstLast returns the first and last requests of a direct target.
func Lifecycles(run *model.Timeline, firstLast func(timeline.TargetID) windows.FirstLast) []model.Pod {
	builders := map[string]*podBuilder{}
	moves, templates := Moves(run.Events), Templates(run.Events)
	order := []*podBuilder{}
	for i := range run.Events {
		e := &run.Events[i]
		if e.Object.Kind != "Pod" && !aboutPod(e.Kind) || e.Object.UID == "" {
			continue
		}
		b := builders[e.Object.UID]
		if b == nil {
			if e.Kind == timeline.KubeEvent || e.Kind == timeline.EvictionRequested {
				continue // they can outlive their Pod
			}
			b = &podBuilder{pod: model.Pod{Namespace: e.Object.Namespace, Name: e.Object.Name, UID: e.Object.UID,
				States: []model.PodState{}}, endpoints: newPodEndpoints(moves), templates: templates}
			builders[e.Object.UID] = b
			order = append(order, b)
		}
		b.events = append(b.events, e)
	}
	direct := map[string][]*model.Target{} // by UID of their Pod
	for i := range run.Targets {
		if t := &run.Targets[i]; t.Kind == timeline.Direct {
			direct[t.PodUID] = append(direct[t.PodUID], t)
		}
	}
	pods := make([]model.Pod, len(order))
	for i, b := range order {
		b.replay(direct[b.pod.UID], firstLast)
		pods[i] = b.pod
	}
	setEndings(pods, order, run.Events)
	return pods
}

// Templates returns the Pod templates by their IDs.
func Templates(events []model.Event) map[string]*timeline.PodTemplate {
	all := map[string]*timeline.PodTemplate{}
	for i := range events {
		if s := events[i].Snapshot; s != nil && s.Template != nil {
			all[s.Template.ID] = s.Template
		}
	}
	return all
}

// aboutPod reports whether events of this kind are about the Pod they name.
func aboutPod(kind timeline.EventKind) bool { return strings.HasPrefix(string(kind), "pod-") }

// A podBuilder makes one Pod's lifecycle, event by event.
type podBuilder struct {
	pod       model.Pod
	events    []*model.Event
	endpoints podEndpoints
	templates map[string]*timeline.PodTemplate // by ID

	containers map[string]string        // by name: waiting, running, terminated
	ends       map[string]model.Instant // by name: its last end
	scheduled  bool
	ready      bool
	stopped    bool
	ending     bool // deletion was requested, or its endpoint is terminating
	readyKnown bool // its Ready condition is known
	gone       bool // from what is watched: it may live on where no Service selects it any more

	deleted, disrupted *model.Event // deletion was requested, and announced
	failed             *model.Event // its phase turned Failed, with the reason of its kubelet
	crash              *model.Event // the last unrequested end of a container
	crashes            int          // how often
}

// replay applies all events in the order they were seen, and between them the instant at which the Pod's own address
// stopped answering.
func (b *podBuilder) replay(direct []*model.Target, firstLast func(timeline.TargetID) windows.FirstLast) {
	b.containers, b.ends = map[string]string{}, map[string]model.Instant{}
	b.answers(direct, firstLast)
	for _, e := range b.events {
		b.applyStopBefore(e.Seen)
		b.apply(e)
		b.appendState(e.Seen)
	}
	b.applyStopBefore(model.Never)
	b.narrow()
}

// narrow raises lower bounds to what must have come before: nothing happens to a Pod
// before its creation, and what answered had not exited.
func (b *podBuilder) narrow() {
	p := &b.pod
	if p.Created != nil {
		for _, at := range []*model.Instant{p.Scheduled, p.Started, p.Ready, p.NotReady, p.Deleted, p.Killing,
			p.Exited} {
			NotBefore(at, p.Created.Earliest)
		}
	}
	narrowEndpoints(p)
	if p.LastOK != nil {
		NotBefore(p.Exited, *p.LastOK)
	}
}

// NotBefore raises the lower bound of an instant, if there is one, but not above its upper bound.
func NotBefore(at *model.Instant, bound time.Duration) {
	if at != nil {
		at.Earliest = max(at.Earliest, min(bound, at.Latest))
	}
}

// answers takes over what the Pod's direct targets measured.
func (b *podBuilder) answers(direct []*model.Target, firstLast func(timeline.TargetID) windows.FirstLast) {
	for _, t := range direct {
		b.pod.IP = cmp.Or(b.pod.IP, ip(t.Addr.Addr()))
		b.pod.Node = cmp.Or(b.pod.Node, t.PodNode)
		edge := firstLast(t.ID)
		if edge.FirstOK != nil {
			b.answered(edge.FirstOK.Done, edge.LastOK.Sent, edge.Stopped)
		}
		if edge.LastFailure != nil {
			b.pod.LastFailure = latest(b.pod.LastFailure, edge.LastFailure.Sent)
		}
	}
}

// answered takes over one direct target, at which the Pod answered. It may have several, one for each port and
// address family: it has stopped when none answers.
func (b *podBuilder) answered(firstOK, lastOK time.Duration, stop *model.Instant) {
	p := &b.pod
	switch {
	case p.FirstOK == nil:
		p.FirstOK, p.LastOK, p.Stopped = &firstOK, &lastOK, stop
		return
	case stop == nil:
		p.Stopped = nil
	case p.Stopped != nil:
		p.Stopped = &model.Instant{Earliest: max(p.Stopped.Earliest, stop.Earliest),
			Latest: max(p.Stopped.Latest, stop.Latest)}
	}
	p.FirstOK, p.LastOK = new(min(*p.FirstOK, firstOK)), latest(p.LastOK, lastOK)
}

func latest(known *time.Duration, at time.Duration) *time.Duration {
	if known != nil {
		at = max(at, *known)
	}
	return &at
}

// applyStopBefore enters the Pod's silence into its lane if it comes before instant t.
func (b *podBuilder) applyStopBefore(t time.Duration) {
	if stop := b.pod.Stopped; stop != nil && !b.stopped && stop.Latest < t {
		b.stopped = true
		b.appendState(stop.Latest)
	}
}

// apply takes in one event.
func (b *podBuilder) apply(e *model.Event) {
	b.pod.Node = cmp.Or(b.pod.Node, e.Object.Node)
	b.pod.IP = cmp.Or(b.pod.IP, ip(e.Addr))
	at := e.At
	switch e.Kind {
	case timeline.PodSeen:
		b.gone, b.pod.Gone = false, nil // it may come back, as when a selector is restored
		b.pod.Owner, b.pod.Template = e.Owner, e.Template
		first(&b.pod.Created, at)
	case timeline.PodScheduled:
		b.scheduled = true
		b.pod.Node = cmp.Or(b.pod.Node, e.To)
		first(&b.pod.Scheduled, at)
	case timeline.PodContainer:
		b.container(e)
	case timeline.PodReady:
		b.readiness(e)
	case timeline.PodDisrupted:
		if b.deleted == nil || e.Seen <= b.deleted.Seen { // else it did not end the Pod, as of one that hangs
			b.disrupted = e
		}
	case timeline.PodPhase:
		if e.To == "Failed" && e.Detail != "" && e.At.Bounded() {
			b.failed = e
		}
	case timeline.PodDeleted:
		b.ending = true
		b.deleted = e
		first(&b.pod.Deleted, at)
	case timeline.PodGone:
		clear(b.endpoints.states)
		b.endpoints.best, b.ready = timeline.EndpointAbsent, false
		if b.gone = true; e.Detail != timeline.NoLongerSelected {
			b.pod.Gone = &at
		}
	case timeline.EndpointChanged:
		b.endpoints.apply(e, &b.pod)
		b.ending = b.ending || strings.HasPrefix(b.endpoints.best, timeline.EndpointTerminating)
	case timeline.KubeEvent:
		if e.To == "Killing" {
			first(&b.pod.Killing, at)
		}
	}
}

// first keeps the first instant. One that nothing bounds from below was not seen to
// happen: it stays absent.
func first(known **model.Instant, at model.Instant) {
	if *known == nil && at.Bounded() {
		*known = &at
	}
}

func (b *podBuilder) container(e *model.Event) {
	name, reason, _ := strings.Cut(e.Detail, " ")
	if e.To == "terminated" && e.ExitCode != nil && *e.ExitCode == 0 && b.isInit(name) {
		delete(b.containers, name) // it is done, and the next one begins
		return
	}
	b.containers[name] = e.To
	switch {
	case e.To == "waiting" && reason == "CrashLoopBackOff":
		b.ends[name] = e.At
	case e.To == "running":
		first(&b.pod.Started, e.At)
		b.pod.Exited, b.pod.ExitCode = nil, nil
	case e.To == "terminated":
		b.ends[name] = e.At
		if b.deleted == nil && e.At.Bounded() && e.From == "running" {
			b.crash, b.crashes = e, b.crashes+1
		}
		if b.pod.ExitCode == nil || *b.pod.ExitCode == 0 {
			b.pod.ExitCode = e.ExitCode
		}
		if b.exited() {
			b.pod.Exited = b.lastEnd()
		}
	}
}

// isInit reports whether a container is known to be an init container that ends before the others begin.
func (b *podBuilder) isInit(name string) bool {
	t := b.templates[b.pod.Template]
	return t != nil && !slices.ContainsFunc(t.Containers, func(c timeline.Container) bool { return c.Name == name })
}

// lastEnd returns when the last container ended, whichever that was: several ends may be known from one update.
func (b *podBuilder) lastEnd() *model.Instant {
	last := model.Instant{Earliest: model.Unbounded, Latest: model.Unbounded}
	for _, end := range b.ends {
		last.Earliest, last.Latest = max(last.Earliest, end.Earliest), max(last.Latest, end.Latest)
	}
	return &last
}

// exited reports whether every container that was seen has ended.
func (b *podBuilder) exited() bool {
	for _, state := range b.containers {
		if state != "terminated" {
			return false
		}
	}
	return len(b.containers) > 0
}

func (b *podBuilder) readiness(e *model.Event) {
	was := b.ready
	b.ready, b.readyKnown = e.To == "true", true
	switch {
	case b.ready:
		first(&b.pod.Ready, e.At)
	case was || e.From == "true":
		b.pod.NotReady = new(e.At)
	}
}

// appendState adds the state of now to the lane if it is a new one.
func (b *podBuilder) appendState(now time.Duration) {
	state := b.state()
	last := len(b.pod.States) - 1
	switch {
	case last >= 0 && b.pod.States[last].State == state:
		return
	case last >= 0 && b.pod.States[last].Start == max(now, 0):
		b.pod.States[last].State = state
		b.pod.States = slices.CompactFunc(b.pod.States, func(a, b model.PodState) bool { return a.State == b.State })
	default:
		b.pod.States = append(b.pod.States, model.PodState{Start: max(now, 0), State: state})
	}
}

// state says in one word what the Pod is now.
func (b *podBuilder) state() string {
	switch {
	case b.gone:
		return "gone"
	case b.ending && b.serving():
		return "terminating+serving"
	case b.ending:
		return "terminating"
	case b.exited():
		return "crashed"
	case b.ready || !b.readyKnown && b.endpoints.best == timeline.EndpointReady:
		return "ready"
	case b.backsOff():
		return "crashed"
	case slices.Contains(values(b.containers), "running"):
		return "running"
	case b.scheduled:
		return "creating"
	}
	return "pending"
}

// backsOff reports whether a container that has ended waits to be started again, as in CrashLoopBackOff.
func (b *podBuilder) backsOff() bool {
	for name, state := range b.containers {
		if _, ended := b.ends[name]; ended && state == "waiting" {
			return true
		}
	}
	return false
}

// serving reports whether a terminating Pod counts as serving: until its address, its containers or its endpoint say
// otherwise.
func (b *podBuilder) serving() bool {
	return !b.stopped && !b.exited() && b.endpoints.best != timeline.EndpointTerminating &&
		(b.ready || b.endpoints.best == timeline.EndpointTerminatingServing)
}

func values(m map[string]string) []string {
	vs := make([]string, 0, len(m))
	for _, v := range m {
		vs = append(vs, v)
	}
	return vs
}

// ip returns an address as the IP of a Pod; empty if it is not known.
func ip(addr netip.Addr) string {
	if !addr.IsValid() {
		return ""
	}
	return addr.String()
}
