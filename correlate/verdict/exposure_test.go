package verdict

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// A run whose command was to disturb the Service proves something only if an endpoint left or came.
func TestRunThatTestedNothingDoesNotPass(t *testing.T) {
	const s = time.Second
	endpoint := func(seen time.Duration, from, to string) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged, Seen: seen, From: from, To: to,
			Object: timeline.Object{UID: "u1"}},
			At: model.Instant{Earliest: seen - s, Latest: seen}}
	}
	listed := model.Event{Event: timeline.Event{Kind: timeline.EndpointChanged,
		To: timeline.EndpointReady, Object: timeline.Object{UID: "u1"}}, At: model.Instant{Earliest: model.Unbounded}}
	left := endpoint(7*s, timeline.EndpointReady, timeline.EndpointTerminatingServing)
	for _, tt := range []struct {
		name, command string
		events        []model.Event
		untested      bool
	}{
		{"a drain that evicted nothing", "kubectl drain node1 --ignore-daemonsets", []model.Event{listed}, true},
		{"a drain", "kubectl drain node1 --ignore-daemonsets", []model.Event{listed, left}, false},
		{"a delete that matched nothing", "kubectl -n shop delete pod -l app=wbe", []model.Event{listed}, true},
		{"a restart that adds an endpoint", "kubectl rollout restart deployment/web",
			[]model.Event{listed, endpoint(6*s, timeline.EndpointAbsent, timeline.EndpointReady)}, false},
		{"a scale to what there is", "sudo kubectl -n shop scale deploy/web --replicas 2", []model.Event{listed}, true},
		{"a change before the command", "kubectl drain node1",
			[]model.Event{listed, endpoint(3*s, timeline.EndpointReady, timeline.EndpointAbsent)}, true},
		{"a terminating endpoint that went", "kubectl drain node1",
			[]model.Event{listed, endpoint(7*s, timeline.EndpointTerminating, timeline.EndpointAbsent)}, true},
		{"a command that Lapse does not know", "./upgrade.sh", []model.Event{listed}, false},
		{"a command that disturbs nothing", "kubectl cordon node1", []model.Event{listed}, false},
		{"no endpoints watched", "kubectl drain node1", nil, false},
		{"endpoints that may have changed unseen", "kubectl drain node1",
			[]model.Event{listed, {Event: timeline.Event{Kind: timeline.WatchGap, Seen: 8 * s}}}, false},
		{"endpoints no longer watched", "kubectl drain node1",
			[]model.Event{listed, {Event: timeline.Event{Kind: timeline.WatchLane, Seen: 6 * s, To: "off",
				Object: timeline.Object{Kind: "EndpointSlice"}}}}, false},
	} {
		tl := &model.Timeline{
			Run: model.RunInfo{Command: &model.Command{Args: timeline.SplitCommand(tt.command), Start: new(5 * s),
				ExitCode: new(0)}},
			Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}, Sent: 1000, OK: 1000,
				Coverage: 1, Resolution: 5 * time.Millisecond}},
			Events: tt.events,
		}
		Judge(tl, nil)
		reasons := strings.Join(tl.Verdict.Reasons, "\n")
		said := strings.Contains(reasons, "nothing was tested: no endpoint of shop/web left or came")
		want := ExitPassed
		if tt.untested {
			want = ExitInconclusive
		}
		if said != tt.untested || tl.Verdict.ExitCode != want {
			t.Errorf("%s: exit %d, want %d; reasons:\n%s", tt.name, tl.Verdict.ExitCode, want, reasons)
		}
	}
}

// Where a PodDisruptionBudget kept a drain from evicting anything, the reason names it.
func TestRunThatTestedNothingNamesTheBudget(t *testing.T) {
	const s = time.Second
	budget := func(seen time.Duration, to string, allowed int) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, Seen: seen, To: to,
			Object: timeline.Object{Kind: "PodDisruptionBudget", Namespace: "shop", Name: "web"},
			Snapshot: &timeline.Snapshot{Budget: &timeline.Budget{Healthy: 2, Desired: 2, Expected: 2,
				Allowed: allowed}}}}
	}
	output := model.Event{Event: timeline.Event{Kind: timeline.CommandOutput, Seen: 6 * s,
		Detail: `error when evicting pods/"web-1" -n "shop" (will retry after 5s): ` +
			`Cannot evict pod as it would violate the pod's disruption budget.`}}
	const names = "; PodDisruptionBudget web allowed no eviction: of 2 Pods 2 were healthy, and 2 must be"
	for _, tt := range []struct {
		name   string
		events []model.Event
		want   string
	}{
		{"refused", []model.Event{budget(0, timeline.SnapshotFound, 0), output},
			names + "; the command's evictions were refused"},
		{"allowed none", []model.Event{budget(0, timeline.SnapshotFound, 0)}, names},
		{"allowed one before", []model.Event{budget(0, timeline.SnapshotFound, 1),
			budget(3*s, timeline.SnapshotStatus, 0)}, names},
		{"allowed one for a while", []model.Event{budget(0, timeline.SnapshotFound, 0),
			budget(6*s, timeline.SnapshotStatus, 1), budget(7*s, timeline.SnapshotStatus, 0)}, ""},
		{"deleted", []model.Event{budget(0, timeline.SnapshotFound, 0), budget(3*s, timeline.SnapshotDeleted, 0)}, ""},
		{"none", []model.Event{output}, ""},
	} {
		tl := &model.Timeline{
			Run: model.RunInfo{Command: &model.Command{Args: []string{"kubectl", "drain", "node1"},
				Start: new(5 * s), ExitCode: new(1)}},
			Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}, Sent: 1000, OK: 1000,
				Coverage: 1, Resolution: 5 * time.Millisecond}},
			Events: append([]model.Event{{Event: timeline.Event{Kind: timeline.EndpointChanged, To: timeline.EndpointReady,
				Object: timeline.Object{UID: "u1"}},
				At: model.Instant{Earliest: model.Unbounded}}}, tt.events...),
		}
		Judge(tl, nil)
		_, got, _ := strings.Cut(strings.Join(tl.Verdict.Reasons, "\n"), "`kubectl drain node1` began")
		if got, _, _ = strings.Cut(got, "\n"); got != tt.want {
			t.Errorf("%s: after `began`: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A rollout that goes on when the run ends has not been measured to its end.
func TestRunThatEndsAmidARolloutDoesNotPass(t *testing.T) {
	const s = time.Second
	snapshot := func(seen time.Duration, to string, replicas int, status timeline.Replicas) model.Event {
		return model.Event{Event: timeline.Event{Kind: timeline.SnapshotTaken, Seen: seen, To: to,
			Object:   timeline.Object{Kind: "Deployment", Name: "web"},
			Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Replicas: replicas, Status: status}}}}
	}
	with := func(e model.Event, change func(*timeline.Workload)) model.Event {
		change(e.Snapshot.Workload)
		return e
	}
	all := timeline.Replicas{Existing: 3, Updated: 3, Ready: 3, Available: 3}
	for _, tt := range []struct {
		name       string
		events     []model.Event
		unfinished bool
	}{
		{"it finished", []model.Event{snapshot(6*s, timeline.SnapshotChanged, 3, all),
			snapshot(7*s, timeline.SnapshotStatus, 3, timeline.Replicas{Existing: 4, Updated: 1, Available: 3}),
			snapshot(9*s, timeline.SnapshotStatus, 3, all)}, false},
		{"an old Pod is left", []model.Event{snapshot(6*s, timeline.SnapshotChanged, 3, all),
			snapshot(9*s, timeline.SnapshotStatus, 3, timeline.Replicas{Existing: 4, Updated: 3, Ready: 4,
				Available: 4})}, true},
		{"a new Pod is not available", []model.Event{snapshot(6*s, timeline.SnapshotChanged, 3, all),
			snapshot(9*s, timeline.SnapshotStatus, 3, timeline.Replicas{Existing: 3, Updated: 3, Ready: 3,
				Available: 2})}, true},
		{"changed before the command", []model.Event{snapshot(3*s, timeline.SnapshotChanged, 3, all),
			snapshot(9*s, timeline.SnapshotStatus, 3, timeline.Replicas{Existing: 3, Updated: 2, Available: 3})},
			false},
		{"a Pod evicted and not yet replaced", []model.Event{snapshot(1*s, timeline.SnapshotFound, 3, all),
			snapshot(9*s, timeline.SnapshotStatus, 3, timeline.Replicas{Existing: 3, Updated: 3, Available: 2})},
			false},
		{"one Pod of a partition", []model.Event{with(snapshot(6*s, timeline.SnapshotChanged, 3,
			timeline.Replicas{Existing: 3, Updated: 1, Ready: 3, Available: 3}),
			func(w *timeline.Workload) { w.Partition = 2 })}, false},
		{"its status is that of the spec before", []model.Event{with(snapshot(6*s, timeline.SnapshotChanged, 3, all),
			func(w *timeline.Workload) { w.Generation, w.Status.Generation = 2, 1 })}, true},
		{"scaled to 0", []model.Event{snapshot(6*s, timeline.SnapshotChanged, 0, all),
			snapshot(9*s, timeline.SnapshotStatus, 0, timeline.Replicas{})}, false},
	} {
		tl := &model.Timeline{
			Run: model.RunInfo{Command: &model.Command{Args: []string{"./deploy.sh"}, Start: new(5 * s),
				ExitCode: new(0)}},
			Targets: []model.Target{{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}, Sent: 1000, OK: 1000,
				Coverage: 1, Resolution: 5 * time.Millisecond}},
			Events: tt.events,
		}
		Judge(tl, nil)
		reasons := strings.Join(tl.Verdict.Reasons, "\n")
		if said := strings.Contains(reasons,
			"the rollout of Deployment web had not finished"); said != tt.unfinished ||
			(tl.Verdict.ExitCode == ExitInconclusive) != tt.unfinished {
			t.Errorf("%s: exit %d; reasons:\n%s", tt.name, tl.Verdict.ExitCode, reasons)
		}
	}
}
