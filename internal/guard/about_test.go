package guard

import (
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/internal/guard/gate"
	"lapse/timeline"
)

// judged returns a run that passed. It began 10 s after T0, and 60 s after its last change it ended.
func judged(change func(*model.Timeline)) *model.Timeline {
	tl := &model.Timeline{T0: time.Date(2026, 11, 26, 10, 0, 0, 0, time.UTC), Run: model.RunInfo{
		ID: "r1", Duration: 90 * time.Second, Baseline: 10 * time.Second, Settle: time.Minute, Services: []timeline.Service{{Namespace: "shop", Name: "web"}},
	}}
	tl.Verdict = model.Verdict{Result: model.Pass, Sent: 900}
	change(tl)
	verdict.Say(tl)
	return tl
}

// gap is a time in which a kind was not watched.
func gap(kind string, since, seen time.Duration) model.Event {
	return model.Event{Event: timeline.Event{Kind: timeline.WatchGap, Object: timeline.Object{Kind: kind}, Since: since, Seen: seen}}
}

// What the gate says of a run: pass only of one that was measured to its end and had a gate.
func TestTheGateSaysPassOnlyOfAWholeRun(t *testing.T) {
	for _, test := range []struct {
		change func(*model.Timeline)
		state  gate.State
		reason string
	}{
		{func(*model.Timeline) {}, gate.Pass, "0 of 900 failed"},
		{func(tl *model.Timeline) { tl.Run.Aborted = "stopped by SIGTERM" }, gate.Inconclusive, "0 of 900 failed; aborted after 90 s: stopped by SIGTERM"},
		{func(tl *model.Timeline) { tl.Run.Truncated, tl.Run.Aborted = true, "it was killed" }, gate.Inconclusive, "0 of 900 failed; recorded for 90 s; it was killed"},
		{func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Verdict.Reasons = model.Fail, []string{"gate latency.p99>50ms failed: 61 ms"}
		}, gate.Fail, "0 of 900 failed; gate latency.p99>50ms failed: 61 ms"},
		{func(tl *model.Timeline) { tl.Events = []model.Event{gap("Pod", -5*time.Minute, 10*time.Second)} }, gate.Inconclusive,
			"0 of 900 failed; the cluster was not watched before: it may have begun earlier"},
		{func(tl *model.Timeline) { tl.Events = []model.Event{gap("", -5*time.Minute, 10*time.Second)} }, gate.Inconclusive,
			"0 of 900 failed; the cluster was not watched before: it may have begun earlier"},
		{func(tl *model.Timeline) {
			tl.Events = []model.Event{gap("Event", -5*time.Minute, 10*time.Second), gap("Pod", -10*time.Second, 10*time.Second), gap("Pod", 10*time.Second, 5*time.Minute), gap("Pod", -5*time.Minute, 5*time.Second)}
		}, gate.Pass, "0 of 900 failed"},
		{func(tl *model.Timeline) { tl.Verdict.Result = model.Ungated }, gate.Inconclusive, "0 of 900 failed; no gate was set"},
		{func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Verdict.Reasons = model.Inconclusive, []string{"only 90 % was observed"}
		}, gate.Inconclusive, "0 of 900 failed; only 90 % was observed"},
		{func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Verdict.Failed, tl.Run.Aborted = model.Fail, 3, "stopped"
			tl.Verdict.Downtime.Total = model.Length{Min: 290 * time.Millisecond, Max: 590 * time.Millisecond}
			tl.Targets = []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}}}
			tl.Windows = []model.Window{{Target: "web new", Failed: 3, Causes: []model.Cause{{Rule: "route-outlives-pod"}}}}
		}, gate.Fail, "3 of 900 failed; down 440 ms ±150; route-outlives-pod"},
		{func(tl *model.Timeline) {
			tl.Pods = []model.Pod{{Name: "web-2", Created: &model.Instant{}}, {Name: "web-1", Created: &model.Instant{}, Node: "node1"}}
		}, gate.Pass, "0 of 900 failed; Pod web-2 is still pending: no node has taken it"},
		{func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Run.Aborted = model.Fail, "requests fail since 2026-11-26 02:14:05 UTC, and nothing else happens"
		}, gate.Fail, "0 of 900 failed; requests fail since 2026-11-26 02:14:05 UTC, and nothing else happens"},
		{func(tl *model.Timeline) {
			began := timeline.PhaseChange(0, timeline.PhaseBaseline, timeline.PhaseMeasuring, "first sign: requests fail since 2026-11-26 02:14:05 UTC")
			tl.Verdict.Result, tl.Events = model.Fail, []model.Event{{Event: began}}
		}, gate.Fail, "0 of 900 failed; requests failed since 2026-11-26 02:14:05 UTC"},
		{func(tl *model.Timeline) {
			tl.Verdict.Result, tl.Run.Aborted = model.Fail, "the endpoint of web-1 is lost again and again since 2026-11-26 02:14:05 UTC"
		}, gate.Fail, "0 of 900 failed; the endpoint of web-1 is lost again and again since 2026-11-26 02:14:05 UTC"},
	} {
		tl, last := judged(test.change), "10:00:30"
		if tl.Run.Aborted != "" {
			last = "10:01:30" // it has not settled
		}
		r := about(tl)
		if r.Verdict != test.state || r.Reason != test.reason {
			t.Errorf("%s %q, want %s %q", r.Verdict, r.Reason, test.state, test.reason)
		}
		if began, changed := r.Began.Format(time.TimeOnly), r.Changed.Format(time.TimeOnly); began != "10:00:10" || changed != last {
			t.Errorf("it began %s and changed last %s", began, changed)
		}
	}
}

// A run is about the nodes that somebody disturbed, and not about those whose Pods a rollout replaced.
func TestARunIsAboutTheNodesThatWereDisturbed(t *testing.T) {
	pod := func(node string, by model.EndedBy) model.Pod {
		p := model.Pod{UID: node + string(by), Node: node}
		if by != "" {
			p.Ending = &model.Ending{By: by}
		}
		return p
	}
	on := func(kind timeline.EventKind, node, from, to string) model.Event {
		return model.Event{Event: timeline.Event{Kind: kind, From: from, To: to, Object: timeline.Object{Kind: "Node", Name: node}}}
	}
	at := func(seconds int) model.Instant {
		return model.Instant{Earliest: time.Duration(seconds) * time.Second, Latest: time.Duration(seconds) * time.Second}
	}
	notReady := func(node string) model.Pod {
		p := pod(node, "")
		p.EndpointNotReady = new(at(10))
		return p
	}
	exited := func(node string) model.Pod {
		p := pod(node, model.ByItself)
		p.Exited = new(at(10))
		return p
	}
	rolledOut := func(node string) model.Pod {
		p := pod(node, model.ByRollout)
		p.Deleted, p.EndpointNotReady = new(at(10)), new(at(10))
		return p
	}
	cordon := func(node string) model.Event { return on(timeline.NodeSchedulable, node, "true", "false") }
	late := func(e model.Event) model.Event {
		e.At = at(20)
		return e
	}
	for _, test := range []struct {
		name   string
		pods   []model.Pod
		events []model.Event
		want   []string
	}{
		{"a drain", []model.Pod{pod("node1", model.ByEviction), pod("node2", "")}, nil, []string{"node1"}},
		{"a rollout", []model.Pod{pod("node1", model.ByRollout), pod("node2", model.ByScaling), pod("node3", model.ByItself)}, nil, nil},
		{"a cordon of each node, and the drain of one", []model.Pod{pod("node1", model.ByEviction), pod("node2", ""), rolledOut("node3"), pod("node3", "")}, []model.Event{cordon("node1"), cordon("node2"), cordon("node3")}, []string{"node1"}},
		{"a cordon, and a rollout that leaves nothing there", []model.Pod{rolledOut("node1"), pod("node2", "")}, []model.Event{cordon("node1"), cordon("node2")}, []string{"node1"}},
		{"a cordon, and a restart", []model.Pod{notReady("node1"), exited("node2"), pod("node3", "")}, []model.Event{cordon("node1"), cordon("node2"), cordon("node3")}, []string{"node1", "node2"}},
		{"a restart, and then a cordon", []model.Pod{notReady("node1"), exited("node2")}, []model.Event{late(cordon("node1")), late(cordon("node2"))}, nil},
		{"a Pod that was not ready for a while", []model.Pod{notReady("node1")}, nil, nil},
		{"what was so before", []model.Pod{notReady("node1")}, []model.Event{on(timeline.NodeSchedulable, "node1", "", "false"), on(timeline.NodeTaint, "node1", "", "present")}, nil},
		{"an uncordon", []model.Pod{notReady("node1")}, []model.Event{on(timeline.NodeSchedulable, "node1", "false", "true")}, nil},
		{"a taint, and a lost node", []model.Pod{notReady("node1"), pod("node2", "")}, []model.Event{on(timeline.NodeReady, "node2", "true", "unknown"), on(timeline.NodeTaint, "node1", "absent", "present")}, []string{"node1", "node2"}},
	} {
		tl := judged(func(tl *model.Timeline) { tl.Pods, tl.Events = test.pods, test.events })
		if got := about(tl).Nodes; !slices.Equal(got, test.want) {
			t.Errorf("%s: %q, want %q", test.name, got, test.want)
		}
	}
}

// A rollout that was under way when a run began was not measured from its beginning.
func TestARunKnowsThatARolloutHadBegun(t *testing.T) {
	const all = 3
	found := func(kind, to, strategy string, updated, existing int) model.Event {
		w := &timeline.Workload{Replicas: all, Strategy: strategy, Status: timeline.Replicas{Updated: updated, Existing: existing}}
		return model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, To: to, Object: timeline.Object{Kind: kind, Name: "web", UID: "web"}, Snapshot: &timeline.Snapshot{Workload: w}}}
	}
	const here, rollingUpdate = timeline.SnapshotFound, "RollingUpdate"
	followed := found("Deployment", here, rollingUpdate, 1, 4)
	followed.Detail = timeline.SnapshotFollowed
	partition := found("StatefulSet", here, rollingUpdate, 1, 3)
	partition.Snapshot.Workload.Partition = 2
	paused := found("Deployment", here, rollingUpdate, 0, 3)
	paused.Snapshot.Workload.Paused = true
	for _, test := range []struct {
		name   string
		events []model.Event
		want   bool
	}{
		{"a rollout of the run", []model.Event{found("Deployment", here, rollingUpdate, 3, 3), found("Deployment", timeline.SnapshotChanged, rollingUpdate, 0, 3)}, false},
		{"one Pod was replaced before", []model.Event{found("Deployment", here, rollingUpdate, 1, 3)}, true},
		{"an old Pod is left", []model.Event{found("StatefulSet", here, rollingUpdate, 3, 4)}, true},
		{"the last Pod, by a partition", []model.Event{partition}, false},
		{"a rollout that was watched from its beginning", []model.Event{followed}, false},
		{"an old ReplicaSet", []model.Event{found("ReplicaSet", here, "", 0, 4)}, false},
		{"Pods that somebody else deletes", []model.Event{found("StatefulSet", here, "OnDelete", 1, 3)}, false},
		{"a Deployment that lacks Pods, as by a quota", []model.Event{found("Deployment", here, rollingUpdate, 2, 2)}, false},
		{"a change of a paused Deployment", []model.Event{paused}, false},
		{"a new Deployment", []model.Event{found("Deployment", here, rollingUpdate, 0, 0)}, false},
	} {
		if got := about(judged(func(tl *model.Timeline) { tl.Events = test.events })).Rolling; got != test.want {
			t.Errorf("%s: %v", test.name, got)
		}
	}
}
