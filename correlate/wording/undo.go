package wording

import (
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says how to undo what set an incident off, while it goes on, and how to keep it from coming back.

// undoable are the causes that go away when the change that made them is undone. Where routes outlive Pods, undoing a
// rollout makes it once more.
var undoable = []string{"no-ready-endpoint", "selector-switch", "failing-version", "startup-race", "pod-crashed"}

// undo says what to do while requests still fail, and the command that does it; "" if nothing is known to help.
func (in *incident) undo() (text, command string) {
	if !in.isGoingOn() || len(in.Triggers) != 1 || len(in.Causes) == 0 ||
		!slices.Contains(undoable, in.Causes[0].Rule) {
		return "", ""
	}
	t := &in.Triggers[0]
	workload := strings.ToLower(t.Object.Kind) + "/" + t.Object.Name
	switch {
	case !safeName.MatchString(t.Object.Namespace) || !safeName.MatchString(t.Object.Name):
		return "", ""
	case t.Kind == model.RolledOut && patchable[t.Object.Kind]:
		return "if it still fails, first undo the rollout, which replaces Pods once more",
			fmt.Sprintf("kubectl -n %s rollout undo %s", t.Object.Namespace, workload)
	case t.Kind == model.ServiceChanged && in.Causes[0].Rule == "selector-switch":
		if before := in.run.selectorBefore(t); before != "" {
			return "if it still fails, first put the selector back, if Pods with its labels are still ready",
				fmt.Sprintf("kubectl -n %s set selector service %s %s", t.Object.Namespace, t.Object.Name, before)
		}
	}
	return "", ""
}

// leaveToAutoscaler says how to keep others from setting the replicas of a workload that an autoscaler sets; "" if
// nobody did. https://kubernetes.io/docs/tasks/run-application/horizontal-pod-autoscale/
func (in *incident) leaveToAutoscaler() string {
	for i := range in.Triggers {
		t := &in.Triggers[i]
		if t.Kind != model.ScaledDown || !in.run.autoscaled(t) {
			continue
		}
		workload := t.Object.Kind + " " + t.Object.Name
		if !strings.Contains(t.Actor, "apply") {
			return "leave the replicas of " + workload + " to its autoscaler"
		}
		text := fmt.Sprintf("take spec.replicas out of the manifest of %s: an autoscaler sets the replicas", workload)
		if t.Actor == "kubectl-client-side-apply" {
			text += ", and each kubectl apply sets them back (first take it out of what was applied last, with " +
				"kubectl apply edit-last-applied: else the next apply scales to 1)"
		}
		return text
	}
	return ""
}

// autoscaled reports whether a workload was scaled by somebody else than the autoscaler that it has.
func (s *scene) autoscaled(t *model.Trigger) (has bool) {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.Snapshot == nil || e.Snapshot.Workload == nil || e.Object.Kind != t.Object.Kind ||
			e.Object.Namespace != t.Object.Namespace || e.Object.Name != t.Object.Name ||
			!e.Snapshot.Workload.Autoscaled {
			continue
		}
		if has = true; e.ID == t.Event {
			return false
		}
	}
	return has
}

// selectorBefore returns the selector of a Service before it was changed, "" if that is not known for sure.
func (s *scene) selectorBefore(t *model.Trigger) string {
	for i := range s.tl.Events {
		e := &s.tl.Events[i]
		if e.ID == t.Event && e.Kind == timeline.ServiceChanged && safeSelector.MatchString(e.From) {
			return e.From
		}
	}
	return ""
}
