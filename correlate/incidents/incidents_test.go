package incidents

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

const s = time.Second

func at(t time.Duration) model.Instant {
	return model.Instant{Earliest: t, Latest: t + 10*time.Millisecond}
}

// A run is written as its test needs it.
type run struct{ model.Timeline }

func (r *run) event(t time.Duration, kind timeline.EventKind, object timeline.Object, from, to string) uint32 {
	id := uint32(len(r.Events) + 1)
	r.Events = append(r.Events, model.Event{Event: timeline.Event{ID: id, Seen: t, Kind: kind, From: from, To: to, Object: object}, At: at(t)})
	return id
}

// pod adds a Pod that was created at an instant, and deleted at another; 0: before the run, and never. A name of three
// parts is of a Deployment and of the hash of its template.
func (r *run) pod(name, node string, created, deleted time.Duration) (deletion uint32) {
	parts := strings.Split(name, "-")
	object := timeline.Object{Kind: "Pod", Namespace: "shop", Name: name, UID: "uid-" + name, Node: node}
	r.event(created, timeline.PodSeen, object, "", "Pending")
	seen := &r.Events[len(r.Events)-1]
	if created == 0 {
		seen.At.Earliest = model.Unbounded
	}
	if len(parts) == 3 {
		seen.Owner, seen.Template = "ReplicaSet/"+parts[0]+"-"+parts[1], parts[1]
	}
	if deleted > 0 {
		deletion = r.event(deleted, timeline.PodDeleted, object, "", "")
	}
	return deletion
}

// made is the event by which a Pod was first seen.
func (r *run) made(pod string) uint32 {
	i := slices.IndexFunc(r.Events, func(e model.Event) bool { return e.Kind == timeline.PodSeen && e.Object.Name == pod })
	return r.Events[i].ID
}

// incidents are those of the run, with the lives of its Pods.
func (r *run) incidents() []model.Incident {
	slices.SortStableFunc(r.Events, func(a, b model.Event) int { return int(a.Seen - b.Seen) })
	r.Pods = cluster.Lifecycles(&r.Timeline, func(timeline.TargetID) windows.FirstLast { return windows.FirstLast{} })
	return Of(&r.Timeline, s)
}

func (r *run) node(t time.Duration, name, from, to string) uint32 {
	return r.event(t, timeline.NodeSchedulable, timeline.Object{Kind: "Node", Name: name}, from, to)
}

// window adds a window of 1 s, whose cause rests on events.
func (r *run) window(target string, start time.Duration, failed int, rule string, events ...uint32) *model.Cause {
	c := model.Cause{Rule: rule, Confidence: model.High, Text: fmt.Sprint(rule, events)}
	for _, id := range events {
		c.Evidence = append(c.Evidence, model.Evidence{Event: id})
	}
	r.Windows = append(r.Windows, model.Window{
		ID: len(r.Windows) + 1, Target: target, Start: at(start), End: at(start + s), Sent: 2 * failed, Failed: failed,
		Downtime: model.Length{Min: s, Max: 2 * s}, Classes: map[string]int{"refused": failed}, Causes: []model.Cause{c},
	})
	return &r.Windows[len(r.Windows)-1].Causes[0]
}

// told writes incidents as their windows and triggers: "[1 2] drain of node2".
func told(list []model.Incident) string {
	var lines []string
	for _, in := range list {
		line := fmt.Sprint(in.Windows)
		for _, t := range in.Triggers {
			line += fmt.Sprintf(" %s (%d)", t.Text, t.Event)
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "; ")
}

func TestWindowsThatBelongTogetherAreOneIncident(t *testing.T) {
	const race, unexplained = "route-outlives-pod", "unexplained"
	for name, test := range map[string]struct {
		make func(*run)
		want string
	}{
		"Pods that a rollout made": {func(r *run) {
			r.pod("web-5c8d7f-zzzzz", "node1", 0, 0)
			for i, name := range []string{"web-6b9d8f-bbbbb", "web-6b9d8f-ccccc"} {
				r.pod(name, "node2", time.Duration(1+i)*s, 0)
				r.window("new", time.Duration(1+8*i)*s, 5, "startup-race", r.made(name))
			}
		}, "[1 2] rollout of web (2)"},
		"Pods that replace others of their ReplicaSet": {func(r *run) {
			r.pod("web-6b9d8f-zzzzz", "node1", 0, 0)
			r.pod("web-5c8d7f-ddddd", "node1", 0, 0)
			r.pod("web-6b9d8f-bbbbb", "node2", s, 0)
			r.window("new", s, 5, "startup-race", r.made("web-6b9d8f-bbbbb"))
		}, "[1]"},
		"windows apart": {func(r *run) { r.window("new", 1*s, 5, unexplained); r.window("new", 9*s, 5, unexplained) }, "[1]; [2]"},
		"windows of two targets that overlap": {func(r *run) {
			r.window("new", 1*s, 5, unexplained)
			r.window("reused", 1500*time.Millisecond, 5, unexplained)
			r.window("new", 9*s, 5, unexplained)
		}, "[1 2]; [3]"},
		"windows less than join apart": {func(r *run) {
			r.window("new", 1*s, 5, unexplained)
			r.window("reused", 2900*time.Millisecond, 5, unexplained)
		}, "[1 2]"},
		"the windows between join those at both ends": {func(r *run) {
			r.window("a", 1*s, 5, unexplained)
			r.window("a", 5*s, 5, unexplained)
			r.window("b", 3*s, 5, unexplained)
		}, "[1 2 3]"},
		"one Pod's end": {func(r *run) {
			d := r.pod("web-0", "node1", 0, 1*s)
			r.window("new", 1*s, 5, race, d)
			r.window("reused", 8*s, 5, race, d)
		}, "[1 2] deletion of web-0 (2)"},
		"two Pods' ends": {func(r *run) {
			r.window("new", 1*s, 5, race, r.pod("web-0", "node1", 0, 1*s))
			r.window("new", 8*s, 5, race, r.pod("web-1", "node2", 0, 8*s))
		}, "[1] deletion of web-0 (2); [2] deletion of web-1 (4)"},
		"two Pods' ends in one window": {func(r *run) {
			r.window("new", 1*s, 5, race, r.pod("web-0", "node1", 0, 1*s), r.pod("web-1", "node2", 0, 1*s))
		}, "[1] deletion of 2 Pods: web-0, web-1 (2)"},
		"a drained node": {func(r *run) {
			r.node(1*s, "node1", "true", "false")
			r.window("a", 2*s, 5, race, r.pod("web-0", "node1", 0, 2*s))
			r.window("b", 12*s, 5, race, r.pod("api-0", "node1", 0, 12*s))
		}, "[1 2] drain of node1 (1)"},
		"another node was drained": {func(r *run) {
			r.node(1*s, "node2", "true", "false")
			r.window("a", 2*s, 5, race, r.pod("web-0", "node1", 0, 2*s))
		}, "[1] deletion of web-0 (3)"},
		"the node was uncordoned before": {func(r *run) {
			r.node(1*s, "node1", "true", "false")
			r.node(2*s, "node1", "false", "true")
			r.window("a", 3*s, 5, race, r.pod("web-0", "node1", 0, 3*s))
		}, "[1] deletion of web-0 (4)"},
		"the node had been cordoned before the run": {func(r *run) {
			r.node(0, "node1", "", "false")
			r.window("a", 3*s, 5, race, r.pod("web-0", "node1", 0, 3*s))
		}, "[1] deletion of web-0 (3)"},
		"the node was cordoned later": {func(r *run) {
			d := r.pod("web-0", "node1", 0, 3*s)
			r.node(5*s, "node1", "true", "false")
			r.window("a", 3*s, 5, race, d)
		}, "[1] deletion of web-0 (2)"},
		"a rollout, also on a cordoned node": {func(r *run) {
			r.node(1*s, "node1", "true", "false")
			r.pod("web-7d9f8b6c5d-x2kzq", "node3", 2*s, 0)
			r.window("new", 3*s, 5, race, r.pod("web-5cd49476cf-b7wk4", "node1", 0, 3*s))
			r.window("new", 13*s, 5, race, r.pod("web-5cd49476cf-7dg5v", "node2", 0, 13*s))
		}, "[1 2] rollout of web (4)"},
		"an eviction is made good by the same ReplicaSet": {func(r *run) {
			r.node(1*s, "node1", "true", "false")
			r.pod("web-5cd49476cf-x2kzq", "node3", 3*s, 0)
			r.window("new", 3*s, 5, race, r.pod("web-5cd49476cf-b7wk4", "node1", 0, 3*s))
		}, "[1] drain of node1 (1)"},
		"another Deployment rolls": {func(r *run) {
			r.pod("api-7d9f8b6c5d-x2kzq", "node3", 2*s, 0)
			r.window("new", 3*s, 5, race, r.pod("web-5cd49476cf-b7wk4", "node1", 0, 3*s))
		}, "[1] deletion of web-5cd49476cf-b7wk4 (3)"},
		"changes near an unexplained window set nothing off": {func(r *run) {
			d := r.pod("web-0", "node1", 0, 1*s)
			r.window("new", 1*s, 5, unexplained, d)
			r.window("new", 8*s, 5, unexplained, d)
		}, "[1]; [2]"},
		"nor does a cause that is only close in time": {func(r *run) {
			r.window("new", 1*s, 5, race, r.pod("web-0", "node1", 0, 1*s)).Confidence = model.Low
		}, "[1]"},
		"a crash": {func(r *run) {
			r.pod("web-0", "node1", 0, 0)
			object := timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-0", UID: "uid-web-0"}
			r.event(1*s, timeline.PodContainer, object, "running", "terminated")
			r.window("new", 2*s, 5, race, r.event(2*s, timeline.PodContainer, object, "running", "terminated"))
		}, "[1] exit of web-0 (3)"},
		"a Service is changed, and later deleted": {func(r *run) {
			web := timeline.Object{Kind: "Service", Namespace: "shop", Name: "web"}
			r.window("new", 2*s, 5, "selector-switch", r.event(2*s, timeline.ServiceChanged, web, "app=web", "app=other"))
			r.window("new", 30*s, 5, "no-ready-endpoint", r.event(30*s, timeline.ServiceChanged, web, "app=other", "absent"))
		}, "[1] change of Service web (1); [2] deletion of Service web (2)"},
	} {
		t.Run(name, func(t *testing.T) {
			r := &run{}
			test.make(r)
			if got := told(r.incidents()); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

func TestIncidentAddsUpAndTellsEachCauseOnce(t *testing.T) {
	r := &run{}
	d := r.pod("web-0", "node1", 0, 1*s)
	r.window("reused", 1*s, 3, "route-outlives-pod", d)
	r.window("new", 1*s, 40, "route-outlives-pod", d).Measures = []model.Measure{{Name: model.RouteLag, Length: model.Length{Min: s, Max: 2 * s}}}
	r.window("new", 2500*time.Millisecond, 7, "unexplained")
	r.Windows[0].Downtime = model.Length{Min: 1, Max: 5 * s}
	r.Windows[2].Open.End = true
	list := r.incidents()
	if len(list) != 1 {
		t.Fatalf("%d incidents", len(list))
	}
	in := list[0]
	if in.Sent != 100 || in.Failed != 50 || in.Classes["refused"] != 50 || !in.Open || in.Live {
		t.Errorf("%+v", in)
	}
	if want := (model.Length{Min: 1, Max: 5 * s}); in.Downtime != want || !slices.Equal(in.Targets, []string{"reused", "new"}) {
		t.Errorf("downtime %v of %v, want that of the worst target", in.Downtime, in.Targets)
	}
	if in.Start != at(s) || in.End != at(3500*time.Millisecond) {
		t.Errorf("from %v to %v", in.Start, in.End)
	}
	if len(in.Causes) != 2 || in.Causes[0].Failed != 43 || len(in.Causes[0].Measures) != 1 || in.Causes[1].Rule != "unexplained" {
		t.Errorf("%+v: want the route that outlived the Pod, as it was measured best, and what is not explained", in.Causes)
	}
}

// A connection that was cut is as much of a loss as a request that failed: one stray failure does not lead over many
// of them.
func TestTheCauseOfMostLossesLeads(t *testing.T) {
	for _, test := range []struct {
		failed, cut int
		want        string
	}{
		{1, 15, "flows-cut"},
		{16, 15, "route-outlives-pod"},
	} {
		var r run
		r.window("new", s, test.failed, "route-outlives-pod")
		r.window("held", s, test.cut, "flows-cut")
		r.Windows[1].Kind = model.CutKind
		list := r.incidents()
		if len(list) != 1 || list[0].Causes[0].Rule != test.want {
			t.Errorf("%d failed and %d cut: %+v, want %s first", test.failed, test.cut, list, test.want)
		}
	}
}
