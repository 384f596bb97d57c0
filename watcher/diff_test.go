package watcher

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"lapse/timeline"
)

// lines are events without their instants, which diffs do not know.
func lines(events []timeline.Event) []string {
	var all []string
	for _, e := range events {
		all = append(all, line(e)[len("0s "):])
	}
	return all
}

func checkLines(t *testing.T, events []timeline.Event, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, lines(events)); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

func ourSelector(p *corev1.Pod) bool { return p.Labels["app"] == "web" }

func TestPodWithoutChangesThatMatterIsSilent(t *testing.T) {
	new := with(pod(1), func(p *corev1.Pod) { p.ResourceVersion = "7"; p.Annotations = map[string]string{"a": "b"} })
	checkLines(t, diffPod(pod(1), new, watched, ourSelector))
}

func TestPodIsFollowedFromItsCreation(t *testing.T) {
	pending := with(pod(1), func(p *corev1.Pod) {
		p.Spec.NodeName, p.Status = "", corev1.PodStatus{Phase: corev1.PodPending}
	})
	creating := with(pod(1), func(p *corev1.Pod) {
		p.Status.Phase, p.Status.PodIP = corev1.PodPending, ""
		unready(p)
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ContainerCreating"}}
	})
	checkLines(t, diffPod(nil, pending, watched, ourSelector), "pod-seen web-1 >Pending stamp=01 (watched)")
	checkLines(t, diffPod(pending, creating, watched, ourSelector),
		"pod-scheduled web-1 on=node1 >node1 stamp=02",
		"pod-ready web-1 on=node1 >false stamp=11 by=kubelet/node1",
		"pod-container web-1 on=node1 >waiting by=kubelet/node1 (app ContainerCreating)")
	checkLines(t, diffPod(creating, pod(1), watched, ourSelector),
		"pod-ready web-1 on=node1 addr=10.0.0.1 false>true stamp=04 by=kubelet/node1",
		"pod-container web-1 on=node1 addr=10.0.0.1 waiting>running stamp=03 by=kubelet/node1 (app)",
		"pod-phase web-1 on=node1 addr=10.0.0.1 Pending>Running")
}

func TestRestartBetweenTwoStatesOfAPodIsSeen(t *testing.T) {
	restarted := with(pod(1), func(p *corev1.Pod) {
		p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
			Name: "app", RestartCount: 1, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(21)}},
			LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 2, Reason: "Error", FinishedAt: at(20)}},
		}
	})
	checkLines(t, diffPod(pod(1), restarted, watched, ourSelector),
		"pod-container web-1 on=node1 addr=10.0.0.1 running>terminated exit=2 stamp=20 by=kubelet/node1 (app Error)",
		"pod-container web-1 on=node1 addr=10.0.0.1 terminated>running count=1 stamp=21 by=kubelet/node1 (app)")
	checkLines(t, diffPod(restarted, restarted, watched, ourSelector))
}

func TestCrashBetweenTwoWaitsIsSeen(t *testing.T) {
	waiting := func(restarts int32, second int) *corev1.Pod {
		return with(pod(1), func(p *corev1.Pod) {
			p.Status.ContainerStatuses[0] = corev1.ContainerStatus{
				Name: "app", RestartCount: restarts, State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "CrashLoopBackOff"}},
				LastTerminationState: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1, Reason: "Error", FinishedAt: at(second)}},
			}
		})
	}
	checkLines(t, diffPod(waiting(1, 20), waiting(2, 30), watched, ourSelector),
		"pod-container web-1 on=node1 addr=10.0.0.1 waiting>terminated exit=1 stamp=30 by=kubelet/node1 (app Error)",
		"pod-container web-1 on=node1 addr=10.0.0.1 terminated>waiting by=kubelet/node1 (app CrashLoopBackOff)")
}

func TestSidecarsAreContainersToo(t *testing.T) {
	sidecar := with(pod(1), func(p *corev1.Pod) {
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "mesh", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at(2)}}}}
	})
	checkLines(t, diffPod(pod(1), sidecar, watched, ourSelector),
		"pod-container web-1 on=node1 addr=10.0.0.1 >running stamp=02 by=kubelet/node1 (mesh)")
}

func TestDeletionIsReportedOnce(t *testing.T) {
	first := with(pod(1), deleted)
	again := with(with(pod(1), deleted), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(0)) })
	checkLines(t, diffPod(pod(1), first, watched, ourSelector), "pod-deleted web-1 on=node1 addr=10.0.0.1 grace=30s stamp=10")
	checkLines(t, diffPod(first, again, watched, ourSelector))
}

func TestPodThatLostItsLabelIsNoLongerSelected(t *testing.T) {
	unlabelled := with(pod(1), func(p *corev1.Pod) { p.Labels = nil })
	checkLines(t, diffPod(unlabelled, nil, watched, ourSelector), "pod-gone web-1 on=node1 addr=10.0.0.1 (no longer selected)")
}

// A watch of one selector sends a Pod that lost its label as deleted, with the labels it had. A Pod is only removed once
// its grace period is 0.
func TestDeletedPodHasNoGracePeriodLeft(t *testing.T) {
	forced := with(with(pod(1), deleted), func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = new(int64(0)) })
	checkLines(t, diffPod(forced, nil, watched, ourSelector), "pod-gone web-1 on=node1 addr=10.0.0.1")
	for name, relabelled := range map[string]*corev1.Pod{"running": pod(1), "terminating": with(pod(1), deleted)} {
		t.Run(name, func(t *testing.T) {
			checkLines(t, diffPod(relabelled, nil, watched, ourSelector), "pod-gone web-1 on=node1 addr=10.0.0.1 (no longer selected)")
			checkLines(t, diffPod(relabelled, nil, relisted, ourSelector), "pod-gone web-1 on=node1 addr=10.0.0.1 (relist)")
		})
	}
}

func TestEvictedPodNamesItsReason(t *testing.T) {
	failed := with(pod(1), func(p *corev1.Pod) { p.Status.Phase, p.Status.Reason = corev1.PodFailed, "Evicted" })
	checkLines(t, diffPod(pod(1), failed, watched, ourSelector), "pod-phase web-1 on=node1 addr=10.0.0.1 Running>Failed (Evicted)")
}

func TestEndpointStatesFollowTheConditions(t *testing.T) {
	published := discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(true)} // publishNotReadyAddresses
	for _, c := range []struct {
		conditions discoveryv1.EndpointConditions
		want       string
	}{
		{ready, timeline.EndpointReady},
		{notReady, timeline.EndpointNotReady},
		{terminatingServing, timeline.EndpointTerminatingServing},
		{terminating, timeline.EndpointTerminating},
		{discoveryv1.EndpointConditions{Ready: new(false)}, timeline.EndpointNotReady},
		{discoveryv1.EndpointConditions{Ready: new(false), Terminating: new(true)}, timeline.EndpointTerminatingServing},
		{published, timeline.EndpointReady},
	} {
		if got := stateOf(c.conditions); got != c.want {
			t.Errorf("%+v is %s, want %s", c.conditions, got, c.want)
		}
	}
}

// endpointsIn merges slices as the watcher does.
func endpointsIn(slices ...*discoveryv1.EndpointSlice) map[types.UID]*discoveryv1.EndpointSlice {
	all := map[types.UID]*discoveryv1.EndpointSlice{}
	for _, s := range slices {
		all[s.UID] = s
	}
	return all
}

func TestAddressInTwoSlicesIsOneEndpoint(t *testing.T) {
	one := merge(endpointsIn(slice("a", endpointOf(pod(1), ready))), "http")
	two := merge(endpointsIn(slice("a", endpointOf(pod(1), terminating)), slice("b", endpointOf(pod(1), ready))), "http")
	moved := merge(endpointsIn(slice("b", endpointOf(pod(1), ready))), "http")
	checkLines(t, diffEndpoints(one, two, watched))
	checkLines(t, diffEndpoints(two, moved, watched))
}

func TestAddressThatPassesToAnotherPodIsTwoEndpoints(t *testing.T) {
	heir := with(pod(2), func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.1" })
	before := merge(endpointsIn(slice("a", endpointOf(pod(1), terminating))), "http")
	after := merge(endpointsIn(slice("a", endpointOf(heir, notReady))), "http")
	checkLines(t, diffEndpoints(before, after, watched),
		"endpoint web-1 on=node1 addr=10.0.0.1 terminating>absent port=8080",
		"endpoint web-2 on=node1 addr=10.0.0.1 absent>not-ready port=8080")
}

func TestEndpointsOfOtherPortsAreNotOurs(t *testing.T) {
	metrics := with(slice("m", endpointOf(pod(1), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = new("metrics") })
	unnamed := with(slice("u", endpointOf(pod(2), ready)), func(s *discoveryv1.EndpointSlice) { s.Ports[0].Name = nil })
	if got := merge(endpointsIn(metrics, unnamed), "http"); len(got) != 0 {
		t.Errorf("endpoints of other ports: %v", got)
	}
	if got := merge(endpointsIn(metrics, unnamed), ""); len(got) != 1 {
		t.Errorf("endpoints of the unnamed port: %v, want one", got)
	}
}

func TestNodeIsFollowed(t *testing.T) {
	cordoned := with(node("node1"), func(n *corev1.Node) { n.Spec.Unschedulable = true })
	lost := with(node("node1"), func(n *corev1.Node) {
		n.Status.Conditions[0].Status, n.Status.Conditions[0].LastTransitionTime = corev1.ConditionUnknown, at(50)
	})
	checkLines(t, diffNode(node("node1"), cordoned, marksOf(nil)), "node-schedulable node1 true>false")
	checkLines(t, diffNode(node("node1"), lost, marksOf(nil)), "node-ready node1 true>unknown stamp=50")
	checkLines(t, diffNode(node("node1"), node("node1"), marksOf(nil)))
	checkLines(t, diffNode(node("node1"), nil, marksOf(nil)), "node-gone node1")
}

func TestEventStampsAreAsFineAsTheirNamesTell(t *testing.T) {
	nanos := "web-1.v2.00d8e5e1a6d4f4b9" // any name: what counts is after the last dot
	fine := at(7).Add(123456789)
	name := "web-1.v2." + hex(fine.UnixNano())
	for what, c := range map[string]struct {
		event *corev1.Event
		want  string
	}{
		"nanoseconds":     {event(name, "web-1", nothing), "07.123456789"},
		"happened again":  {event(name, "web-1", func(e *corev1.Event) { e.Count = 2 }), "07"},
		"far from stamps": {event(nanos, "web-1", nothing), "07"},
		"a UUID":          {event("web-1.4bd2e0f0-7d3c-4a8e-9d5b-0c2f6a1f2b3c", "web-1", nothing), "07"},
		"no dot":          {event("web", "web-1", nothing), "07"},
		"events.k8s.io": {event(name, "web-1", func(e *corev1.Event) {
			e.Count, e.LastTimestamp, e.EventTime = 0, metav1.Time{}, metav1.NewMicroTime(at(7).Time)
		}), "07.123456789"},
		"a series": {event(name, "web-1", func(e *corev1.Event) {
			e.Series = &corev1.EventSeries{Count: 3, LastObservedTime: metav1.NewMicroTime(at(9).Time)}
		}), "09"},
	} {
		if got := stampOf(c.event).UTC().Format("05.999999999"); got != c.want {
			t.Errorf("%s: %s, want %s", what, got, c.want)
		}
	}
}

func hex(n int64) string {
	const digits = "0123456789abcdef"
	var out []byte
	for ; n > 0; n >>= 4 {
		out = append(out, digits[n&15])
	}
	slices.Reverse(out)
	return string(out)
}

func TestEventThatHappenedAgainIsAnEventAgain(t *testing.T) {
	once := event("web-1.a", "web-1", nothing)
	twice := event("web-1.a", "web-1", func(e *corev1.Event) { e.Count = 2 })
	if n := len(diffEvent(once, twice)); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	if n := len(diffEvent(once, once)) + len(diffEvent(twice, nil)); n != 0 {
		t.Errorf("%d events of nothing", n)
	}
}

func TestReporterNamesTheClock(t *testing.T) {
	scheduler := event("web-1.a", "web-1", func(e *corev1.Event) {
		e.Source, e.ReportingController, e.ReportingInstance = corev1.EventSource{}, "default-scheduler", "default-scheduler-cp"
	})
	controller := event("web-1.a", "web-1", func(e *corev1.Event) { e.Source = corev1.EventSource{Component: "replicaset-controller"} })
	for want, e := range map[string]*corev1.Event{
		"kubelet/node1": event("web-1.a", "web-1", nothing), "default-scheduler/default-scheduler-cp": scheduler, "replicaset-controller": controller,
	} {
		if got := reporter(e); got != want {
			t.Errorf("reporter %s, want %s", got, want)
		}
	}
}
