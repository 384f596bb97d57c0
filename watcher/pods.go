package watcher

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
	"lapse/watcher/internal/snapshot"
)

// A podReflector watches the Pods that the Services select.
type podReflector struct {
	reflector[*corev1.Pod]
	selectors []selector
}

// podReflector returns the reflector of the namespace's Pods. It sends to listed, without waiting, when it has a whole
// list.
func (n *namespace) podReflector(listed chan<- struct{}) *podReflector {
	p := &podReflector{}
	p.reflector = reflector[*corev1.Pod]{
		kind:     "Pod",
		resource: "pods",
		source:   from(n.Client.Pods(n.name)),
		wanted:   p.selected,
		services: n.keys(),
		in:       n.name,
		change: func(old, new *corev1.Pod, how origin) []timeline.Event {
			events := diffPod(old, new, how, p.selected)
			switch {
			case old == nil:
				known, template := n.come(new, how)
				events = slices.Concat(events[:1], template, events[1:], n.about(known.subjects...))
			case new == nil:
				n.goes(old)
			}
			return events
		},
		flush: func(how origin) []timeline.Event {
			if how != watched {
				select {
				case listed <- struct{}{}:
				default:
				}
			}
			return nil
		},
		w: n.watcher,
	}
	return p
}

// selected reports whether a Service selects the Pod.
func (p *podReflector) selected(pod *corev1.Pod) bool {
	return slices.ContainsFunc(p.selectors, func(s selector) bool { return s.matches(pod.Namespace, pod.Labels) })
}

// selects reports whether the reflector follows these selectors already.
func (p *podReflector) selects(selectors []selector) bool {
	return slices.Equal(distinct(p.selectors, selector.String), distinct(selectors, selector.String))
}

func distinct(selectors []selector, text func(selector) string) []string {
	var all []string
	for _, s := range selectors {
		all = append(all, text(s))
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// follows sets other selectors and makes the reflector begin again with a list. It keeps the known Pods, so that Pods
// that both select are not new. The API server applies a single selector; it cannot take several.
func (p *podReflector) follows(selectors []selector) {
	p.selectors, p.options.LabelSelector = selectors, ""
	if one := distinct(selectors, func(s selector) string { return s.labels.String() }); len(one) == 1 {
		p.options.LabelSelector = one[0]
	}
	p.restart()
}

// diffPod returns an event for each change from a Pod's old state to its new one. old is nil for a new Pod. new is nil
// if the Pod is gone or no longer selected; old is then its last state that is known.
func diffPod(old, new *corev1.Pod, how origin, selected func(*corev1.Pod) bool) []timeline.Event {
	if new == nil {
		return []timeline.Event{podGone(old, how, selected)}
	}
	var events []timeline.Event
	if old == nil {
		events = append(events, podSeen(new, how))
		old = &corev1.Pod{}
	}
	events = append(events, diffScheduled(old, new)...)
	events = append(events, diffDisrupted(old, new)...)
	events = append(events, diffDeleted(old, new)...)
	events = append(events, diffReady(old, new)...)
	events = append(events, diffContainers(old, new)...)
	if old.Status.Phase != "" && old.Status.Phase != new.Status.Phase {
		events = append(events, podEvent(new, timeline.Event{
			Kind:   timeline.PodPhase,
			From:   string(old.Status.Phase),
			To:     string(new.Status.Phase),
			Detail: new.Status.Reason,
		}))
	}
	return events
}

// podEvent completes an event about a Pod.
func podEvent(pod *corev1.Pod, e timeline.Event) timeline.Event {
	e.Object = objectOf("Pod", pod)
	e.Object.Node = pod.Spec.NodeName
	if addr, err := netip.ParseAddr(pod.Status.PodIP); err == nil {
		e.Addr = addr
	}
	if e.Writer == "" {
		e.Writer = apiserver
	}
	return e
}

func podSeen(pod *corev1.Pod, how origin) timeline.Event {
	detail := "watched"
	if how == listed {
		detail = "listed"
	}
	return podEvent(pod, timeline.Event{
		Kind:     timeline.PodSeen,
		To:       string(pod.Status.Phase),
		Stamp:    pod.CreationTimestamp.Time,
		Detail:   detail,
		Owner:    snapshot.Owner(pod),
		Template: snapshot.Template(pod).ID,
	})
}

func podGone(pod *corev1.Pod, how origin, selected func(*corev1.Pod) bool) timeline.Event {
	e := timeline.Event{Kind: timeline.PodGone}
	switch {
	case !selected(pod), how == watched && !removable(pod):
		e.Detail = timeline.NoLongerSelected
	case how != watched:
		e.Detail = "relist"
	}
	return podEvent(pod, e)
}

// removable reports whether the API server may remove a Pod in this state. First it sets deletionTimestamp, and a grace
// period of 0, even if the deletion is forced. A watch with a label selector also says that a Pod was deleted if it has
// lost the labels, and sends the state before.
//   - https://github.com/kubernetes/apiserver/blob/master/pkg/registry/rest/delete.go
//   - https://github.com/kubernetes/apiserver/blob/master/pkg/storage/cacher/cache_watcher.go
func removable(pod *corev1.Pod) bool {
	grace := pod.DeletionGracePeriodSeconds
	return pod.DeletionTimestamp != nil && (grace == nil || *grace == 0)
}

func diffScheduled(old, new *corev1.Pod) []timeline.Event {
	if old.Spec.NodeName == new.Spec.NodeName {
		return nil
	}
	e := timeline.Event{Kind: timeline.PodScheduled, To: new.Spec.NodeName}
	if c := condition(new, corev1.PodScheduled); c != nil {
		e.Stamp = c.LastTransitionTime.Time
	}
	return []timeline.Event{podEvent(new, e)}
}

// diffDeleted returns an event if deletion was requested. deletionTimestamp is the end of the grace period.
// https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/object-meta/#ObjectMeta
func diffDeleted(old, new *corev1.Pod) []timeline.Event {
	if new.DeletionTimestamp == nil || old.DeletionTimestamp != nil {
		return nil
	}
	e := timeline.Event{Kind: timeline.PodDeleted, Stamp: new.DeletionTimestamp.Time}
	if grace := new.DeletionGracePeriodSeconds; grace != nil {
		length := time.Duration(*grace) * time.Second
		e.Grace, e.Stamp = &length, e.Stamp.Add(-length)
	}
	return []timeline.Event{podEvent(new, e)}
}

// diffDisrupted returns an event if the condition DisruptionTarget announces that the Pod is about to be ended.
// https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions
func diffDisrupted(old, new *corev1.Pod) []timeline.Event {
	was, is := condition(old, corev1.DisruptionTarget), condition(new, corev1.DisruptionTarget)
	if is == nil || is.Status != corev1.ConditionTrue {
		return nil
	}
	if was != nil && was.Status == is.Status && was.Reason == is.Reason {
		return nil
	}
	return []timeline.Event{podEvent(new, timeline.Event{
		Kind:   timeline.PodDisrupted,
		To:     is.Reason,
		Detail: is.Message,
		Stamp:  is.LastTransitionTime.Time,
	})}
}

func diffReady(old, new *corev1.Pod) []timeline.Event {
	was, is := condition(old, corev1.PodReady), condition(new, corev1.PodReady)
	if is == nil || was != nil && was.Status == is.Status {
		return nil
	}
	e := timeline.Event{
		Kind:   timeline.PodReady,
		To:     strings.ToLower(string(is.Status)),
		Stamp:  is.LastTransitionTime.Time,
		Writer: kubelet(new),
		Detail: is.Reason,
	}
	if was != nil {
		e.From = strings.ToLower(string(was.Status))
	}
	return []timeline.Event{podEvent(new, e)}
}

func condition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if c := &pod.Status.Conditions[i]; c.Type == kind {
			return c
		}
	}
	return nil
}

// kubelet returns the name of the clock of a Pod's kubelet.
func kubelet(pod *corev1.Pod) string { return "kubelet/" + pod.Spec.NodeName }

// diffContainers returns an event for each container that started or ended, init containers and sidecars included. If
// a container ended and started again between two states of the Pod, lastState has its end.
func diffContainers(old, new *corev1.Pod) []timeline.Event {
	var events []timeline.Event
	before := statuses(old)
	for _, is := range statuses(new) {
		var was corev1.ContainerStatus
		if i := slices.IndexFunc(before, func(s corev1.ContainerStatus) bool { return s.Name == is.Name }); i >= 0 {
			was = before[i]
		}
		from, ended := was.State, is.LastTerminationState
		restarted := word(from) != "" && is.RestartCount > was.RestartCount
		if restarted && ended.Terminated != nil && differ(from, ended) {
			events = append(events, containerEvent(new, is, from, ended))
			from = ended
		}
		if differ(from, is.State) {
			events = append(events, containerEvent(new, is, from, is.State))
		}
	}
	return events
}

func statuses(pod *corev1.Pod) []corev1.ContainerStatus {
	return slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses)
}

// differ reports whether a container has another state, or has entered the same state again.
func differ(from, to corev1.ContainerState) bool {
	switch {
	case word(from) != word(to):
		return true
	case to.Running != nil:
		return !from.Running.StartedAt.Equal(&to.Running.StartedAt)
	case to.Terminated != nil:
		return !from.Terminated.FinishedAt.Equal(&to.Terminated.FinishedAt)
	}
	return false
}

func word(s corev1.ContainerState) string {
	switch {
	case s.Running != nil:
		return "running"
	case s.Terminated != nil:
		return "terminated"
	case s.Waiting != nil:
		return "waiting"
	}
	return ""
}

func containerEvent(pod *corev1.Pod, status corev1.ContainerStatus, from, to corev1.ContainerState) timeline.Event {
	e := timeline.Event{
		Kind:   timeline.PodContainer,
		From:   word(from),
		To:     word(to),
		Writer: kubelet(pod),
		Detail: status.Name,
	}
	switch {
	case to.Running != nil:
		e.Stamp, e.Count = to.Running.StartedAt.Time, int(status.RestartCount)
	case to.Terminated != nil:
		e.Stamp, e.ExitCode = to.Terminated.FinishedAt.Time, new(int(to.Terminated.ExitCode))
		e.Detail = strings.TrimSpace(fmt.Sprintf("%s %s", status.Name, to.Terminated.Reason))
	case to.Waiting != nil:
		e.Detail = strings.TrimSpace(fmt.Sprintf("%s %s", status.Name, to.Waiting.Reason))
	}
	return podEvent(pod, e)
}
