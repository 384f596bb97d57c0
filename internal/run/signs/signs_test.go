package signs

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"lapse/timeline"
)

const s = time.Second

var node1 = timeline.Object{Kind: "Node", Name: "node1", UID: "n1", Node: "node1"}

func pod(name string) timeline.Object {
	return timeline.Object{Kind: "Pod", Name: name, UID: name, Node: "node1"}
}

func endpoint(of timeline.Object, from, to string) timeline.Event {
	return timeline.Event{Kind: timeline.EndpointChanged, Object: of, Service: "shop/web",
		Addr: netip.MustParseAddr("10.0.0.1"), From: from, To: to}
}

func workload(to string, w timeline.Workload) timeline.Event {
	return timeline.Event{Kind: timeline.SnapshotTaken, To: to, Object: timeline.Object{Kind: "Deployment", Name: "web", UID: "d"},
		Snapshot: &timeline.Snapshot{Workload: &w}}
}

func request(of timeline.Object, from, to string) timeline.Event {
	return timeline.Event{Kind: timeline.EvictionRequested, Object: of, From: from, To: to, Actor: "example.com/upgrade"}
}

func TestSigns(t *testing.T) {
	other := timeline.Object{Kind: "Node", Name: "node2", UID: "n2", Node: "node2"}
	taint := func(of timeline.Object, text string) timeline.Event {
		return timeline.Event{Kind: timeline.NodeTaint, From: "absent", To: "present", Object: of, Detail: text}
	}
	mark := func(of timeline.Object, text string) timeline.Event {
		return timeline.Event{Kind: timeline.NodeMarked, From: "absent", To: "present", Object: of, Detail: text}
	}
	condition := func(c corev1.NodeConditionType) string { return "condition " + string(c) }
	for _, test := range []struct {
		what  string
		event timeline.Event
		class Class
		name  string
	}{
		{"an endpoint that the first list has", endpoint(pod("b"), "", timeline.EndpointReady), None, ""},
		{"an endpoint that leaves", endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointTerminating), Now, "endpoint"},
		{"an endpoint that is not ready any more", endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointNotReady), Now, "endpoint"},
		{"an endpoint that comes", endpoint(pod("b"), timeline.EndpointAbsent, timeline.EndpointReady), Soon, "endpoint"},
		{"an endpoint that gets ready", endpoint(pod("b"), timeline.EndpointNotReady, timeline.EndpointReady), Soon, "endpoint"},
		{"an endpoint that comes and is not ready", endpoint(pod("b"), timeline.EndpointAbsent, timeline.EndpointNotReady), None, ""},
		{"an endpoint that was not ready and goes", endpoint(pod("b"), timeline.EndpointNotReady, timeline.EndpointAbsent), None, ""},
		{"an eviction", timeline.Event{Kind: timeline.PodDisrupted, Object: pod("a"), To: "EvictionByEvictionAPI"}, Now, "eviction"},
		{"an eviction of a Pod that is no endpoint", timeline.Event{Kind: timeline.PodDisrupted, Object: pod("b"), To: "DeletionByTaintManager"}, Soon, "eviction"},
		{"an EvictionRequest", request(pod("a"), "absent", "Eviction"), Soon, "eviction-request"},
		{"one that is renewed", request(pod("a"), "Withdrawn", "Eviction"), Soon, "eviction-request"},
		{"one that is withdrawn", request(pod("a"), "Eviction", "Withdrawn"), None, ""},
		{"one that is deleted", request(pod("a"), "Eviction", "absent"), None, ""},
		{"one that the first list has", request(pod("a"), "", "Eviction"), None, ""},
		{"a deletion", timeline.Event{Kind: timeline.PodDeleted, Object: pod("a")}, Now, "deletion"},
		{"a deletion of a Pod that serves nobody", timeline.Event{Kind: timeline.PodDeleted, Object: pod("job")}, None, ""},
		{"a cordon", timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node1}, Soon, "cordon"},
		{"an uncordon", timeline.Event{Kind: timeline.NodeSchedulable, From: "false", To: "true", Object: node1}, None, ""},
		{"a node that was cordoned before", timeline.Event{Kind: timeline.NodeSchedulable, To: "false", Object: node1}, None, ""},
		{"a cordon of a node without our Pods", timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: other}, None, ""},
		{"a node that is not ready", timeline.Event{Kind: timeline.NodeReady, From: "true", To: "unknown", Object: node1}, Now, "node-lost"},
		{"Karpenter", taint(node1, "karpenter.sh/disrupted:NoSchedule"), Soon, "taint"},
		{"cluster-autoscaler's candidate", taint(node1, "DeletionCandidateOfClusterAutoscaler=1700000000:PreferNoSchedule"), Planned, "taint"},
		{"cluster-autoscaler's scale down", taint(node1, "ToBeDeletedByClusterAutoscaler=1700000000:NoSchedule"), Soon, "taint"},
		{"Cluster API", taint(node1, "node.cluster.x-k8s.io/outdated-revision:PreferNoSchedule"), Planned, "taint"},
		{"EKS", taint(node1, "eks.amazonaws.com/nodegroup=unschedulable:NoSchedule"), Planned, "taint"},
		{"a taint with the key of EKS", taint(node1, "eks.amazonaws.com/nodegroup=blue:NoSchedule"), None, ""},
		{"a taint that evicts", taint(node1, "maintenance=now:NoExecute"), Soon, "taint"},
		{"a taint that does not", taint(node1, "node.kubernetes.io/memory-pressure:NoSchedule"), None, ""},
		{"a taint elsewhere", taint(other, "karpenter.sh/disrupted:NoSchedule"), None, ""},
		{"a drain that Kubernetes 1.37 announces", mark(node1, condition(corev1.NodeDrainInProgress)), Soon, "mark"},
		{"a maintenance that it plans", mark(node1, condition(corev1.NodeMaintenancePlanned)), Planned, "mark"},
		{"a drain elsewhere", mark(other, "condition DrainInProgress"), None, ""},
		{"a node that Kubernetes 1.37 shuts down", mark(node1, condition(corev1.NodeGracefulNodeShutdownInProgress)), Soon, "mark"},
		{"AKS", mark(node1, "condition VMEventScheduled"), Planned, "mark"},
		{"GKE", mark(node1, "label cloud.google.com/active-node-maintenance"), Soon, "mark"},
		{"a node that load balancers leave out", mark(node1, "label node.kubernetes.io/exclude-from-external-load-balancers"), Soon, "mark"},
		{"kured", mark(node1, "annotation weave.works/kured-reboot-in-progress"), Planned, "mark"},
		{"a rollout", workload(timeline.SnapshotChanged, timeline.Workload{Generation: 2, Replicas: 2}), Soon, "rollout"},
		{"a status", workload(timeline.SnapshotStatus, timeline.Workload{Generation: 2, Replicas: 2}), None, ""},
		{"an Event", timeline.Event{Kind: timeline.KubeEvent, Object: pod("a"), To: "Unhealthy"}, None, ""},
	} {
		var w Watch
		w.Event(endpoint(pod("a"), "", timeline.EndpointReady))
		sign := w.Event(test.event)
		if sign.Class != test.class || sign.Name != test.name || (sign.Text == "") != (test.class == None) {
			t.Errorf("%s: %+v", test.what, sign)
		}
	}
}

// The user's own signs count before those of the table.
func TestOwnSignsCountFirst(t *testing.T) {
	w := Watch{Own: []Mark{
		{"taint karpenter.sh/disrupted", Planned, "ours"},
		{"taint example.com/retire=now", Now, ""},
		{"label example.com/retire", Soon, "our-operator"},
	}}
	w.Event(endpoint(pod("a"), "", timeline.EndpointReady))
	for _, test := range []struct {
		kind   timeline.EventKind
		detail string
		want   Sign
	}{
		{timeline.NodeTaint, "karpenter.sh/disrupted:NoSchedule", Sign{Planned, "taint", "node node1 got the taint karpenter.sh/disrupted:NoSchedule (ours)", 0, 0, false}},
		{timeline.NodeTaint, "karpenter.sh/disrupted-too:NoSchedule", Sign{}},
		{timeline.NodeTaint, "example.com/retire=now:NoSchedule", Sign{Now, "taint", "node node1 got the taint example.com/retire=now:NoSchedule", 0, 0, false}},
		{timeline.NodeTaint, "example.com/retire=later:NoSchedule", Sign{}},
		{timeline.NodeMarked, "label example.com/retire", Sign{Soon, "mark", "node node1 got the label example.com/retire (our-operator)", 0, 0, false}},
		{timeline.NodeMarked, "annotation weave.works/kured-reboot-in-progress", Sign{Planned, "mark", "node node1 got the annotation weave.works/kured-reboot-in-progress (kured)", 0, 0, false}},
	} {
		if got := w.Event(timeline.Event{Kind: test.kind, From: "absent", To: "present", Object: node1, Detail: test.detail}); got != test.want {
			t.Errorf("%s: %+v, want %+v", test.detail, got, test.want)
		}
	}
	what := Marks(w.Own)
	if what[0] != "label example.com/retire" || len(what) != 1+len(Marks(nil)) || slices.ContainsFunc(what, func(s string) bool { return strings.HasPrefix(s, "taint") }) {
		t.Errorf("recorded in addition to taints: %q", what)
	}
}

// Who requested an eviction is named with it.
func TestASignNamesWhoMadeIt(t *testing.T) {
	var w Watch
	sign := w.Event(request(pod("web-1"), "absent", "Eviction"))
	if want := "the eviction of Pod web-1 was requested (example.com/upgrade)"; sign.Text != want {
		t.Errorf("%q, want %q", sign.Text, want)
	}
}

// A failed request is a sign only of what is judged, and none if the prober was at fault.
func TestAFailedRequestIsASign(t *testing.T) {
	batch := func(target timeline.TargetID, class timeline.Class) timeline.Batch {
		return timeline.Batch{Requests: []timeline.Request{{Target: target, Done: 3 * s, Outcome: timeline.Outcome{Class: class}}}}
	}
	judged := func(id timeline.TargetID) bool { return id == 1 }
	var w Watch
	for _, quiet := range []timeline.Batch{batch(1, timeline.OK), batch(1, timeline.NotSent), batch(1, timeline.Local), batch(2, timeline.Refused)} {
		if sign := w.Batch(quiet, judged); sign.Class != None || w.Last != 0 {
			t.Errorf("%+v is a sign: %+v", quiet, sign)
		}
	}
	if sign := w.Batch(batch(1, timeline.Refused), judged); sign.Class != Now || sign.Text != "a request failed (refused)" || w.Last != 3*s {
		t.Errorf("%+v, last %v", sign, w.Last)
	}
}

// A disruption is over when nothing has changed for a while, no Pod is ending or starting, and its rollouts are done.
func TestADisruptionSettles(t *testing.T) {
	at := func(seen time.Duration, e timeline.Event) timeline.Event {
		e.Seen = seen
		return e
	}
	rolled := func(observed int64, updated, available, existing int) timeline.Workload {
		return timeline.Workload{Generation: 2, Replicas: 2,
			Status: timeline.Replicas{Generation: observed, Updated: updated, Available: available, Existing: existing}}
	}
	for _, test := range []struct {
		what    string
		events  []timeline.Event
		settled time.Duration // when, with a quiet time of 10 s
	}{
		{"an endpoint that left", []timeline.Event{at(5*s, endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointAbsent))}, 15 * s},
		{"a Pod that takes a minute to end", []timeline.Event{
			at(5*s, timeline.Event{Kind: timeline.PodDeleted, Object: pod("a")}),
			at(65*s, timeline.Event{Kind: timeline.PodGone, Object: pod("a")}),
		}, 75 * s},
		{"a Pod that takes a minute to be ready", []timeline.Event{
			at(5*s, timeline.Event{Kind: timeline.PodSeen, Detail: "watched", Object: pod("b")}),
			at(65*s, timeline.Event{Kind: timeline.PodReady, To: "true", Object: pod("b")}),
		}, 75 * s},
		{"a rollout", []timeline.Event{
			at(5*s, workload(timeline.SnapshotChanged, rolled(1, 2, 2, 2))),
			at(6*s, workload(timeline.SnapshotStatus, rolled(2, 1, 2, 3))),
			at(60*s, workload(timeline.SnapshotStatus, rolled(2, 2, 2, 2))),
			at(60*s, endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointAbsent)),
		}, 70 * s},
		{"a Pod that has failed", []timeline.Event{
			at(5*s, timeline.Event{Kind: timeline.PodSeen, Detail: "watched", Object: pod("b")}),
			at(8*s, timeline.Event{Kind: timeline.PodPhase, To: "Failed", Object: pod("b")}),
		}, 18 * s},
		{"a Pod that was not ready before", []timeline.Event{
			at(1*s, timeline.Event{Kind: timeline.PodSeen, Detail: "listed", Object: pod("b")}),
			at(5*s, endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointAbsent)),
		}, 15 * s},
		{"a ready Pod that fails its probe, until its endpoint is lost", []timeline.Event{
			at(1*s, endpoint(pod("a"), "", timeline.EndpointReady)),
			at(5*s, timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false", Object: node1}),
			at(11*s, timeline.Event{Kind: timeline.KubeEvent, To: "Unhealthy", Object: pod("a")}),
			at(12*s, timeline.Event{Kind: timeline.KubeEvent, To: "Pulled", Object: pod("a")}),
			at(14*s, endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointNotReady)),
			at(15*s, timeline.Event{Kind: timeline.KubeEvent, To: "Unhealthy", Object: pod("a")}),
		}, 24 * s},
		{"a ready Pod that fails its probe once", []timeline.Event{
			at(1*s, endpoint(pod("a"), "", timeline.EndpointReady)),
			at(5*s, timeline.Event{Kind: timeline.PodDeleted, Object: pod("b")}),
			at(6*s, timeline.Event{Kind: timeline.PodGone, Object: pod("b")}),
			at(11*s, timeline.Event{Kind: timeline.KubeEvent, To: "Unhealthy", Object: pod("a")}),
			at(12*s, timeline.Event{Kind: timeline.KubeEvent, To: "Unhealthy", Object: pod("b")}),
		}, 21 * s},
	} {
		var w Watch
		for _, e := range test.events {
			w.Event(e)
		}
		if w.Settled(test.settled-1, 10*s) || !w.Settled(test.settled, 10*s) {
			t.Errorf("%s: last %v, %d under way", test.what, w.Last, w.UnderWay())
		}
	}
}

// A rollout is over when its controller has done what the spec asks for: its status is that of this spec, and has no more
// to come. What is paused, or before the partition of a StatefulSet, is not awaited.
func TestARolloutIsOver(t *testing.T) {
	is := func(observed int64, updated, available, existing int) timeline.Workload {
		return timeline.Workload{Generation: 2, Replicas: 3, Strategy: "RollingUpdate",
			Status: timeline.Replicas{Generation: observed, Updated: updated, Available: available, Existing: existing}}
	}
	with := func(w timeline.Workload, change func(*timeline.Workload)) timeline.Workload {
		change(&w)
		return w
	}
	partition := func(w *timeline.Workload) { w.Partition = 2 }
	paused := func(w *timeline.Workload) { w.Paused = true }
	onDelete := func(w *timeline.Workload) { w.Strategy = "OnDelete" }
	for _, test := range []struct {
		what          string
		changed, then timeline.Workload
		awaited       [2]bool // when its spec was changed, and then
	}{
		{"a rollout", is(1, 3, 3, 3), is(2, 1, 3, 4), [2]bool{true, true}},
		{"one that ends", is(1, 3, 3, 3), is(2, 3, 3, 3), [2]bool{true, false}},
		{"one that is first seen at its end", is(2, 3, 3, 3), is(2, 3, 3, 3), [2]bool{false, false}},
		{"a status of the spec before", is(1, 3, 2, 3), is(1, 3, 3, 3), [2]bool{true, true}},
		{"a status of a later spec", is(1, 3, 3, 3), is(3, 3, 3, 3), [2]bool{true, false}},
		{"a partition", with(is(1, 3, 3, 3), partition), with(is(2, 1, 3, 3), partition), [2]bool{true, false}},
		{"a partition, its Pod being replaced", with(is(1, 3, 3, 3), partition), with(is(2, 0, 2, 2), partition), [2]bool{true, true}},
		{"a partition, its Pod not yet ready", with(is(1, 3, 3, 3), partition), with(is(2, 1, 2, 3), partition), [2]bool{true, true}},
		{"a Deployment that is paused", with(is(1, 3, 3, 3), paused), with(is(2, 1, 3, 4), paused), [2]bool{true, false}},
		{"OnDelete", with(is(1, 3, 3, 3), onDelete), with(is(2, 0, 3, 3), onDelete), [2]bool{false, false}},
	} {
		var w Watch
		for i, e := range []timeline.Event{workload(timeline.SnapshotChanged, test.changed), workload(timeline.SnapshotStatus, test.then)} {
			w.Event(e)
			if got := w.UnderWay() > 0; got != test.awaited[i] {
				t.Errorf("%s: after event %d awaited is %v", test.what, i+1, got)
			}
		}
	}
}

// An endpoint that was lost and is back, as that of a node, announces nothing. That of a new Pod at its address does.
func TestAnEndpointThatIsBackIsNoSign(t *testing.T) {
	var w Watch
	for i, step := range []struct {
		from, to string
		class    Class
	}{
		{"", timeline.EndpointReady, None},
		{timeline.EndpointReady, timeline.EndpointNotReady, Now},
		{timeline.EndpointNotReady, timeline.EndpointReady, None},
		{timeline.EndpointReady, timeline.EndpointNotReady, Now},
		{timeline.EndpointNotReady, timeline.EndpointAbsent, None},
		{timeline.EndpointAbsent, timeline.EndpointNotReady, None},
		{timeline.EndpointNotReady, timeline.EndpointReady, Soon},
	} {
		if sign := w.Event(endpoint(pod("a"), step.from, step.to)); sign.Class != step.class {
			t.Errorf("step %d: from %q to %q is %+v", i, step.from, step.to, sign)
		}
	}
}

// An endpoint is lost again and again from the third time on, with less than 15 minutes between, until it is gone.
func TestAnEndpointIsLostAgainAndAgain(t *testing.T) {
	const minute = time.Minute
	for _, test := range []struct {
		what  string
		lost  []time.Duration
		gone  time.Duration // 0: never
		again int           // how many of the signs say so
		since time.Duration // at the last one; 0: it is not lost again and again
	}{
		{"twice", []time.Duration{1 * minute, 2 * minute}, 0, 0, 0},
		{"four times", []time.Duration{1 * minute, 2 * minute, 16 * minute, 30 * minute}, 0, 2, 1 * minute},
		{"after a pause", []time.Duration{1 * minute, 2 * minute, 17 * minute, 18 * minute}, 0, 0, 0},
		{"a pause, and three times", []time.Duration{1 * minute, 17 * minute, 18 * minute, 19 * minute}, 0, 1, 17 * minute},
		{"and is gone", []time.Duration{1 * minute, 2 * minute, 3 * minute, 5 * minute}, 4 * minute, 1, 0},
	} {
		var w Watch
		again, since := 0, time.Duration(0)
		for _, at := range test.lost {
			if test.gone > 0 && at > test.gone {
				w.Event(endpoint(pod("a"), timeline.EndpointNotReady, timeline.EndpointAbsent))
			}
			for _, e := range []timeline.Event{
				endpoint(pod("a"), timeline.EndpointNotReady, timeline.EndpointReady),
				endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointNotReady),
				endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointNotReady), // of another port
			} {
				e.Seen = at
				if w.Event(e).Again {
					again++
				}
			}
			_, since = w.Repeats(at)
		}
		if again/2 != test.again || since != test.since {
			t.Errorf("lost %s: %d signs, since %v", test.what, again/2, since)
		}
		last := test.lost[len(test.lost)-1]
		if text, _ := w.Repeats(last + 14*minute); (text != "") != (test.since > 0) {
			t.Errorf("lost %s, later: %q", test.what, text)
		}
		if text, _ := w.Repeats(last + 15*minute); text != "" {
			t.Errorf("lost %s, long after: %q", test.what, text)
		}
	}
	var w Watch
	for range 3 {
		w.Event(endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointNotReady))
		w.Event(endpoint(pod("a"), timeline.EndpointNotReady, timeline.EndpointReady))
	}
	if sign := w.Event(endpoint(pod("a"), timeline.EndpointReady, timeline.EndpointTerminating)); sign.Class != Now || sign.Again {
		t.Errorf("a Pod that is ended then: %+v", sign)
	}
	if text, _ := w.Repeats(0); text != "the endpoint of a is lost again and again since " || !Lasts(text+"then") || Lasts("a request failed") {
		t.Errorf("for people: %q", text)
	}
}

// What is forgotten is not awaited, and what its containers do is no change.
func TestNodesThatAreGoneAreForgotten(t *testing.T) {
	var w Watch
	for n := range 100 {
		of := pod(fmt.Sprint("web-", n))
		of.Node = fmt.Sprint("node", n)
		w.Event(endpoint(of, timeline.EndpointAbsent, timeline.EndpointReady))
		w.Event(endpoint(of, timeline.EndpointReady, timeline.EndpointAbsent))
	}
	if len(w.on) > 0 {
		t.Errorf("%d nodes without an endpoint are kept", len(w.on))
	}
}

func TestWhatIsForgottenIsNotAwaited(t *testing.T) {
	var w Watch
	container := timeline.Event{Kind: timeline.PodContainer, Object: pod("b"), From: "waiting", To: "running"}
	for _, e := range []timeline.Event{
		workload(timeline.SnapshotChanged, timeline.Workload{Replicas: 2}),
		{Kind: timeline.PodSeen, Detail: "watched", Object: pod("b")},
		{Kind: timeline.PodDeleted, Object: pod("a")},
		container,
	} {
		w.Event(e)
	}
	if w.UnderWay() != 3 {
		t.Errorf("%d under way", w.UnderWay())
	}
	w.Forget()
	last := func(seen time.Duration, e timeline.Event) time.Duration {
		e.Seen = seen
		w.Event(e)
		return w.Last
	}
	if at := last(20*s, container); at != 0 || !w.Settled(20*s, 10*s) {
		t.Errorf("then the last change was at %v, %d under way", at, w.UnderWay())
	}
	if at := last(30*s, timeline.Event{Kind: timeline.PodReady, To: "true", Object: pod("b")}); at != 30*s {
		t.Errorf("the last change was at %v", at)
	}
	if at := last(40*s, container); at != 40*s {
		t.Errorf("after it was ready the last change was at %v", at)
	}
}
