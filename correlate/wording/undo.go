package wording

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"lapse/correlate/model"
	"lapse/timeline"
)

// This file says how to undo what set an incident off, while it goes on, and how to keep it from coming back.

// undoable are the causes that go away when the change that made them is undone. Where routes outlive Pods, or Pods are
// ready too early, undoing a rollout makes the same loss once more.
var undoable = []string{"no-ready-endpoint", "selector-switch", "failing-version", "pod-crashed"}

// undo says what to do while requests still fail, and the command that does it; "" if nothing is known to help.
func (in *incident) undo() (text, command string) {
	if !in.isGoingOn() || len(in.Triggers) != 1 || len(in.Causes) == 0 || in.Causes[0].Confidence == model.Low ||
		!slices.Contains(undoable, in.Causes[0].Rule) {
		return "", ""
	}
	t := &in.Triggers[0]
	switch {
	case !safeName.MatchString(t.Object.Namespace) || !safeName.MatchString(t.Object.Name):
		return "", ""
	case t.Kind == model.RolledOut && in.canBeRolledBack(t.Object):
		return "if it still fails, first undo the rollout, which replaces Pods once more",
			fmt.Sprintf("kubectl -n %s rollout undo deployment/%s", t.Object.Namespace, t.Object.Name)
	case t.Kind == model.ServiceChanged && in.Causes[0].Rule == "selector-switch":
		if before := in.run.selectorBefore(t); before != "" {
			return "if it still fails, first put the selector back, if Pods with its labels are still ready",
				fmt.Sprintf("kubectl -n %s set selector service %s %s", t.Object.Namespace, t.Object.Name, before)
		}
	}
	return "", ""
}

// canBeRolledBack reports whether undoing the rollout of a workload brings back what served before the incident: it is
// a Deployment that no rollout was changing when it was first seen, and its spec was changed once since then, before
// the incident began, and not by kubectl rollout, whose restart keeps the program. Undoing a second change would bring
// back the first. A StatefulSet waits for its broken Pod even then:
// https://kubernetes.io/docs/concepts/workloads/controllers/statefulset/#forced-rollback
func (in *incident) canBeRolledBack(of timeline.Object) bool {
	var first, last *timeline.Workload
	var change *model.Event
	for i := range in.run.tl.Events {
		e := &in.run.tl.Events[i]
		if e.Snapshot == nil || e.Snapshot.Workload == nil || e.Object.Kind != of.Kind ||
			e.Object.Namespace != of.Namespace || e.Object.Name != of.Name {
			continue
		}
		last = e.Snapshot.Workload
		first = cmp.Or(first, last)
		if change == nil && last.Generation != first.Generation {
			change = e
		}
	}
	return of.Kind == "Deployment" && change != nil && last.Generation == first.Generation+1 &&
		first.Status.Updated == first.Status.Existing &&
		change.At.Latest <= in.Start.Latest && change.Actor != "kubectl-rollout"
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
