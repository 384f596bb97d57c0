package cluster

import (
	"cmp"
	"fmt"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// setEndings says of each Pod who or what ended it, as far as that was seen.
func setEndings(pods []model.Pod, builders []*podBuilder, events []model.Event) {
	around := surroundingsOf(pods, events)
	for i := range pods {
		pods[i].Ending = around.endingOf(&pods[i], builders[i])
	}
}

// surroundings are the facts beside a Pod's own that tell who ended it.
type surroundings struct {
	templates map[string]map[string]bool // of the Pods that were seen, by NAMESPACE/KIND/NAME of their workload
	deletions map[string]*model.Event    // by NAMESPACE/NAME of the Pod: its controller said that it deleted it
	cordons   map[string]*model.Event    // by node: the last time it was cordoned in the run
	taints    map[string][]*model.Event  // by node: those that came in the run, and evict
	taken     map[string]*model.Event    // by UID of the Pod: an Event says that it is deleted because of a taint, or for a Pod of higher priority
	states    Workloads
}

func surroundingsOf(pods []model.Pod, events []model.Event) *surroundings {
	s := &surroundings{templates: map[string]map[string]bool{}, deletions: map[string]*model.Event{}, cordons: map[string]*model.Event{}, taints: map[string][]*model.Event{}, taken: map[string]*model.Event{}, states: ReadWorkloads(events)}
	for i := range events {
		e := &events[i]
		switch {
		case e.Object == nil:
		case e.Kind == timeline.KubeEvent && e.To == "SuccessfulDelete":
			if name := deletedPod(e.Detail); name != "" {
				s.deletions[e.Object.Namespace+"/"+name] = e
			}
		case e.Kind == timeline.NodeSchedulable && e.To == "false" && s.cordons[e.Object.Name] == nil:
			s.cordons[e.Object.Name] = e
		case e.Kind == timeline.NodeTaint && e.To == "present" && strings.HasSuffix(e.Detail, ":NoExecute"):
			s.taints[e.Object.Name] = append(s.taints[e.Object.Name], e)
		case e.Kind == timeline.KubeEvent && (e.To == "TaintManagerEviction" && strings.HasPrefix(e.Detail, "Marking for deletion") || e.To == "Preempted"):
			s.taken[e.Object.UID] = e
		}
	}
	for i := range pods {
		p := &pods[i]
		key := p.Namespace + "/" + s.states.Top(p)
		if s.templates[key] == nil {
			s.templates[key] = map[string]bool{}
		}
		s.templates[key][p.Template] = true
	}
	return s
}

// deletedPod is the name in a controller's message: "Deleted pod: web-abc-x" of a ReplicaSet, "delete Pod web-0 in
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

// reasons are those of the condition DisruptionTarget.
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
		return &model.Ending{By: model.ByKubelet, Text: reasons["TerminationByKubelet"].text + ": " + phaseReason(b.failed.Detail), Event: b.failed.ID}
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
	switch cordon := s.cordons[p.Node]; {
	case known.by == model.ByEviction && cordon != nil && cordon.At.Earliest <= e.At.Latest:
		text += fmt.Sprintf(", %s being cordoned (a drain)", p.Node)
	case known.by == model.ByKubelet && e.Detail != "":
		text += ": " + e.Detail
	}
	return &model.Ending{By: known.by, Text: text, Event: e.ID}
}

// taintOf names the taint that came last before a Pod was evicted for one; nothing if none was seen to come.
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
	"Evicted": "the node was short of memory, disk or processes", "NodeShutdown": "the node was shutting down", "Terminated": "the node was shutting down",
	"DeadlineExceeded": "its activeDeadlineSeconds were over", "Preempting": "for a Pod of higher priority",
}

// phaseReason says one of them in words.
func phaseReason(reason string) string {
	if words := kubeletReasons[reason]; words != "" {
		return fmt.Sprintf("%s (%s)", words, reason)
	}
	return reason
}

func (s *surroundings) deletion(p *model.Pod, e *model.Event) *model.Ending {
	by, text := model.ByRequest, "deleted"
	if e.Grace != nil && *e.Grace == 0 {
		text = "deleted by force (grace period 0)"
	}
	switch taken := s.taken[p.UID]; {
	case taken == nil || taken.At.Earliest > e.At.Latest:
	case taken.To == "Preempted":
		known := reasons["PreemptionByScheduler"]
		return &model.Ending{By: known.by, Text: known.text, Event: e.ID}
	default:
		known := reasons["DeletionByTaintManager"]
		return &model.Ending{By: known.by, Text: known.text + s.taintOf(p, e), Event: e.ID}
	}
	deletion := s.deletions[p.Namespace+"/"+p.Name]
	if deletion == nil {
		return &model.Ending{By: by, Text: text, Event: e.ID}
	}
	owner := cmp.Or(s.states.Top(p), p.Owner, deletion.Object.Kind+"/"+deletion.Object.Name)
	switch from, to := s.states.replicas(p.Namespace, owner, e); {
	case to < from:
		by, text = model.ByScaling, fmt.Sprintf("deleted because %s was scaled from %d to %d", WorkloadWords(owner), from, to)
	case s.replaced(p, owner):
		by, text = model.ByRollout, fmt.Sprintf("replaced in a rollout of %s", WorkloadWords(owner))
	default:
		text = fmt.Sprintf("deleted by %s", WorkloadWords(p.Owner))
	}
	return &model.Ending{By: by, Text: text, Event: e.ID}
}

// replaced reports whether the Pod's workload got Pods of another template.
func (s *surroundings) replaced(p *model.Pod, owner string) bool {
	return len(s.templates[p.Namespace+"/"+owner]) > 1
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
