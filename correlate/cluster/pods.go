package cluster

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/windows"
	"lapse/timeline"
)

// Pods tells each Pod's life: what the watch said of it, and when its own address answered. Pods
// come in the order they were first heard of.
func Pods(run *model.Timeline, edges map[string]windows.Ends) []model.Pod {
	stories := map[string]*story{}
	order := []*story{}
	for i := range run.Events {
		e := &run.Events[i]
		if e.Object == nil || e.Object.Kind != "Pod" && !aboutPod(e.Kind) || e.Object.UID == "" {
			continue
		}
		st := stories[e.Object.UID]
		if st == nil {
			if e.Kind == timeline.KubeEvent {
				continue // an Event can outlive its Pod by an hour
			}
			st = &story{pod: model.Pod{Namespace: e.Object.Namespace, Name: e.Object.Name, UID: e.Object.UID, States: []model.PodState{}}}
			stories[e.Object.UID] = st
			order = append(order, st)
		}
		st.events = append(st.events, e)
	}
	pods := make([]model.Pod, len(order))
	for i, st := range order {
		st.hear(run.Targets, edges)
		pods[i] = st.pod
	}
	return pods
}

// aboutPod reports whether events of this kind are about the Pod they name.
func aboutPod(kind timeline.EventKind) bool { return strings.HasPrefix(string(kind), "pod-") }

// A story is one Pod's life while it is being told, event by event.
type story struct {
	pod    model.Pod
	events []*model.Event

	containers map[string]string      // by name: waiting, running, terminated
	ended      map[string]bool        // by name: it has ended before
	endpoints  map[endpointKey]string // the states of its endpoints, one for each address and port
	endpoint   string                 // the best of them; empty if none was heard of
	scheduled  bool
	ready      bool
	stopped    bool
	ending     bool // deletion was requested, or its endpoint is terminating
	told       bool // its Ready condition was heard of
}

// hear tells the whole life: the events in the order they were seen, with the silence of the Pod's
// own address between them.
func (st *story) hear(targets []model.Target, edges map[string]windows.Ends) {
	st.containers, st.ended, st.endpoints = map[string]string{}, map[string]bool{}, map[endpointKey]string{}
	st.answers(targets, edges)
	for _, e := range st.events {
		st.stopsBefore(e.Seen)
		st.tell(e)
		st.enter(e.Seen)
	}
	st.stopsBefore(model.Never)
	st.bound()
}

// bound narrows what the watch told late by what must have come before: nothing happens to a Pod
// before its creation, and what answered had not exited.
func (st *story) bound() {
	p := &st.pod
	if p.Created != nil {
		for _, at := range []*model.Instant{p.Scheduled, p.Started, p.Ready, p.NotReady, p.EndpointReady, p.EndpointNotReady, p.Deleted, p.Killing, p.Exited} {
			NotBefore(at, p.Created.Earliest)
		}
	}
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

// answers takes over what the Pod's direct target measured.
func (st *story) answers(targets []model.Target, edges map[string]windows.Ends) {
	for _, t := range targets {
		if t.Kind != timeline.Direct || t.PodUID != st.pod.UID {
			continue
		}
		st.pod.IP = cmp.Or(st.pod.IP, host(t.Addr))
		st.pod.Node = cmp.Or(st.pod.Node, t.PodNode)
		edge := edges[t.Name]
		if edge.FirstOK != nil {
			st.answered(edge.FirstOK.Done, edge.LastOK.Sent, edge.Stopped)
		}
		if edge.LastFailure != nil {
			st.pod.LastFailure = latest(st.pod.LastFailure, edge.LastFailure.Sent)
		}
	}
}

// answered takes over one direct target, at which the Pod answered. It may have several, one for each port and address family: it
// has stopped when none answers.
func (st *story) answered(firstOK, lastOK time.Duration, stop *model.Instant) {
	p := &st.pod
	switch {
	case p.FirstOK == nil:
		p.FirstOK, p.LastOK, p.Stopped = &firstOK, &lastOK, stop
		return
	case stop == nil:
		p.Stopped = nil
	case p.Stopped != nil:
		p.Stopped = &model.Instant{Earliest: max(p.Stopped.Earliest, stop.Earliest), Latest: max(p.Stopped.Latest, stop.Latest)}
	}
	p.FirstOK, p.LastOK = new(min(*p.FirstOK, firstOK)), latest(p.LastOK, lastOK)
}

func latest(known *time.Duration, at time.Duration) *time.Duration {
	if known != nil {
		at = max(at, *known)
	}
	return &at
}

// stopsBefore enters the Pod's silence into its lane if it comes before instant t.
func (st *story) stopsBefore(t time.Duration) {
	if stop := st.pod.Stopped; stop != nil && !st.stopped && stop.Latest < t {
		st.stopped = true
		st.enter(stop.Latest)
	}
}

// tell adds one event to the life.
func (st *story) tell(e *model.Event) {
	st.pod.Node = cmp.Or(st.pod.Node, e.Object.Node)
	st.pod.IP = cmp.Or(st.pod.IP, e.Addr)
	at := e.At
	switch e.Kind {
	case timeline.PodSeen:
		st.pod.Gone = nil // it may come back, as when a selector is restored
		first(&st.pod.Created, at)
	case timeline.PodScheduled:
		st.scheduled = true
		st.pod.Node = cmp.Or(st.pod.Node, e.To)
		first(&st.pod.Scheduled, at)
	case timeline.PodContainer:
		st.container(e)
	case timeline.PodReady:
		st.readiness(e)
	case timeline.PodDeleted:
		st.ending = true
		first(&st.pod.Deleted, at)
	case timeline.PodGone:
		clear(st.endpoints)
		st.endpoint, st.ready = timeline.EndpointAbsent, false
		st.pod.Gone = &at
	case timeline.EndpointChanged:
		st.endpointState(e)
	case timeline.KubeEvent:
		if e.To == "Killing" {
			first(&st.pod.Killing, at)
		}
	}
}

// first remembers the first instant told. One that nothing bounds from below was not seen to
// happen: it stays absent.
func first(known **model.Instant, at model.Instant) {
	if *known == nil && at.Bounded() {
		*known = &at
	}
}

func (st *story) container(e *model.Event) {
	name, reason, _ := strings.Cut(e.Detail, " ")
	st.containers[name] = e.To
	switch {
	case e.To == "waiting" && reason == "CrashLoopBackOff":
		st.ended[name] = true
	case e.To == "running":
		first(&st.pod.Started, e.At)
		st.pod.Exited, st.pod.ExitCode = nil, nil
	case e.To == "terminated":
		st.ended[name] = true
		if st.pod.ExitCode == nil || *st.pod.ExitCode == 0 {
			st.pod.ExitCode = new(e.Code)
		}
		if st.exited() {
			st.pod.Exited = new(e.At)
		}
	}
}

// exited reports whether every container we heard of has ended.
func (st *story) exited() bool {
	for _, state := range st.containers {
		if state != "terminated" {
			return false
		}
	}
	return len(st.containers) > 0
}

func (st *story) readiness(e *model.Event) {
	was := st.ready
	st.ready, st.told = e.To == "true", true
	switch {
	case st.ready:
		first(&st.pod.Ready, e.At)
	case was || e.From == "true":
		st.pod.NotReady = new(e.At)
	}
}

// endpointState takes in a change of one of the Pod's endpoints. The Pod turned ready with the first of them, and left with the last.
func (st *story) endpointState(e *model.Event) {
	was := st.endpoint
	st.endpoints[endpointKey{e.Addr, e.Object.UID, e.Code}] = e.To
	st.endpoint = timeline.EndpointAbsent
	for _, state := range st.endpoints {
		if slices.Index(endpointStates, state) < slices.Index(endpointStates, st.endpoint) {
			st.endpoint = state
		}
	}
	st.ending = st.ending || strings.HasPrefix(st.endpoint, timeline.EndpointTerminating)
	switch {
	case st.endpoint == timeline.EndpointReady && was == timeline.EndpointReady:
		return // another one changed
	case st.endpoint == timeline.EndpointReady:
		first(&st.pod.EndpointReady, e.At)
		st.pod.EndpointRemoved = nil
		return
	}
	if was == timeline.EndpointReady || e.From == timeline.EndpointReady {
		st.pod.EndpointNotReady = new(e.At)
	}
	if st.endpoint == timeline.EndpointAbsent {
		st.pod.EndpointRemoved = new(e.At)
	}
}

// endpointStates are the states of an endpoint, the best first.
var endpointStates = []string{
	timeline.EndpointReady, timeline.EndpointTerminatingServing, timeline.EndpointNotReady, timeline.EndpointTerminating, timeline.EndpointAbsent,
}

// enter adds the state of now to the lane if it is a new one.
func (st *story) enter(now time.Duration) {
	state := st.state()
	last := len(st.pod.States) - 1
	switch {
	case last >= 0 && st.pod.States[last].State == state:
		return
	case last >= 0 && st.pod.States[last].Start == max(now, 0):
		st.pod.States[last].State = state
		st.pod.States = slices.CompactFunc(st.pod.States, func(a, b model.PodState) bool { return a.State == b.State })
	default:
		st.pod.States = append(st.pod.States, model.PodState{Start: max(now, 0), State: state})
	}
}

// state says in one word what the Pod is now.
func (st *story) state() string {
	switch {
	case st.pod.Gone != nil:
		return "gone"
	case st.ending && st.serving():
		return "terminating+serving"
	case st.ending:
		return "terminating"
	case st.exited():
		return "crashed"
	case st.ready || !st.told && st.endpoint == timeline.EndpointReady:
		return "ready"
	case st.backsOff():
		return "crashed"
	case slices.Contains(values(st.containers), "running"):
		return "running"
	case st.scheduled:
		return "creating"
	}
	return "pending"
}

// backsOff reports whether a container that has ended waits to be started again, as in CrashLoopBackOff.
func (st *story) backsOff() bool {
	for name, state := range st.containers {
		if state == "waiting" && st.ended[name] {
			return true
		}
	}
	return false
}

// serving is what is believed of a terminating Pod until its address, its containers or its
// endpoint say otherwise.
func (st *story) serving() bool {
	return !st.stopped && !st.exited() && st.endpoint != timeline.EndpointTerminating &&
		(st.ready || st.endpoint == timeline.EndpointTerminatingServing)
}

func values(m map[string]string) []string {
	vs := make([]string, 0, len(m))
	for _, v := range m {
		vs = append(vs, v)
	}
	return vs
}

// host is the address without its port.
func host(addr string) string {
	i := strings.LastIndexByte(addr, ':')
	if i < 0 {
		return addr
	}
	return strings.Trim(addr[:i], "[]")
}
