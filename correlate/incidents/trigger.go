package incidents

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// A trigger is a change that set windows off. Windows with the same key were set off by the same change.
type trigger struct {
	key    string
	kind   model.TriggerKind
	object timeline.Object
	event  *model.Event
	pods   []string // names
	text   string   // empty if it follows from the other fields: see Text
	actor  string
}

func indexOf(triggers []trigger, key string) int {
	return slices.IndexFunc(triggers, func(t trigger) bool { return t.key == key })
}

// with adds the Pods of o, which has the same key.
func (t trigger) with(o trigger) trigger {
	if o.event.At.Latest < t.event.At.Latest {
		t.event = o.event
	}
	t.pods = slices.Clone(t.pods)
	for _, name := range o.pods {
		if !slices.Contains(t.pods, name) {
			t.pods = append(t.pods, name)
		}
	}
	return t
}

// publishTriggers returns the triggers by time. It unites the deletions of single Pods.
func (s set) publishTriggers() []model.Trigger {
	list := []model.Trigger{}
	for _, t := range s.triggers {
		i := slices.IndexFunc(list, func(o model.Trigger) bool { return o.Kind == model.PodsDeleted })
		if t.kind != model.PodsDeleted || i < 0 {
			list = append(list, model.Trigger{
				Kind:   t.kind,
				Object: t.object,
				Event:  t.event.ID,
				At:     t.event.At,
				Pods:   t.pods,
				Actor:  t.actor,
				Text:   t.text,
			})
			continue
		}
		list[i].Object, list[i].Pods = timeline.Object{}, append(list[i].Pods, t.pods...)
		if t.event.At.Latest < list[i].At.Latest {
			list[i].Event, list[i].At = t.event.ID, t.event.At
		}
	}
	for i := range list {
		list[i].Text = cmp.Or(list[i].Text, Text(list[i]))
	}
	slices.SortStableFunc(list, func(a, b model.Trigger) int { return cmp.Compare(a.At.Latest, b.At.Latest) })
	return list
}

// Text says what a trigger was: "drain of node2". Its Pods may be unknown.
func Text(t model.Trigger) string {
	by := ""
	if t.Actor != "" {
		by = " (field manager " + t.Actor + ")"
	}
	switch t.Kind {
	case model.NodeDrained:
		return "drain of " + t.Object.Name
	case model.RolledOut:
		return "rollout of " + t.Object.Name + by
	case model.PodExited:
		return "exit of " + cmp.Or(t.Object.Name, "a Pod")
	case model.ScaledDown:
		return "scale-down of " + t.Object.Name
	case model.ServiceChanged:
		return "change of Service " + t.Object.Name + by
	case model.ServiceDeleted:
		return "deletion of Service " + t.Object.Name
	}
	switch len(t.Pods) {
	case 0:
		return "deletion of Pods"
	case 1:
		return "deletion of " + t.Pods[0]
	}
	return fmt.Sprintf("deletion of %d Pods: %s", len(t.Pods), strings.Join(t.Pods, ", "))
}

// A scope is the run in which triggers are looked for.
type scope struct {
	tl     *model.Timeline
	events map[uint32]*model.Event
	pods   map[string]*model.Pod // by UID
	states cluster.Workloads
}

func newScope(tl *model.Timeline) scope {
	s := scope{
		tl:     tl,
		events: map[uint32]*model.Event{},
		pods:   map[string]*model.Pod{},
		states: cluster.ReadWorkloads(tl.Events),
	}
	for i := range tl.Events {
		s.events[tl.Events[i].ID] = &tl.Events[i]
	}
	for i := range tl.Pods {
		s.pods[tl.Pods[i].UID] = &tl.Pods[i]
	}
	return s
}

// triggersOf returns the changes that set w off: what happened to the Service or the Pods that its most likely cause
// rests on, or, where that rests on no more than its time, to the Pods whose own addresses failed as it did.
func (s scope) triggersOf(w *model.Window) []trigger {
	if len(w.Causes) == 0 {
		return nil
	}
	if onlyNear(w.Causes[0]) {
		return s.triggersOfFailing(w)
	}
	var all set
	for _, e := range s.serviceChangesIn(w.Causes[0]) {
		t := trigger{
			key: fmt.Sprint("service ", e.ID), kind: model.ServiceChanged, object: e.Object, event: e, actor: e.Actor,
		}
		if e.To == "absent" {
			t.kind = model.ServiceDeleted
		}
		all = all.with(set{triggers: []trigger{t}})
	}
	for _, pod := range s.podsIn(w.Causes[0]) {
		if t, ok := s.triggerOf(pod, w.Causes[0]); ok {
			all = all.with(set{triggers: []trigger{t}})
		}
	}
	return all.triggers
}

// onlyNear reports whether the evidence of a cause is only near in time.
func onlyNear(c model.Cause) bool { return c.Rule == model.Unexplained || c.Confidence == model.Low }

// serviceChangesIn returns the changes and deletions of Services that a cause has as evidence.
func (s scope) serviceChangesIn(c model.Cause) (changes []*model.Event) {
	for _, evidence := range c.Evidence {
		if e := s.events[evidence.Event]; e != nil && e.Kind == timeline.ServiceChanged && !e.Object.IsZero() {
			changes = append(changes, e)
		}
	}
	return changes
}

// podsIn returns the Pods whose events a cause has as evidence.
func (s scope) podsIn(c model.Cause) (pods []*model.Pod) {
	for _, e := range c.Evidence {
		event := s.events[e.Event]
		if event == nil {
			continue
		}
		if pod := s.pods[event.Object.UID]; pod != nil && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// triggersOfFailing returns what ended or made the Pods whose own addresses failed as most requests of w did. If one of
// them failed before that, or without it, all of them have something else in common: then it returns none.
func (s scope) triggersOfFailing(w *model.Window) []trigger {
	var all set
	for _, f := range w.Failing {
		pod := s.pods[f.UID]
		if pod == nil {
			return nil
		}
		t, ok := s.endOf(pod, f.Ending)
		if !ok {
			t, ok = s.startOf(pod)
		}
		if !ok {
			return nil
		}
		all = all.with(set{triggers: []trigger{t}})
	}
	return all.triggers
}

// endOf returns what ended a Pod, as an event shows it; ok is false if there is none.
func (s scope) endOf(pod *model.Pod, ending uint32) (t trigger, ok bool) {
	e := s.events[ending]
	if e == nil {
		return trigger{}, false
	}
	if deleted := s.deletionOf(pod); deleted != nil && pod.Ending.By != model.ByItself {
		return s.deletedBy(pod, deleted), true
	}
	return s.exit(pod, e), pod.Ending.By == model.ByItself
}

// exit returns the trigger for the end of one of a Pod's containers.
func (s scope) exit(pod *model.Pod, e *model.Event) trigger {
	return trigger{
		key: "exit " + pod.UID, kind: model.PodExited, object: podObject(pod), event: e, pods: []string{pod.Name},
	}
}

// startOf returns the rollout that made a Pod.
func (s scope) startOf(pod *model.Pod) (trigger, bool) {
	made := s.madeByRollout(pod)
	if made == nil {
		return trigger{}, false
	}
	return s.rollout(pod, made), true
}

func podObject(pod *model.Pod) timeline.Object {
	return timeline.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Node}
}

// triggerOf returns what ended a Pod that a cause names: a drain, a rollout, a scaled workload or else its deletion. If
// its deletion was not asked for, or came only after what the cause says of the Pod, it returns the rollout that made
// the Pod, or the exit that the cause rests on.
func (s scope) triggerOf(pod *model.Pod, c model.Cause) (trigger, bool) {
	if deleted := s.deletionOf(pod); deleted != nil && !s.addedIn(pod, c) && s.follows(pod, c, deleted) {
		return s.deletedBy(pod, deleted), true
	}
	if t, ok := s.startOf(pod); ok {
		return t, true
	}
	exited := s.exitOf(pod, c)
	return s.exit(pod, exited), exited != nil
}

// deletedBy returns why a Pod was deleted: a rollout, a scaled workload, a drain, or just its deletion.
func (s scope) deletedBy(pod *model.Pod, deleted *model.Event) trigger {
	t := trigger{
		key: "pod " + pod.UID, kind: model.PodsDeleted, object: podObject(pod), event: deleted,
		pods: []string{pod.Name},
	}
	if pod.Ending == nil || pod.Ending.Of == nil {
		return t
	}
	change := s.events[pod.Ending.Change]
	switch of := *pod.Ending.Of; {
	case pod.Ending.By == model.ByRollout:
		return s.rollout(pod, deleted)
	case pod.Ending.By == model.ByScaling && change != nil:
		t.key, t.kind, t.object, t.event, t.actor = "scale "+workloadKey(of), model.ScaledDown, of, change, change.Actor
		t.text = s.scaledText(t)
	case of.Kind == "Node":
		t.key, t.kind, t.object = "drain "+of.Name, model.NodeDrained, of
		if change != nil {
			t.event = change
		}
	}
	return t
}

func workloadKey(of timeline.Object) string { return of.Namespace + "/" + of.Kind + "/" + of.Name }

// scaledText says from how many replicas to how many a workload was scaled, by whom, and whether an autoscaler does so
// too: "Deployment web scaled from 6 to 1 (field manager kubectl-client-side-apply) though an autoscaler sets its
// replicas".
func (s scope) scaledText(t trigger) string {
	workload := t.object.Kind + "/" + t.object.Name
	_, from, to := s.states.Scaled(t.object.Namespace, workload, t.event)
	text := fmt.Sprintf("%s scaled from %d to %d", cluster.WorkloadWords(workload), from, to)
	switch autoscaler := t.event.Snapshot.Workload.Autoscaled; {
	case autoscaler:
		return text + " by an autoscaler"
	case t.actor != "":
		text += " (field manager " + t.actor + ")"
	}
	if s.states.Autoscaled(t.object.Namespace, workload) {
		text += " though an autoscaler sets its replicas"
	}
	return text
}

// rollout returns the trigger for a rollout of a Pod's workload, which an event of the Pod shows.
func (s scope) rollout(pod *model.Pod, shows *model.Event) trigger {
	kind, name, _ := strings.Cut(s.states.Top(pod), "/")
	of := timeline.Object{Kind: kind, Namespace: pod.Namespace, Name: name}
	t := trigger{
		key: "rollout " + workloadKey(of), kind: model.RolledOut, object: of, event: shows, pods: []string{pod.Name},
	}
	if change := s.states.ChangedBefore(of.Namespace, kind+"/"+name, shows); change != nil {
		t.actor = change.Actor
	}
	return t
}

// isOf reports whether an event is about a Pod.
func isOf(e *model.Event, pod *model.Pod) bool { return e.Object.UID == pod.UID }

// deletionOf returns the event by which a Pod's deletion was asked for, nil if it was not.
func (s scope) deletionOf(pod *model.Pod) *model.Event {
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == timeline.PodDeleted && isOf(e, pod) {
			return e
		}
	}
	return nil
}

// follows reports whether something that a cause says of a Pod may have happened after an event. Otherwise the event
// cannot have set it off.
func (s scope) follows(pod *model.Pod, c model.Cause, event *model.Event) bool {
	return slices.ContainsFunc(c.Evidence, func(evidence model.Evidence) bool {
		e := s.events[evidence.Event]
		return e != nil && isOf(e, pod) && event.At.Earliest <= e.At.Latest
	})
}

// addedIn reports whether the cause rests on the Pod becoming a ready endpoint.
func (s scope) addedIn(pod *model.Pod, c model.Cause) bool {
	return slices.ContainsFunc(c.Evidence, func(evidence model.Evidence) bool {
		e := s.events[evidence.Event]
		return e != nil && e.Kind == timeline.EndpointChanged && e.To == timeline.EndpointReady && isOf(e, pod)
	})
}

// exitOf returns the end of one of a Pod's containers that a cause has as evidence, nil if there is none.
func (s scope) exitOf(pod *model.Pod, c model.Cause) *model.Event {
	for _, evidence := range c.Evidence {
		e := s.events[evidence.Event]
		if e != nil && e.Kind == timeline.PodContainer && e.To == "terminated" && isOf(e, pod) {
			return e
		}
	}
	return nil
}

// madeByRollout returns the event by which a Pod was created, if its workload had only Pods of other templates when the
// run began; else nil.
func (s scope) madeByRollout(pod *model.Pod) *model.Event {
	top := s.states.Top(pod)
	if top == "" || pod.Created == nil || !pod.Created.Bounded() {
		return nil
	}
	older := false
	for i := range s.tl.Pods {
		o := &s.tl.Pods[i]
		if o.Namespace != pod.Namespace || o.Created != nil && o.Created.Bounded() || s.states.Top(o) != top {
			continue
		}
		if older = true; o.Template == pod.Template {
			return nil
		}
	}
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; older && e.Kind == timeline.PodSeen && isOf(e, pod) {
			return e
		}
	}
	return nil
}
