package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// setEndings sets who or what ended each Pod, as far as that was seen.
func setEndings(pods []model.Pod, builders []*podBuilder, events []model.Event) {
	around := surroundingsOf(pods, events)
	for i := range pods {
		pods[i].Ending = around.endingOf(&pods[i], builders[i])
	}
}

// surroundings are facts about other objects that show who ended a Pod.
type surroundings struct {
	siblings  map[string][]*model.Pod   // by NAMESPACE/KIND/NAME of their workload
	deletions map[string][]*model.Event // by NAMESPACE/NAME of the Pod: its controller said that it deleted it
	said      map[string]bool           // by NAMESPACE/KIND/NAME of a controller: it named each Pod that it deleted
	drains    map[string][]*model.Event // by node: when it was marked as being drained, no longer so, or gone
	taints    map[string][]*model.Event // by node: those that came in the run, and evict
	// by UID of the Pod: an Event says that it is deleted because of a taint, or for a Pod of higher priority
	taken  map[string]*model.Event
	states Workloads
}

func surroundingsOf(pods []model.Pod, events []model.Event) *surroundings {
	s := &surroundings{
		siblings:  map[string][]*model.Pod{},
		deletions: map[string][]*model.Event{},
		said:      map[string]bool{},
		drains:    map[string][]*model.Event{},
		taints:    map[string][]*model.Event{},
		taken:     map[string]*model.Event{},
		states:    ReadWorkloads(events),
	}
	for i := range events {
		e := &events[i]
		if _, _, drain := e.DrainMark(); drain || e.Kind == timeline.NodeGone {
			s.drains[e.Object.Name] = append(s.drains[e.Object.Name], e)
		}
		switch {
		case e.Object.IsZero():
		case e.Kind == timeline.KubeEvent && e.To == "SuccessfulDelete":
			s.controllerDeleted(e)
		case e.Kind == timeline.NodeTaint && e.To == "present" && strings.HasSuffix(e.Detail, ":NoExecute"):
			s.taints[e.Object.Name] = append(s.taints[e.Object.Name], e)
		case e.Kind == timeline.KubeEvent &&
			(e.To == "TaintManagerEviction" && strings.HasPrefix(e.Detail, "Marking for deletion") ||
				e.To == "Preempted"):
			s.taken[e.Object.UID] = e
		}
	}
	for i := range pods {
		p := &pods[i]
		key := p.Namespace + "/" + s.states.Top(p)
		s.siblings[key] = append(s.siblings[key], p)
	}
	return s
}

// combined begins the message of an Event that stands for several: the API client puts them together when one object
// has many.
const combined = "(combined from similar events): "

// controllerDeleted takes in an Event by which a controller says that it deleted a Pod. Once its Events are combined,
// they no longer name each Pod.
func (s *surroundings) controllerDeleted(e *model.Event) {
	controller := e.Object.Namespace + "/" + e.Object.Kind + "/" + e.Object.Name
	message, several := strings.CutPrefix(e.Detail, combined)
	if _, known := s.said[controller]; !known || several {
		s.said[controller] = !several
	}
	if name := deletedPod(message); name != "" {
		key := e.Object.Namespace + "/" + name
		s.deletions[key] = append(s.deletions[key], e)
	}
}

// drain returns the last event by which a node was marked as being drained, if it still was at an instant; nil if it
// was not, or if that was not seen.
func (s *surroundings) drain(node string, at model.Instant) *model.Event {
	var marks []*model.Event
	for _, e := range s.drains[node] {
		if e.At.Earliest > at.Latest {
			break
		}
		mark, set, ok := e.DrainMark()
		marks = slices.DeleteFunc(marks, func(o *model.Event) bool {
			other, _, _ := o.DrainMark()
			return other == mark || !ok // the node is gone; another one may come with its name
		})
		if set {
			marks = append(marks, e)
		}
	}
	if len(marks) == 0 {
		return nil
	}
	return marks[len(marks)-1]
}

// deletedPod returns the name in a controller's message: "Deleted pod: web-abc-x" of a ReplicaSet, "delete Pod web-0 in
// StatefulSet web successful".
func deletedPod(message string) string {
	if name, of := strings.CutPrefix(message, "Deleted pod: "); of {
		return name
	}
	if rest, of := strings.CutPrefix(message, "delete Pod "); of {
		name, _, _ := strings.Cut(rest, " ")
		return name
	}
	return ""
}

// reasons are the reasons of the condition DisruptionTarget.
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
var reasons = map[string]struct {
	by   model.EndedBy
	text string
}{
	"EvictionByEvictionAPI":  {model.ByEviction, "evicted through the API"},
	"PreemptionByScheduler":  {model.ByScheduler, "preempted by the scheduler, for a Pod of higher priority"},
	"DeletionByTaintManager": {model.ByTaint, "evicted because its node was tainted"},
	"DeletionByPodGC":        {model.ByCollector, "deleted by the Pod garbage collector, its node being gone"},
	"TerminationByKubelet":   {model.ByKubelet, "ended by its kubelet"},
}

func (s *surroundings) endingOf(p *model.Pod, b *podBuilder) *model.Ending {
	switch {
	case b.disrupted != nil:
		return s.disruption(p, b.disrupted)
	case b.failed != nil && (b.deleted == nil || b.failed.Seen < b.deleted.Seen):
		return &model.Ending{By: model.ByKubelet, Text: reasons["TerminationByKubelet"].text + ": " +
			phaseReason(b.failed.Detail), Event: b.failed.ID}
	case b.deleted != nil:
		return s.deletion(p, b.deleted)
	case b.crash != nil:
		text := "its container " + ContainerEnd(b.crash)
		if b.crashes > 1 {
			text += fmt.Sprintf(", %d times", b.crashes)
		}
		return &model.Ending{By: model.ByItself, Text: text, Event: b.crash.ID}
	}
	return nil
}

func (s *surroundings) disruption(p *model.Pod, e *model.Event) *model.Ending {
	known, ok := reasons[e.To]
	if !ok {
		known.by, known.text = model.ByRequest, "ended, as it says, for "+e.To
	}
	text := known.text
	if known.by == model.ByTaint {
		return &model.Ending{By: known.by, Text: text + s.taintOf(p, e), Event: e.ID}
	}
	ending := &model.Ending{By: known.by, Text: text, Event: e.ID}
	switch drain := s.drain(p.Node, e.At); {
	case known.by == model.ByEviction && drain != nil:
		ending.Text += fmt.Sprintf(", %s being %s (a drain)", p.Node, markedWords(drain))
		ending.Of, ending.Change = nodeObject(p.Node), markedInRun(drain)
	case known.by == model.ByKubelet && e.Detail != "":
		ending.Text += ": " + strings.TrimSuffix(e.Detail, ".") // the sentence goes on
	}
	return ending
}

// taintOf returns the last taint of a node before a Pod was evicted for one; "" if none was seen.
func (s *surroundings) taintOf(p *model.Pod, evicted *model.Event) string {
	name := ""
	for _, e := range s.taints[p.Node] {
		if e.At.Earliest <= evicted.At.Latest {
			name = " (" + e.Detail + ")"
		}
	}
	return name
}

// kubeletReasons are why a kubelet sets a Pod's phase to Failed.
var kubeletReasons = map[string]string{
	"Evicted": "the node was short of memory, disk or processes", "NodeShutdown": "the node was shutting down",
	"Terminated":       "the node was shutting down",
	"DeadlineExceeded": "its activeDeadlineSeconds were over", "Preempting": "for a Pod of higher priority",
}

// phaseReason returns one of them in words.
func phaseReason(reason string) string {
	if words := kubeletReasons[reason]; words != "" {
		return fmt.Sprintf("%s (%s)", words, reason)
	}
	return reason
}

// nodeObject returns the object of a node.
func nodeObject(name string) *timeline.Object { return &timeline.Object{Kind: "Node", Name: name} }

// markedInRun returns the ID of an event that marked a node as being drained, 0 if the node was found so: when that
// was, and why, is not known.
func markedInRun(drain *model.Event) uint32 {
	if drain.From == "" {
		return 0
	}
	return drain.ID
}

// markedWords says what marked a node as being drained: "cordoned", "tainted with karpenter.sh/disrupted".
func markedWords(drain *model.Event) string {
	if mark, _, _ := drain.DrainMark(); mark != "" {
		return "tainted with " + mark
	}
	return "cordoned"
}

func (s *surroundings) deletion(p *model.Pod, e *model.Event) *model.Ending {
	switch taken := s.taken[p.UID]; {
	case taken == nil || taken.At.Earliest > e.At.Latest:
	case taken.To == "Preempted":
		known := reasons["PreemptionByScheduler"]
		return &model.Ending{By: known.by, Text: known.text, Event: e.ID}
	default:
		known := reasons["DeletionByTaintManager"]
		return &model.Ending{By: known.by, Text: known.text + s.taintOf(p, e), Event: e.ID}
	}
	owner := s.states.Top(p)
	said := s.saidOf(p, e)
	if owner == "" && said != nil {
		owner = said.Object.Kind + "/" + said.Object.Name
	}
	ending := &model.Ending{By: model.ByRequest, Text: "deleted", Event: e.ID}
	switch controller := said != nil || owner != "" && !s.said[p.Namespace+"/"+p.Owner]; {
	case controller && s.scaled(p, owner, e, ending):
	case said != nil && s.replaced(p, owner), said == nil && controller && s.replacedBefore(p, owner, e):
		ending.By, ending.Text = model.ByRollout, fmt.Sprintf("replaced in a rollout of %s", WorkloadWords(owner))
		ending.Of = workloadObject(p.Namespace, owner)
		if change := s.states.ChangedBefore(p.Namespace, owner, e); change != nil {
			ending.Change = change.ID
		}
	case said != nil:
		ending.Text = "deleted by " + WorkloadWords(cmp.Or(p.Owner, owner))
	default:
		if e.Grace != nil && *e.Grace == 0 {
			ending.Text = "deleted by force (grace period 0)"
		}
		// as a drain without evictions does
		if drain := s.drain(p.Node, e.At); drain != nil && markedInRun(drain) != 0 {
			ending.Of, ending.Change = nodeObject(p.Node), drain.ID
		}
	}
	return ending
}

// saidApart is how far apart a controller's deletion of a Pod and its Event of that are at most.
const saidApart = 5 * time.Second

// saidOf returns the Event by which its controller said that it deleted a Pod; nil if there is none. A StatefulSet has
// one Pod of a name after the other.
func (s *surroundings) saidOf(p *model.Pod, deleted *model.Event) *model.Event {
	for _, e := range s.deletions[p.Namespace+"/"+p.Name] {
		if e.Object.Kind != "StatefulSet" || e.At.Earliest <= deleted.At.Latest+saidApart &&
			deleted.At.Earliest-saidApart <= e.At.Latest {
			return e
		}
	}
	return nil
}

// workloadObject returns the object of a workload, KIND/NAME.
func workloadObject(namespace, workload string) *timeline.Object {
	kind, name, _ := strings.Cut(workload, "/")
	return &timeline.Object{Kind: kind, Namespace: namespace, Name: name}
}

// scaled completes the ending of a Pod whose workload was scaled down shortly before, and reports whether that was so.
// Where the workload itself is not watched, as one of a custom kind, its ReplicaSet is, which a rollout scales, too.
// Where the same change also starts a rollout, controllers scale down first: any more Pods that they delete are
// replaced.
func (s *surroundings) scaled(p *model.Pod, owner string, e *model.Event, ending *model.Ending) bool {
	scaled := owner
	change, from, to := s.states.Scaled(p.Namespace, owner, e)
	if change == nil && len(s.states.Of(p.Namespace, owner)) == 0 {
		scaled = p.Owner
		change, from, to = s.states.Scaled(p.Namespace, p.Owner, e)
		if s.replaced(p, owner) && (to == 0 || s.rollsOn(p, owner)) {
			return false
		}
	}
	if change == nil || to >= from || s.replaced(p, owner) && s.deletedSince(change, p, owner, e) >= from-to {
		return false
	}
	ending.By, ending.Text = model.ByScaling, fmt.Sprintf("deleted because %s was scaled from %d to %d",
		WorkloadWords(scaled), from, to)
	ending.Of, ending.Change = workloadObject(p.Namespace, scaled), change.ID
	return true
}

// deletedSince returns how many Pods of a Pod's workload were deleted since a change of it, and before the Pod was.
func (s *surroundings) deletedSince(change *model.Event, p *model.Pod, owner string, deleted *model.Event) (n int) {
	for _, o := range s.siblings[p.Namespace+"/"+owner] {
		if o.Deleted != nil && o.Deleted.Latest >= change.At.Earliest && o.Deleted.Latest < deleted.At.Latest {
			n++
		}
	}
	return n
}

// replaced reports whether the Pod's workload has Pods of another template that may be newer than the Pod.
func (s *surroundings) replaced(p *model.Pod, owner string) bool {
	return slices.ContainsFunc(s.siblings[p.Namespace+"/"+owner], func(o *model.Pod) bool {
		return o.Template != p.Template && (o.Created != nil || p.Created == nil)
	})
}

// rollsOn reports whether Pods of another template came to the Pod's workload in the run, or became ready: they may
// have been created long before. A rollout that is paused gets none.
func (s *surroundings) rollsOn(p *model.Pod, owner string) bool {
	return slices.ContainsFunc(s.siblings[p.Namespace+"/"+owner], func(o *model.Pod) bool {
		return o.Template != p.Template && (o.Created != nil || o.EndpointReady != nil)
	})
}

// replacedBefore reports whether the Pod's workload got Pods of another template in the run, before this one was
// deleted.
func (s *surroundings) replacedBefore(p *model.Pod, owner string, deleted *model.Event) bool {
	return slices.ContainsFunc(s.siblings[p.Namespace+"/"+owner], func(o *model.Pod) bool {
		return o.Template != p.Template && o.Created != nil && o.Created.Earliest <= deleted.At.Latest &&
			(p.Created == nil || p.Created.Earliest <= o.Created.Latest)
	})
}

// ContainerEnd says how a container ended: "main ended with exit code 137 (OOMKilled)".
func ContainerEnd(e *model.Event) string {
	name, reason, _ := strings.Cut(e.Detail, " ")
	text := name + " ended by itself"
	if e.ExitCode != nil {
		text += fmt.Sprintf(", exit code %d", *e.ExitCode)
	}
	if reason != "" && reason != "Error" && reason != "Completed" {
		text += " (" + reason + ")"
	}
	return text
}
