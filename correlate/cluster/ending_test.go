package cluster

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

func TestWhoEndedAPod(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-5d9c7b8f4x-aaaaa", UID: "u1", Node: "node2"}
	at := func(seconds int, e model.Event) model.Event {
		e.ID, e.Seen = uint32(seconds), time.Duration(seconds)*time.Second
		e.At = model.Instant{Earliest: e.Seen - time.Second, Latest: e.Seen}
		if e.Object.IsZero() {
			e.Object = pod
		}
		return e
	}
	workload := func(seconds int, kind, name, owner string, replicas int) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken,
			Object:   timeline.Object{Kind: kind, Namespace: "shop", Name: name},
			Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Owner: owner, Replicas: replicas}}}})
	}
	deleted := at(20, model.Event{Event: timeline.Event{Kind: timeline.PodDeleted}})
	byController := at(21, model.Event{Event: timeline.Event{Kind: timeline.KubeEvent, To: "SuccessfulDelete", Detail: "Deleted pod: " +
		pod.Name, Object: timeline.Object{Kind: "ReplicaSet", Namespace: "shop", Name: "web-5d9c7b8f4x"}}})
	disrupted := func(reason, message string) model.Event {
		return at(19, model.Event{Event: timeline.Event{Kind: timeline.PodDisrupted, To: reason, Detail: message}})
	}
	taint := func(seconds int, node, taint string) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.NodeTaint, From: "absent", To: "present", Detail: taint,
			Object: timeline.Object{Kind: "Node", Name: node}}})
	}
	newer := at(15, model.Event{Event: timeline.Event{Kind: timeline.PodSeen, Owner: "ReplicaSet/web-6xxxxxxxxx", Template: "t2",
		Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-6xxxxxxxxx-bbbbb", UID: "u2"}}})
	crash := at(10, model.Event{Event: timeline.Event{Kind: timeline.PodContainer, From: "running", To: "terminated",
		Detail: "main OOMKilled", ExitCode: new(137)}})
	for _, tt := range []struct {
		name   string
		events []model.Event
		by     model.EndedBy
		text   string
	}{
		{"nothing", nil, "", ""},
		{"a drain",
			[]model.Event{at(18, model.Event{Event: timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false",
				Object: timeline.Object{Kind: "Node", Name: "node2"}}}), disrupted("EvictionByEvictionAPI", ""),
				deleted},
			model.ByEviction, "evicted through the API, node2 being cordoned (a drain)"},
		{"a drain by an autoscaler", []model.Event{taint(18, "node2", "ToBeDeletedByClusterAutoscaler=1764458372:NoSchedule"),
			disrupted("EvictionByEvictionAPI", ""), deleted}, model.ByEviction,
			"evicted through the API, node2 being tainted with ToBeDeletedByClusterAutoscaler (a drain)"},
		{"another node's drain",
			[]model.Event{at(18, model.Event{Event: timeline.Event{Kind: timeline.NodeSchedulable, From: "true", To: "false",
				Object: timeline.Object{Kind: "Node", Name: "node3"}}}), disrupted("EvictionByEvictionAPI", ""),
				deleted},
			model.ByEviction, "evicted through the API"},
		{"node pressure", []model.Event{disrupted("TerminationByKubelet", "The node was low on resource: memory.")},
			model.ByKubelet, "ended by its kubelet: The node was low on resource: memory"},
		{"preemption", []model.Event{disrupted("PreemptionByScheduler", ""), deleted}, model.ByScheduler,
			"preempted by the scheduler, for a Pod of higher priority"},
		{"a taint", []model.Event{disrupted("DeletionByTaintManager", ""), deleted}, model.ByTaint,
			"evicted because its node was tainted"},
		{"which taint", []model.Event{taint(5, "node2", "old=yes:NoExecute"),
			taint(16, "node2", "maintenance=soon:NoExecute"), taint(17, "node2", "other:NoSchedule"),
			taint(18, "node3", "x:NoExecute"), disrupted("DeletionByTaintManager", ""), deleted}, model.ByTaint,
			"evicted because its node was tainted (maintenance=soon:NoExecute)"},
		{"a taint, by an Event only",
			[]model.Event{at(19, model.Event{Event: timeline.Event{Kind: timeline.KubeEvent, To: "TaintManagerEviction",
				Detail: "Marking for deletion Pod shop/" + pod.Name}}), deleted}, model.ByTaint,
			"evicted because its node was tainted"},
		{"a taint that was taken back",
			[]model.Event{at(19, model.Event{Event: timeline.Event{Kind: timeline.KubeEvent, To: "TaintManagerEviction",
				Detail: "Cancelling deletion of Pod shop/" + pod.Name}}), deleted}, model.ByRequest, "deleted"},
		{"preemption, by an Event only",
			[]model.Event{at(19, model.Event{Event: timeline.Event{Kind: timeline.KubeEvent, To: "Preempted",
				Detail: "Preempted by pod u9 on node node2"}}), deleted}, model.ByScheduler,
			"preempted by the scheduler, for a Pod of higher priority"},
		{"a reason that is not known", []model.Event{disrupted("SomethingNew", ""), deleted}, model.ByRequest,
			"ended, as it says, for SomethingNew"},
		{"evicted by its kubelet",
			[]model.Event{crash,
				at(11, model.Event{Event: timeline.Event{Kind: timeline.PodPhase, From: "Running", To: "Failed", Detail: "Evicted"}}),
				deleted},
			model.ByKubelet, "ended by its kubelet: the node was short of memory, disk or processes (Evicted)"},
		{"a node that shut down",
			[]model.Event{at(11, model.Event{Event: timeline.Event{Kind: timeline.PodPhase, From: "Running", To: "Failed",
				Detail: "Terminated"}})}, model.ByKubelet, "ended by its kubelet: the node was shutting down " +
				"(Terminated)"},
		{"failed by itself",
			[]model.Event{crash, at(11, model.Event{Event: timeline.Event{Kind: timeline.PodPhase, From: "Running", To: "Failed"}})},
			model.ByItself, "its container main ended by itself, exit code 137 (OOMKilled)"},
		{"scaled", []model.Event{workload(1, "ReplicaSet", "web-5d9c7b8f4x", "Deployment/web", 3),
			workload(2, "Deployment", "web", "", 3), workload(19, "Deployment", "web", "", 0), deleted, byController},
			model.ByScaling, "deleted because Deployment web was scaled from 3 to 0"},
		{"scaled, of a Deployment that is known by its name only",
			[]model.Event{workload(2, "Deployment", "web", "", 3), workload(19, "Deployment", "web", "", 0), deleted,
				byController}, model.ByScaling, "deleted because Deployment web was scaled from 3 to 0"},
		{"scaled up before", []model.Event{workload(2, "Deployment", "web", "", 1),
			workload(9, "Deployment", "web", "", 3), newer, deleted, byController}, model.ByRollout,
			"replaced in a rollout of Deployment web"},
		{"scaled later", []model.Event{workload(2, "Deployment", "web", "", 3), deleted, byController,
			workload(30, "Deployment", "web", "", 0)}, "deleted", "deleted by ReplicaSet web-5d9c7b8f4x"},
		{"by hand", []model.Event{workload(2, "Deployment", "web", "", 3), deleted}, model.ByRequest, "deleted"},
		{"by force", []model.Event{at(20, model.Event{Event: timeline.Event{Kind: timeline.PodDeleted, Grace: new(time.Duration(0))}})},
			model.ByRequest, "deleted by force (grace period 0)"},
		{"a crash", []model.Event{crash}, model.ByItself, "its container main ended by itself, exit code 137 " +
			"(OOMKilled)"},
		{"crashes", []model.Event{crash, at(12, *new(crash)), at(14, *new(crash))}, model.ByItself,
			"its container main ended by itself, exit code 137 (OOMKilled), 3 times"},
		{"a crash before its deletion", []model.Event{crash, deleted}, model.ByRequest, "deleted"},
	} {
		seen := at(1, model.Event{Event: timeline.Event{Kind: timeline.PodSeen, Owner: "ReplicaSet/web-5d9c7b8f4x", Template: "t1"}})
		pods := Lifecycles(&model.Timeline{Events: append([]model.Event{seen}, tt.events...)}, nil)
		got := model.Ending{}
		if pods[0].Ending != nil {
			got = *pods[0].Ending
		}
		if got.By != tt.by || got.Text != tt.text {
			t.Errorf("%s: %s: %q, want %s: %q", tt.name, got.By, got.Text, tt.by, tt.text)
		}
	}
}

// What makes a Pod is told by owner references, snapshots and Events, never by names.
func TestEveryKindOfOwnerIsKnownToHaveRolledOutOrScaled(t *testing.T) {
	at := func(seconds int, e model.Event) model.Event {
		e.ID, e.Seen = uint32(seconds), time.Duration(seconds)*time.Second
		e.At = model.Instant{Earliest: e.Seen - time.Second, Latest: e.Seen}
		return e
	}
	object := func(kind, name string) timeline.Object {
		return timeline.Object{Kind: kind, Namespace: "shop", Name: name, UID: "uid-" + name, Node: "node2"}
	}
	pod := func(seconds int, name, owner, template string) model.Event {
		e := at(seconds, model.Event{Event: timeline.Event{Kind: timeline.PodSeen, Owner: owner, Template: template,
			Object: object("Pod", name)}})
		if seconds == 1 {
			e.At.Earliest = model.Unbounded
		}
		return e
	}
	workload := func(seconds int, kind, name, owner string, replicas int) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, Object: object(kind, name),
			Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Owner: owner, Replicas: replicas}}}})
	}
	says := func(kind, name, message string) model.Event {
		return at(21, model.Event{Event: timeline.Event{Kind: timeline.KubeEvent, To: "SuccessfulDelete", Detail: message,
			Object: object(kind, name)}})
	}
	cordon := func(seconds int, from, to string) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.NodeSchedulable, From: from, To: to,
			Object: timeline.Object{Kind: "Node", Name: "node2"}}})
	}
	taint := func(seconds int, from, to string) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.NodeTaint, From: from, To: to,
			Detail: "karpenter.sh/disrupted:NoSchedule", Object: timeline.Object{Kind: "Node", Name: "node2"}}})
	}
	gone := func(seconds int) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.NodeGone,
			Object: timeline.Object{Kind: "Node", Name: "node2"}}})
	}
	removed := func(seconds int, name string) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.PodDeleted, Object: object("Pod", name)}})
	}
	becomesReady := func(seconds int, name string) model.Event {
		return at(seconds, model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, From: timeline.EndpointNotReady,
			To: timeline.EndpointReady, Object: object("Pod", name), Service: "shop/web"}})
	}
	deleted := removed(20, "a")
	again := func(name, owner, template string) model.Event { // another Pod of the name
		e := pod(10, name, owner, template)
		e.Object.UID += "-2"
		return e
	}
	collected := at(60, model.Event{Event: timeline.Event{Kind: timeline.PodDisrupted, To: "DeletionByPodGC", Object: object("Pod", "a")}})
	evicted := at(19, model.Event{Event: timeline.Event{Kind: timeline.PodDisrupted, To: "EvictionByEvictionAPI", Object: object("Pod", "a")}})
	for name, tt := range map[string]struct {
		events []model.Event
		by     model.EndedBy
		of     string
	}{
		"a StatefulSet's rollout": {[]model.Event{pod(1, "a", "StatefulSet/db", "t1"), deleted,
			says("StatefulSet", "db", "delete Pod a in StatefulSet db successful"),
			pod(25, "b", "StatefulSet/db", "t2")}, model.ByRollout, "StatefulSet/db"},
		"a StatefulSet was scaled": {[]model.Event{pod(1, "a", "StatefulSet/db", "t1"),
			workload(2, "StatefulSet", "db", "", 3), workload(19, "StatefulSet", "db", "", 1), deleted,
			says("StatefulSet", "db", "delete Pod a in StatefulSet db successful")}, model.ByScaling, "StatefulSet/db"},
		"a StatefulSet's rollout after it was deleted by hand": {[]model.Event{pod(1, "a", "StatefulSet/db", "t1"), removed(8, "a"),
			again("a", "StatefulSet/db", "t1"), says("StatefulSet", "db", "delete Pod a in StatefulSet db successful"),
			pod(25, "b", "StatefulSet/db", "t2")}, model.ByRequest, ""},
		"a DaemonSet's rollout": {[]model.Event{pod(1, "a", "DaemonSet/agent", "t1"),
			deleted, says("DaemonSet", "agent", "Deleted pod: a"), pod(25, "b", "DaemonSet/agent", "t2")},
			model.ByRollout, "DaemonSet/agent"},
		"an Argo Rollout": {[]model.Event{pod(1, "a", "ReplicaSet/shop-1", "t1"),
			workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3), workload(3, "ReplicaSet", "shop-2", "Rollout/shop",
				0), pod(15, "b", "ReplicaSet/shop-2", "t2"), deleted, says("ReplicaSet", "shop-1", "Deleted pod: a")},
			model.ByRollout, "Rollout/shop"},
		"an Argo Rollout was scaled": {[]model.Event{pod(1, "a", "ReplicaSet/shop-1", "t1"),
			workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3),
			workload(19, "ReplicaSet", "shop-1", "Rollout/shop", 1), deleted,
			says("ReplicaSet", "shop-1", "Deleted pod: a")}, model.ByScaling, "ReplicaSet/shop-1"},
		"an Argo Rollout was scaled while its canary is paused": {[]model.Event{pod(1, "a", "ReplicaSet/shop-1", "t1"),
			pod(1, "b", "ReplicaSet/shop-2", "t2"), workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3),
			workload(2, "ReplicaSet", "shop-2", "Rollout/shop", 1), workload(19, "ReplicaSet", "shop-1", "Rollout/shop", 2),
			deleted, says("ReplicaSet", "shop-1", "Deleted pod: a")}, model.ByScaling, "ReplicaSet/shop-1"},
		"an Argo Rollout's canary was aborted": {[]model.Event{pod(1, "a", "ReplicaSet/shop-2", "t2"),
			pod(1, "b", "ReplicaSet/shop-1", "t1"), workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3),
			workload(2, "ReplicaSet", "shop-2", "Rollout/shop", 1), workload(19, "ReplicaSet", "shop-2", "Rollout/shop", 0),
			deleted, says("ReplicaSet", "shop-2", "Deleted pod: a")}, model.ByRollout, "Rollout/shop"},
		"an Argo Rollout's canary goes on": {[]model.Event{pod(1, "a", "ReplicaSet/shop-1", "t1"),
			pod(1, "b", "ReplicaSet/shop-2", "t2"), workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3),
			workload(2, "ReplicaSet", "shop-2", "Rollout/shop", 1), pod(18, "c", "ReplicaSet/shop-2", "t2"),
			workload(19, "ReplicaSet", "shop-1", "Rollout/shop", 2), deleted,
			says("ReplicaSet", "shop-1", "Deleted pod: a")}, model.ByRollout, "Rollout/shop"},
		"an Argo Rollout's canary is ready after minutes": {[]model.Event{pod(1, "a", "ReplicaSet/shop-1", "t1"),
			pod(1, "b", "ReplicaSet/shop-2", "t2"), workload(2, "ReplicaSet", "shop-1", "Rollout/shop", 3),
			workload(2, "ReplicaSet", "shop-2", "Rollout/shop", 1), becomesReady(18, "b"),
			workload(19, "ReplicaSet", "shop-1", "Rollout/shop", 2), deleted,
			says("ReplicaSet", "shop-1", "Deleted pod: a")}, model.ByRollout, "Rollout/shop"},
		"a bare ReplicaSet was scaled": {[]model.Event{pod(1, "a", "ReplicaSet/plain", "t1"),
			workload(2, "ReplicaSet", "plain", "", 3), workload(19, "ReplicaSet", "plain", "", 1), deleted,
			says("ReplicaSet", "plain", "Deleted pod: a")}, model.ByScaling, "ReplicaSet/plain"},
		"Events were combined": {[]model.Event{pod(1, "a", "ReplicaSet/plain", "t1"),
			workload(2, "ReplicaSet", "plain", "", 30), workload(19, "ReplicaSet", "plain", "", 1), deleted,
			says("ReplicaSet", "plain", "(combined from similar events): Deleted pod: z")}, model.ByScaling,
			"ReplicaSet/plain"},
		"a rollout to fewer replicas": {[]model.Event{pod(1, "a", "ReplicaSet/web-1", "t1"),
			pod(1, "b", "ReplicaSet/web-1", "t1"), workload(2, "Deployment", "web", "", 3),
			workload(14, "Deployment", "web", "", 2), pod(15, "n", "ReplicaSet/web-2", "t2"), removed(16, "b"),
			deleted, says("ReplicaSet", "web-1", "Deleted pod: a")}, model.ByRollout, "Deployment/web"},
		"a rollout to fewer replicas, which go first": {[]model.Event{pod(1, "a", "ReplicaSet/web-1", "t1"),
			pod(1, "b", "ReplicaSet/web-1", "t1"), workload(2, "Deployment", "web", "", 3),
			workload(19, "Deployment", "web", "", 2), deleted, says("ReplicaSet", "web-1", "Deleted pod: a"),
			pod(21, "n", "ReplicaSet/web-2", "t2"), removed(22, "b")}, model.ByScaling, "Deployment/web"},
		"fewer replicas, and one is deleted by hand": {[]model.Event{pod(1, "a", "ReplicaSet/web-1", "t1"),
			pod(1, "b", "ReplicaSet/web-1", "t1"), workload(2, "Deployment", "web", "", 3),
			workload(14, "Deployment", "web", "", 2), removed(16, "b"), deleted,
			says("ReplicaSet", "web-1", "Deleted pod: a")}, model.ByScaling, "Deployment/web"},
		"a Job's Pod": {[]model.Event{pod(1, "a", "Job/migrate", "t1"), deleted,
			says("Job", "migrate", "Deleted pod: a")}, model.ByRequest, ""},
		"of a custom kind, rolled out by its operator": {[]model.Event{pod(1, "a", "CloneSet/shop", "t1"),
			pod(15, "b", "CloneSet/shop", "t2"), deleted}, model.ByRollout, "CloneSet/shop"},
		"of a custom kind, deleted by hand": {[]model.Event{pod(1, "a", "CloneSet/shop", "t1"),
			pod(1, "c", "CloneSet/shop", "t1"), deleted}, model.ByRequest, ""},
		"another workload rolls": {[]model.Event{pod(1, "a", "ReplicaSet/web-1", "t1"),
			workload(2, "ReplicaSet", "web-1", "Deployment/web", 3),
			workload(2, "ReplicaSet", "web-api-1", "Deployment/web-api", 3),
			pod(15, "b", "ReplicaSet/web-api-1", "t2"), deleted}, model.ByRequest, ""},
		"by hand while its controller scales others down": {[]model.Event{pod(1, "a", "ReplicaSet/plain", "t1"),
			workload(2, "ReplicaSet", "plain", "", 3), workload(19, "ReplicaSet", "plain", "", 2), deleted,
			says("ReplicaSet", "plain", "Deleted pod: c")}, model.ByRequest, ""},
		"a drain": {[]model.Event{pod(1, "a", "", "t1"), cordon(18, "true", "false"), evicted,
			deleted}, model.ByEviction, "Node/node2"},
		"a drain of a node that hangs, and is removed": {[]model.Event{pod(1, "a", "", "t1"), cordon(18, "true", "false"),
			evicted, deleted, collected}, model.ByEviction, "Node/node2"},
		"a drain by Karpenter": {[]model.Event{pod(1, "a", "", "t1"), taint(18, "absent", "present"), evicted, deleted},
			model.ByEviction, "Node/node2"},
		"Karpenter has drained, and deletes": {[]model.Event{pod(1, "a", "", "t1"), taint(10, "absent", "present"),
			deleted}, model.ByRequest, "Node/node2"},
		"Karpenter took its taint back": {[]model.Event{pod(1, "a", "", "t1"), taint(10, "absent", "present"),
			taint(12, "present", "absent"), evicted, deleted}, model.ByEviction, ""},
		"uncordoned, and Karpenter drains": {[]model.Event{pod(1, "a", "", "t1"), cordon(8, "true", "false"),
			taint(10, "absent", "present"), cordon(12, "false", "true"), evicted, deleted}, model.ByEviction, "Node/node2"},
		"Karpenter removed a node of this name before": {[]model.Event{pod(1, "a", "", "t1"),
			taint(10, "absent", "present"), gone(12), evicted, deleted}, model.ByEviction, ""},
		"evicted after an uncordon": {[]model.Event{pod(1, "a", "", "t1"), cordon(10, "true", "false"),
			cordon(12, "false", "true"), evicted, deleted}, model.ByEviction, ""},
		"cordoned again": {[]model.Event{pod(1, "a", "", "t1"), cordon(10, "true", "false"),
			cordon(12, "false", "true"), cordon(15, "true", "false"), deleted}, model.ByRequest, "Node/node2"},
		"cordoned later": {[]model.Event{pod(1, "a", "", "t1"), deleted, cordon(25, "true", "false")},
			model.ByRequest, ""},
	} {
		got := model.Ending{}
		if pods := Lifecycles(&model.Timeline{Events: tt.events}, nil); pods[0].Ending != nil {
			got = *pods[0].Ending
		}
		of := ""
		if got.Of != nil {
			of = got.Of.Kind + "/" + got.Of.Name
		}
		if got.By != tt.by || of != tt.of {
			t.Errorf("%s: %s of %q (%s), want %s of %q", name, got.By, of, got.Text, tt.by, tt.of)
		}
	}
}
