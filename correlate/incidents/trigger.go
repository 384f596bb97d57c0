package incidents

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"

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

// publishTriggers are the triggers by time. Deletions of single Pods that nothing else joins count as one.
func (s set) publishTriggers() []model.Trigger {
	list := []model.Trigger{}
	for _, t := range s.triggers {
		i := slices.IndexFunc(list, func(o model.Trigger) bool { return o.Kind == model.PodsDeleted })
		if t.kind != model.PodsDeleted || i < 0 {
			list = append(list, model.Trigger{Kind: t.kind, Object: t.object, Event: t.event.ID, At: t.event.At, Pods: t.pods})
			continue
		}
		list[i].Object, list[i].Pods = timeline.Object{}, append(list[i].Pods, t.pods...)
		if t.event.At.Latest < list[i].At.Latest {
			list[i].Event, list[i].At = t.event.ID, t.event.At
		}
	}
	for i := range list {
		list[i].Text = text(list[i])
	}
	slices.SortStableFunc(list, func(a, b model.Trigger) int { return cmp.Compare(a.At.Latest, b.At.Latest) })
	return list
}

func text(t model.Trigger) string {
	switch t.Kind {
	case model.NodeDrained:
		return "drain of " + t.Object.Name
	case model.RolledOut:
		return "rollout of " + t.Object.Name
	case model.PodExited:
		return "exit of " + t.Object.Name
	case model.ServiceChanged:
		return "change of Service " + t.Object.Name
	case model.ServiceDeleted:
		return "deletion of Service " + t.Object.Name
	}
	if len(t.Pods) == 1 {
		return "deletion of " + t.Pods[0]
	}
	return fmt.Sprintf("deletion of %d Pods: %s", len(t.Pods), strings.Join(t.Pods, ", "))
}

// A scope is what triggers are looked for in.
type scope struct {
	tl     *model.Timeline
	events map[uint32]*model.Event
	pods   map[string]*model.Pod // by UID
}

func newScope(tl *model.Timeline) scope {
	s := scope{tl: tl, events: map[uint32]*model.Event{}, pods: map[string]*model.Pod{}}
	for i := range tl.Events {
		s.events[tl.Events[i].ID] = &tl.Events[i]
	}
	for i := range tl.Pods {
		s.pods[tl.Pods[i].UID] = &tl.Pods[i]
	}
	return s
}

// triggersOf are the changes that set w off, as far as its most likely cause rests on what happened to Pods or the
// Service, and on more than its time.
func (s scope) triggersOf(w *model.Window) []trigger {
	var all set
	if len(w.Causes) == 0 {
		return nil
	}
	for _, e := range s.serviceChangesIn(w.Causes[0]) {
		t := trigger{key: fmt.Sprint("service ", e.ID), kind: model.ServiceChanged, object: *e.Object, event: e}
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
func onlyNear(c model.Cause) bool { return c.Rule == "unexplained" || c.Confidence == model.Low }

// serviceChangesIn are the changes of a Service, and its deletion, that a cause has as evidence.
func (s scope) serviceChangesIn(c model.Cause) (changes []*model.Event) {
	for _, evidence := range c.Evidence {
		if e := s.events[evidence.Event]; e != nil && e.Kind == timeline.ServiceChanged && e.Object != nil && !onlyNear(c) {
			changes = append(changes, e)
		}
	}
	return changes
}

// podsIn are the Pods whose events a cause has as evidence.
func (s scope) podsIn(c model.Cause) (pods []*model.Pod) {
	if onlyNear(c) {
		return nil
	}
	for _, e := range c.Evidence {
		event := s.events[e.Event]
		if event == nil || event.Object == nil {
			continue
		}
		if pod := s.pods[event.Object.UID]; pod != nil && !slices.Contains(pods, pod) {
			pods = append(pods, pod)
		}
	}
	return pods
}

// triggerOf is what ended a Pod that a cause names: a drain, a rollout, else its deletion, or, if nobody had asked
// for that, the exit that the cause rests on, or the rollout that made the Pod. That a Pod was deleted later set
// nothing off that began as it was added.
func (s scope) triggerOf(pod *model.Pod, c model.Cause) (trigger, bool) {
	deleted := s.deletionOf(pod)
	if deleted != nil && (s.addedIn(pod, c) || !s.follows(pod, c, deleted)) {
		deleted = nil
	}
	object := timeline.Object{Kind: "Pod", Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID, Node: pod.Node}
	switch made := s.madeByRollout(pod); {
	case deleted == nil && made != nil:
		d, _ := deploymentOf(pod)
		object = timeline.Object{Kind: "Deployment", Namespace: pod.Namespace, Name: d.name}
		return trigger{"rollout " + pod.Namespace + "/" + d.name, model.RolledOut, object, made, []string{pod.Name}}, true
	case deleted == nil:
		exited := s.exitOf(pod, c)
		return trigger{"exit " + pod.UID, model.PodExited, object, exited, []string{pod.Name}}, exited != nil
	case s.rolled(pod, deleted):
		d, _ := deploymentOf(pod)
		object = timeline.Object{Kind: "Deployment", Namespace: pod.Namespace, Name: d.name}
		return trigger{"rollout " + pod.Namespace + "/" + d.name, model.RolledOut, object, deleted, []string{pod.Name}}, true
	}
	if cordon := s.cordonOf(pod.Node, deleted.At); cordon != nil {
		return trigger{"drain " + pod.Node, model.NodeDrained, timeline.Object{Kind: "Node", Name: pod.Node}, cordon, []string{pod.Name}}, true
	}
	return trigger{"pod " + pod.UID, model.PodsDeleted, object, deleted, []string{pod.Name}}, true
}

// deletionOf is the event by which a Pod's deletion was asked for, nil if it was not.
func (s scope) deletionOf(pod *model.Pod) *model.Event {
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; e.Kind == timeline.PodDeleted && e.Object != nil && e.Object.UID == pod.UID {
			return e
		}
	}
	return nil
}

// follows reports whether something that a cause says of a Pod may have happened after an event: else the event set
// nothing of it off.
func (s scope) follows(pod *model.Pod, c model.Cause, event *model.Event) bool {
	return slices.ContainsFunc(c.Evidence, func(evidence model.Evidence) bool {
		e := s.events[evidence.Event]
		return e != nil && e.Object != nil && e.Object.UID == pod.UID && event.At.Earliest <= e.At.Latest
	})
}

// addedIn reports whether the cause rests on the Pod's being added to the ready endpoints.
func (s scope) addedIn(pod *model.Pod, c model.Cause) bool {
	return slices.ContainsFunc(c.Evidence, func(evidence model.Evidence) bool {
		e := s.events[evidence.Event]
		return e != nil && e.Kind == timeline.EndpointChanged && e.To == timeline.EndpointReady && e.Object != nil && e.Object.UID == pod.UID
	})
}

// exitOf is the end of one of a Pod's containers that a cause has as evidence, nil if there is none.
func (s scope) exitOf(pod *model.Pod, c model.Cause) *model.Event {
	for _, evidence := range c.Evidence {
		e := s.events[evidence.Event]
		if e != nil && e.Kind == timeline.PodContainer && e.To == "terminated" && e.Object != nil && e.Object.UID == pod.UID {
			return e
		}
	}
	return nil
}

// cordonOf is the event by which a node turned unschedulable during the run, and was so when something happened. One
// that was cordoned before has no such event: why is not known.
func (s scope) cordonOf(node string, at model.Instant) (cordon *model.Event) {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Kind != timeline.NodeSchedulable || e.Object == nil || e.Object.Name != node || e.At.Earliest > at.Latest {
			continue
		}
		cordon = nil
		if e.From == "true" && e.To == "false" {
			cordon = e
		}
	}
	return cordon
}

// rolled reports whether Pods of another ReplicaSet of the Pod's Deployment were created in this run before the Pod
// was deleted: an eviction is made good by Pods of the same one.
func (s scope) rolled(pod *model.Pod, deleted *model.Event) bool {
	own, ok := deploymentOf(pod)
	return ok && !endedElse(pod) && slices.ContainsFunc(s.tl.Pods, func(o model.Pod) bool {
		other, ok := deploymentOf(&o)
		return ok && o.Namespace == pod.Namespace && other.name == own.name && other.hash != own.hash &&
			o.Created != nil && o.Created.Bounded() && o.Created.Earliest <= deleted.At.Latest
	})
}

// endedElse reports whether a Pod is known to have been ended for something else than a rollout.
func endedElse(pod *model.Pod) bool {
	return pod.Ending != nil && slices.Contains([]model.EndedBy{model.ByEviction, model.ByTaint, model.ByScheduler, model.ByKubelet, model.ByCollector, model.ByScaling}, pod.Ending.By)
}

// madeByRollout is the event by which a Pod was created, if its Deployment had only Pods of other ReplicaSets when
// the run began; else nil.
func (s scope) madeByRollout(pod *model.Pod) *model.Event {
	own, ok := deploymentOf(pod)
	if !ok || pod.Created == nil || !pod.Created.Bounded() {
		return nil
	}
	older := false
	for i := range s.tl.Pods {
		o := &s.tl.Pods[i]
		other, ok := deploymentOf(o)
		if !ok || o.Namespace != pod.Namespace || other.name != own.name || o.Created != nil && o.Created.Bounded() {
			continue
		}
		if older = true; other.hash == own.hash {
			return nil
		}
	}
	for i := range s.tl.Events {
		if e := &s.tl.Events[i]; older && e.Kind == timeline.PodSeen && e.Object != nil && e.Object.UID == pod.UID {
			return e
		}
	}
	return nil
}

// podName is how a Deployment's Pods are called: its own name, the hash of the template, and five characters. Both
// are of characters that make no words.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#pod-template-hash-label
var podName = regexp.MustCompile(`^(.+)-([bcdfghjklmnpqrstvwxz2456789]{6,10})-[bcdfghjklmnpqrstvwxz2456789]{5}$`)

type deployment struct{ name, hash string }

// deploymentOf is what a Pod's name says of its Deployment.
func deploymentOf(pod *model.Pod) (deployment, bool) {
	m := podName.FindStringSubmatch(pod.Name)
	if m == nil {
		return deployment{}, false
	}
	return deployment{m[1], m[2]}, true
}
