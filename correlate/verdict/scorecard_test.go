package verdict

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

const sec = time.Second

// A scored is a run of 60 s in which svc/shop/web had endpoints web-1 on node1 and web-2 on node2, and what preflight
// said of it.
type scored struct{ *model.Timeline }

func newScored(predictions ...timeline.Prediction) scored {
	r := scored{&model.Timeline{
		Run: model.RunInfo{Duration: 60 * sec},
		Targets: []model.Target{
			{Target: timeline.Target{Name: "web new", Kind: timeline.New, Service: "shop/web"}, Node: "node1", Sent: 1000, OK: 1000,
				Coverage: 1, Measured: model.Instant{Earliest: 0, Latest: 60 * sec}},
			{Target: timeline.Target{Name: "direct web-1", Kind: timeline.Direct, Service: "shop/web"}, Sent: 1000},
		},
	}}
	r.event(0, timeline.Predicted, "", "judged", timeline.Object{Kind: "Service", Namespace: "shop",
		Name: "web"}).Preflight = &timeline.Preflight{
		Rules: []timeline.AskedRule{
			{ID: "LP01", Predicts: []string{"no-ready-endpoint/one-replica"}},
			{ID: "LP02", Predicts: []string{"no-ready-endpoint/node-drained"}, Unjudged: "no right to list nodes"},
			{ID: "LP05", Predicts: []string{"route-outlives-pod"}},
			{ID: "LP06", Predicts: []string{"route-outlives-pod"}},
			{ID: "LP09", Predicts: []string{"startup-race"}},
		},
		Predictions: predictions,
	}
	for i, name := range []string{"web-1", "web-2"} {
		r.Pods = append(r.Pods, model.Pod{Namespace: "shop", Name: name, UID: name, Node: fmt.Sprintf("node%d", i+1)})
		r.endpoint(0, name, "", timeline.EndpointReady).At.Earliest = model.Unbounded
	}
	r.Services = []model.WatchedService{{Name: "shop/web",
		Endpoints: []model.EndpointStep{{At: model.Instant{Earliest: model.Unbounded}, Ready: 2, Serving: 2}}}}
	return r
}

func (r scored) event(at time.Duration, kind timeline.EventKind, from, to string,
	object timeline.Object) *model.Event {
	r.Events = append(r.Events, model.Event{Event: timeline.Event{ID: uint32(len(r.Events) + 1), Seen: at, Kind: kind, From: from, To: to, Object: object},
		At: model.Instant{Earliest: at, Latest: at}})
	return &r.Events[len(r.Events)-1]
}

func (r scored) endpoint(at time.Duration, pod, from, to string) *model.Event {
	e := r.event(at, timeline.EndpointChanged, from, to, timeline.Object{Kind: "Pod", Namespace: "shop", Name: pod,
		UID: pod})
	e.Service = "shop/web"
	return e
}

// pod is a Pod of the run; a new one on node1 where it does not have it.
func (r scored) pod(name string) *model.Pod {
	i := slices.IndexFunc(r.Pods, func(p model.Pod) bool { return p.Name == name })
	if i < 0 {
		i = len(r.Pods)
		r.Pods = append(r.Pods, model.Pod{Namespace: "shop", Name: name, UID: name, Node: "node1"})
	}
	return &r.Pods[i]
}

func at(t time.Duration) *model.Instant { return &model.Instant{Earliest: t, Latest: t} }

// ends ends a Pod at an instant, and it is gone 3 s later.
func (r scored) ends(name string, when time.Duration, by model.EndedBy) {
	p := r.pod(name)
	p.Deleted, p.EndpointNotReady, p.Gone, p.Ending = at(when), at(when+100*time.Millisecond), at(when+3*sec),
		&model.Ending{By: by}
	r.endpoint(when+100*time.Millisecond, name, timeline.EndpointReady, timeline.EndpointTerminating)
}

// starts makes a Pod that is ready at an instant.
func (r scored) starts(name string, when time.Duration) {
	r.pod(name).Created = at(when - 2*sec)
	r.endpoint(when, name, timeline.EndpointNotReady, timeline.EndpointReady)
}

// incident adds one of a target with a cause, RULE or RULE/REASON.
func (r scored) incident(from, to time.Duration, kind model.WindowKind, target, cause string,
	confidence model.Confidence) {
	rule, reason, _ := strings.Cut(cause, "/")
	id := len(r.Incidents) + 1
	r.Windows = append(r.Windows, model.Window{ID: id, Target: target, Kind: kind})
	r.Incidents = append(r.Incidents, model.Incident{ID: id, Windows: []int{id}, Targets: []string{target},
		Start: *at(from), End: *at(to),
		Causes: []model.IncidentCause{{Cause: model.Cause{Rule: rule, Reason: reason, Confidence: confidence}}}})
}

func about(when timeline.Disturbance, causes ...string) timeline.Prediction {
	return timeline.Prediction{Rule: "LP05", Name: "no-prestop", Severity: "may-lose", Causes: causes, When: when}
}

var (
	staleRoute    = about(timeline.PodEnds, "route-outlives-pod")
	evictionAsked = timeline.Prediction{Rule: "LP04", Name: "budget-blocks", Severity: "will-block",
		When: timeline.EvictionAsked}
)

// says is a line of the wrapped command's output, drain that it is `kubectl drain`.
func (r scored) says(line string) {
	r.event(15*sec, timeline.CommandOutput, "", "", timeline.Object{}).Detail = line
}
func (r scored) drain() { r.Run.Command = &model.Command{Args: []string{"kubectl", "drain", "node1"}} }

func refusedEviction(namespace, pod string) string {
	return fmt.Sprintf("error when evicting pods/%q -n %q (will retry after 5s): Cannot evict pod as it would "+
		"violate the pod's disruption budget.", pod, namespace)
}

// What a run says of a prediction, and why.
func TestPredictionsAreScored(t *testing.T) {
	onNode2 := func(p timeline.Prediction) timeline.Prediction { p.Node = "node2"; return p }
	blank := func(scored) {}
	ended := func(r scored) { r.ends("web-1", 20*sec, model.ByRequest) }
	for _, tt := range []struct {
		name       string
		prediction timeline.Prediction
		happens    func(scored)
		want       model.PredictionOutcome
		why        string
	}{
		// confirmed
		{"its cause, high", staleRoute, func(r scored) {
			ended(r)
			r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.High)
		}, model.Confirmed, "incident 1: route-outlives-pod [high]"},
		{"its cause, medium", staleRoute, func(r scored) {
			ended(r)
			r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.Medium)
		}, model.Confirmed, "[medium]"},
		{"one of its causes", about(timeline.PodEnds, "route-outlives-pod", "kube-proxy-late"), func(r scored) {
			r.incident(20*sec, 21*sec, model.Partial, "web new", "kube-proxy-late", model.High)
		}, model.Confirmed, "kube-proxy-late"},
		{"its reason", about("", "no-ready-endpoint/one-replica"), func(r scored) {
			r.incident(20*sec, 21*sec, model.Outage, "web new", "no-ready-endpoint/one-replica", model.High)
		}, model.Confirmed, ""},
		{"any reason will do", about("", "no-ready-endpoint"), func(r scored) {
			r.incident(20*sec, 21*sec, model.Outage, "web new", "no-ready-endpoint/scaled-to-0", model.High)
		}, model.Confirmed, ""},

		// refuted
		{"it happened, and nothing failed", staleRoute, ended, model.Refuted,
			"a Pod with a ready endpoint was deleted (1 time), and no incident has the cause route-outlives-pod"},
		{"what failed is known to be something else", staleRoute, func(r scored) {
			ended(r)
			r.incident(20*sec, 21*sec, model.Partial, "web new", "startup-race", model.High)
		}, model.Refuted, ""},
		{"what is not known was at another time", staleRoute, func(r scored) {
			ended(r)
			r.incident(40*sec, 41*sec, model.Partial, "web new", "unexplained", model.Low)
		}, model.Refuted, ""},
		{"the same cause, of another Service", staleRoute, func(r scored) {
			ended(r)
			r.Targets = append(r.Targets, model.Target{Target: timeline.Target{Name: "api new", Kind: timeline.New, Service: "shop/api"},
				Sent: 1000})
			r.incident(20*sec, 21*sec, model.Partial, "api new", "route-outlives-pod", model.High)
		}, model.Refuted, ""},
		{"one of two ends was measured", staleRoute,
			func(r scored) { ended(r); r.ends("web-2", 58*sec, model.ByRequest) }, model.Refuted,
			"(2 times, 1 of them measured to the end)"},

		// not tested
		{"its cause, low", staleRoute, func(r scored) {
			ended(r)
			r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.Low)
		}, model.NotTested, "too little to confirm it"},
		{"another reason", about(timeline.LastEndpointGoes, "no-ready-endpoint/one-replica"), func(r scored) {
			r.incident(20*sec, 21*sec, model.Outage, "web new", "no-ready-endpoint/scaled-to-0", model.High)
		}, model.NotTested, "an endpoint was ready all the time"},
		{"nothing happened", staleRoute, blank, model.NotTested, "no Pod with a ready endpoint was deleted"},
		{"a Pod ended that had no ready endpoint", staleRoute, func(r scored) {
			r.pod("web-1").Deleted, r.pod("web-1").Gone = at(20*sec), at(23*sec)
		}, model.NotTested, "no Pod with a ready endpoint was deleted"},
		{"a Pod turned not ready and did not end", staleRoute, func(r scored) {
			r.endpoint(20*sec, "web-1", timeline.EndpointReady, timeline.EndpointNotReady)
		}, model.NotTested, "no Pod with a ready endpoint was deleted"},
		{"a Pod ended whose endpoint turned ready once more", staleRoute, func(r scored) {
			r.pod("web-1").Deleted, r.pod("web-1").Gone = at(20*sec), at(23*sec)
			r.endpoint(30*sec, "web-1", timeline.EndpointNotReady, timeline.EndpointReady)
		}, model.NotTested, "no Pod with a ready endpoint was deleted"},
		{"a Pod of another Service ended", staleRoute, func(r scored) {
			r.endpoint(20*sec, "web-1", timeline.EndpointReady, timeline.EndpointTerminating).Service = "shop/api"
			r.pod("web-1").Deleted, r.pod("web-1").Gone = at(20*sec), at(23*sec)
		}, model.NotTested, "no Pod with a ready endpoint was deleted"},
		{"it was too soon after it", staleRoute, func(r scored) {
			r.ends("web-1", 58*sec, model.ByRequest)
		}, model.NotTested, "too soon after it"},
		{"how it ended was not seen", staleRoute, func(r scored) { ended(r); r.pod("web-1").Gone = nil },
			model.NotTested, "too soon after it"},
		{"it began before it was measured", staleRoute,
			func(r scored) { ended(r); r.Targets[0].Measured.Earliest = 21 * sec }, model.NotTested,
			"began before it was measured"},
		{"all failed meanwhile", staleRoute, func(r scored) {
			ended(r)
			r.incident(22*sec, 23*sec, model.Outage, "web new", "no-ready-endpoint/one-replica", model.High)
		}, model.NotTested, "incident 1 could hide it"},
		{"all failed for a while", staleRoute, func(r scored) {
			ended(r)
			r.incident(22*sec, 23*sec, model.Partial, "web new", "replacement-waits", model.High)
			r.Windows[0].Blackout = &model.Length{Min: sec, Max: sec}
		}, model.NotTested, "incident 1 could hide it"},
		{"something failed, and why is not known", staleRoute, func(r scored) {
			ended(r)
			r.incident(22*sec, 23*sec, model.Partial, "web new", "unexplained", model.Low)
		}, model.NotTested, "incident 1 could hide it"},
		{"too little was observed", staleRoute, func(r scored) {
			ended(r)
			r.Unobserved = []model.Unobserved{{Target: "web new", Start: 21 * sec, End: 22 * sec}}
		}, model.NotTested, "too little was observed"},
		{"endpoints were not watched", staleRoute, func(r scored) {
			ended(r)
			r.event(30*sec, timeline.WatchLane, "on", "off", timeline.Object{Kind: "EndpointSlice"})
		}, model.NotTested, "is not known: endpoints were not watched"},
		{"endpoints may have changed unseen", staleRoute, func(r scored) {
			r.event(30*sec, timeline.WatchGap, "", "", timeline.Object{Kind: "EndpointSlice"})
		}, model.NotTested, "is not known: endpoints were not watched"},
		{"Pods were not watched", staleRoute,
			func(r scored) { ended(r); r.event(0, timeline.WatchLane, "on", "off", timeline.Object{Kind: "Pod"}) },
			model.NotTested, "is not known: pods were not watched"},
		{"no Pod was seen", staleRoute, func(r scored) {
			r.Pods = nil
		}, model.NotTested, "no Pod of the Service was seen"},
		{"the Service was only watched", staleRoute, func(r scored) { ended(r); r.Targets[0].Service = "shop/api" },
			model.NotTested, "no request was sent to the Service"},
		{"nothing was sent", staleRoute, func(r scored) { ended(r); r.Targets[0].Sent = 0 }, model.NotTested,
			"no request was sent to the Service"},
		{"the hook failed, and nobody noticed", about(timeline.PodEnds, "prestop-failed"), func(r scored) {
			ended(r)
			r.event(20*sec, timeline.KubeEvent, "", "FailedPreStopHook",
				timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-1", UID: "web-1"})
		}, model.NotTested, "the hook of web-1 failed"},
		{"the hook of another Service's Pod failed", about(timeline.PodEnds, "prestop-failed"), func(r scored) {
			ended(r)
			r.event(20*sec, timeline.KubeEvent, "", "FailedPreStopHook",
				timeline.Object{Kind: "Pod", Namespace: "shop", Name: "api-1", UID: "api-1"})
		}, model.Refuted, ""},
		{"an eviction was refused", evictionAsked,
			func(r scored) { r.says(refusedEviction("shop", "web-1")); r.says(refusedEviction("shop", "web-1")) },
			model.Confirmed, "evictions of 1 Pod were refused for it (2 times)"},
		{"two budgets", evictionAsked, func(r scored) {
			r.says(`error when evicting pods/"web-2" -n "shop": ` +
				`This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.`)
		}, model.Confirmed, "evictions of 1 Pod"},
		{"it was refused, and evicted later", evictionAsked,
			func(r scored) { r.says(refusedEviction("shop", "web-1")); r.ends("web-1", 20*sec, model.ByEviction) },
			model.Confirmed, ""},
		{"a drain evicted it at once", evictionAsked, func(r scored) {
			r.drain()
			r.says("evicting pod shop/web-1")
			r.ends("web-1", 20*sec, model.ByEviction)
		}, model.Refuted, "shows no refused eviction"},
		{"a drain evicted it, and its output was not captured", evictionAsked,
			func(r scored) { r.drain(); r.ends("web-1", 20*sec, model.ByEviction) }, model.NotTested,
			"only the output of a wrapped `kubectl drain` shows it"},
		{"somebody evicted it", evictionAsked, func(r scored) {
			r.ends("web-1", 20*sec, model.ByEviction)
		}, model.NotTested, "not known: only the output of a wrapped `kubectl drain` shows it"},
		{"it was deleted, not evicted", evictionAsked, func(r scored) { r.drain(); ended(r) }, model.NotTested,
			"no Pod was seen to be evicted"},
		{"an eviction of another Service's Pod was refused", evictionAsked,
			func(r scored) { r.says(refusedEviction("shop", "api-1")); r.says(refusedEviction("bank", "web-1")) },
			model.NotTested, "no Pod was seen to be evicted"},
		{"it was refused for another reason", evictionAsked, func(r scored) {
			r.says(`error when evicting pods/"web-1" -n "shop" (will retry after 5s): ` +
				`Timeout: request did not complete`)
		}, model.NotTested, "no Pod was seen to be evicted"},

		{"a run has no word for it", about(timeline.PodEnds), ended, model.NotTested, "a run names no cause"},
		{"it may come about another time", about("", "pod-hung"), ended, model.NotTested, "does not refute it"},
		{"a later version's word", about("solar-flare", "pod-hung"), ended, model.NotTested,
			`does not know "solar-flare"`},

		// what predictions are about
		{"a Pod started", about(timeline.PodStarts, "startup-race"), func(r scored) {
			r.starts("web-3", 30*sec)
		}, model.Refuted, "a new Pod became a ready endpoint (1 time)"},
		{"a Pod came back", about(timeline.PodStarts, "startup-race"), func(r scored) {
			r.endpoint(30*sec, "web-1", timeline.EndpointNotReady, timeline.EndpointReady)
		}, model.NotTested, "no new Pod"},
		{"a Pod started just before the end", about(timeline.PodStarts, "startup-race"), func(r scored) {
			r.starts("web-3", 57*sec)
		}, model.NotTested, "too soon after it"},
		{"no endpoint for a while", about(timeline.LastEndpointGoes, "no-ready-endpoint/one-replica"), func(r scored) {
			r.Services[0].Endpoints = append(r.Services[0].Endpoints,
				model.EndpointStep{At: *at(20 * sec), Serving: 1}, model.EndpointStep{At: *at(22 * sec), Ready: 1})
		}, model.Refuted, "the last ready endpoint left (1 time)"},
		{"no endpoint any more", about(timeline.LastEndpointGoes, "no-ready-endpoint/one-replica"), func(r scored) {
			r.Services[0].Endpoints = append(r.Services[0].Endpoints, model.EndpointStep{At: *at(20 * sec)})
		}, model.NotTested, "too soon after it"},
		{"its node was drained", onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")),
			func(r scored) {
				r.ends("web-2", 20*sec, model.ByEviction)
			}, model.Refuted, "was evicted (1 time)"},
		{"another node was drained", onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")),
			func(r scored) {
				r.ends("web-1", 20*sec, model.ByEviction)
			}, model.NotTested, "evicted from its node (node2)"},
		{"a Pod was deleted", onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")), func(r scored) {
			r.ends("web-2", 20*sec, model.ByRequest)
		}, model.NotTested, "evicted from its node"},
		{"a Pod of a cordoned node was deleted",
			onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")), func(r scored) {
				r.ends("web-2", 20*sec, model.ByRequest)
				r.pod("web-2").Ending.Of = &timeline.Object{Kind: "Node", Name: "node2"}
			}, model.Refuted, ""},
		{"a Pod was deleted after its node was uncordoned",
			onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")), func(r scored) {
				r.event(17*sec, timeline.NodeSchedulable, "true", "false",
					timeline.Object{Kind: "Node", Name: "node2"})
				r.event(18*sec, timeline.NodeSchedulable, "false", "true",
					timeline.Object{Kind: "Node", Name: "node2"})
				r.ends("web-2", 20*sec, model.ByRequest)
			}, model.NotTested, "evicted from its node"},
		{"a Pod of a node that was tainted was deleted",
			onNode2(about(timeline.NodeDrained, "no-ready-endpoint/node-drained")), func(r scored) {
				r.event(19*sec, timeline.NodeReady, "true", "false", timeline.Object{Kind: "Node", Name: "node2"})
				r.ends("web-2", 20*sec, model.ByRequest)
			}, model.NotTested, "evicted from its node"},
		{"its node failed", onNode2(about(timeline.NodeFails, "node-unreachable")), func(r scored) {
			r.event(20*sec, timeline.NodeReady, "true", "unknown", timeline.Object{Kind: "Node", Name: "node2"})
		}, model.Refuted, "a node with a ready endpoint failed"},
		{"a node without endpoints failed", about(timeline.NodeFails, "node-unreachable"), func(r scored) {
			r.event(20*sec, timeline.NodeReady, "true", "unknown", timeline.Object{Kind: "Node", Name: "node3"})
		}, model.NotTested, "no node with a ready endpoint failed"},
		{"nodes were not watched", about(timeline.NodeFails, "node-unreachable"), func(r scored) {
			r.event(0, timeline.WatchLane, "on", "off", timeline.Object{Kind: "Node"})
		}, model.NotTested, "nodes were not watched"},
		{"its node was lost to a drain", onNode2(about(timeline.NodeLost, "no-ready-endpoint/node-drained")),
			func(r scored) {
				r.ends("web-2", 20*sec, model.ByTaint)
			}, model.Refuted, ""},
		{"a rollout", about(timeline.PodsReplaced, "replacement-waits"), func(r scored) {
			r.ends("web-2", 20*sec, model.ByRollout)
		}, model.Refuted, "a rollout replaced"},
		{"no rollout", about(timeline.PodsReplaced, "replacement-waits"), ended, model.NotTested,
			"no rollout replaced"},
		{"a liveness probe", about(timeline.LivenessFails, "pod-crashed/liveness"), func(r scored) {
			r.event(20*sec, timeline.KubeEvent, "", "Killing", timeline.Object{Kind: "Pod", Namespace: "shop",
				Name: "web-1", UID: "web-1"}).Detail = "Container server failed liveness probe, will be restarted"
		}, model.Refuted, "a liveness probe ended a container"},
		{"an end that nobody probed", about(timeline.LivenessFails, "pod-crashed/liveness"), func(r scored) {
			r.event(20*sec, timeline.KubeEvent, "", "Killing", timeline.Object{Kind: "Pod", Namespace: "shop",
				Name: "web-1", UID: "web-1"}).Detail = "Stopping container server"
		}, model.NotTested, "no liveness probe"},
		{"no endpoint on the prober's node", about(timeline.NodeWithout, "local-no-endpoint"),
			func(r scored) { r.ends("web-1", 20*sec, model.ByEviction); r.starts("web-3", 30*sec) }, model.Refuted,
			"the prober's node had no ready endpoint (1 time)"},
		{"one on the prober's node", about(timeline.NodeWithout, "local-no-endpoint"), func(r scored) {
			r.ends("web-2", 20*sec, model.ByEviction)
		}, model.NotTested, "all the time"},
	} {
		r := newScored(tt.prediction)
		tt.happens(r)
		Judge(r.Timeline, nil)
		if n := len(r.Scorecard.Predictions); n != 1 {
			t.Fatalf("%s: %d predictions", tt.name, n)
		}
		got := r.Scorecard.Predictions[0]
		if got.Outcome != tt.want || !strings.Contains(got.Why, tt.why) ||
			(got.Outcome == model.Confirmed &&
				got.Prediction.When != timeline.EvictionAsked) != (len(got.Incidents) > 0) {
			t.Errorf("%s: %s, incidents %v: %s; want %s: %s", tt.name, got.Outcome, got.Incidents, got.Why, tt.want,
				tt.why)
		}
	}
}

// The counts add up: what is accepted is a prediction, what is blind is none, confirmed ones come first.
func TestScorecardCounts(t *testing.T) {
	accepted, none, unseen := about(timeline.PodEnds, "grace-too-short"), about(timeline.PodEnds), about("")
	accepted.Accepted, unseen.Severity = "we know", "blind"
	r := newScored(none, accepted, unseen, staleRoute)
	r.ends("web-1", 20*sec, model.ByRequest)
	r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.High)
	Judge(r.Timeline, nil)
	c := r.Scorecard
	if c.Predicted != 3 || c.Confirmed != 1 || c.Refuted != 1 || c.NotTested != 1 || c.Missed != 0 {
		t.Errorf("%+v", *c)
	}
	if c.Predictions[0].Outcome != model.Confirmed || c.Predictions[1].Prediction.Accepted != "we know" {
		t.Errorf("order: %+v", c.Predictions)
	}
	if len(c.Unjudged) != 1 || c.Unjudged[0].Rule != "LP02" || c.Unjudged[0].Why != "no right to list nodes" {
		t.Errorf("unjudged: %+v", c.Unjudged)
	}
}

// Missed is an incident with a cause that a rule is there to predict, and no prediction of it.
func TestMissedIsWhatARuleCouldHavePredicted(t *testing.T) {
	for _, tt := range []struct {
		name, cause string
		confidence  model.Confidence
		predicted   []timeline.Prediction
		missed      int
		why         string
	}{
		{"not predicted", "route-outlives-pod", model.High, nil, 1, "LP05, LP06 found nothing of the kind"},
		{"predicted", "route-outlives-pod", model.High, []timeline.Prediction{staleRoute}, 0, ""},
		{"something else was predicted", "startup-race", model.Medium, []timeline.Prediction{staleRoute}, 1,
			"LP09 found nothing"},
		{"too little to say so", "route-outlives-pod", model.Low, nil, 0, ""},
		{"nobody predicts it", "pod-hung", model.High, nil, 0, ""},
		{"nobody predicts this reason", "no-ready-endpoint/scaled-to-0", model.High, nil, 0, ""},
		{"unexplained", "unexplained", model.Low, nil, 0, ""},
		{"the rule could not judge", "no-ready-endpoint/node-drained", model.High, nil, 1,
			"LP02 could not judge (no right to list nodes)"},
	} {
		r := newScored(tt.predicted...)
		r.incident(20*sec, 21*sec, model.Partial, "web new", tt.cause, tt.confidence)
		Judge(r.Timeline, nil)
		c := r.Scorecard
		if c.Missed != tt.missed || len(c.Misses) != tt.missed || tt.missed > 0 && !strings.Contains(c.Misses[0].Why,
			tt.why) {
			t.Errorf("%s: missed %d: %+v; want %d: %s", tt.name, c.Missed, c.Misses, tt.missed, tt.why)
		}
	}
	r := newScored()
	r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.High)
	r.Incidents[0].Causes = append(r.Incidents[0].Causes,
		model.IncidentCause{Cause: model.Cause{Rule: "startup-race", Confidence: model.High}})
	Judge(r.Timeline, nil)
	if c := r.Scorecard; c.Missed != 1 || len(c.Misses) != 2 {
		t.Errorf("two causes of one incident: missed %d: %+v", c.Missed, c.Misses)
	}
}

// An incident of two Services has a cause that only one of them has: nothing was to be predicted of the other.
func TestACauseIsOfTheServiceThatItsWindowsAreOf(t *testing.T) {
	r := newScored()
	r.incident(20*sec, 21*sec, model.Partial, "web new", "pod-hung", model.High)
	r.Targets = append(r.Targets, model.Target{Target: timeline.Target{Name: "api new", Kind: timeline.New, Service: "shop/api"}})
	r.Windows = append(r.Windows, model.Window{ID: 90, Target: "api new"})
	in := &r.Incidents[0]
	in.Targets, in.Windows = append(in.Targets, "api new"), append(in.Windows, 90)
	in.Causes = append(in.Causes,
		model.IncidentCause{Cause: model.Cause{Rule: "route-outlives-pod", Confidence: model.High}, Windows: []int{90}})
	Judge(r.Timeline, nil)
	if c := r.Scorecard; c.Missed != 0 {
		t.Errorf("missed %d of shop/web: %+v", c.Missed, c.Misses)
	}
}

// Without preflight there is no scorecard, and none while the run goes on; where it was not possible the scorecard
// says why.
func TestScorecardIsThereIfPreflightWasAsked(t *testing.T) {
	r := newScored(staleRoute)
	r.Run.Live = true
	if Judge(r.Timeline, nil); r.Scorecard != nil {
		t.Errorf("while the run goes on: %+v", *r.Scorecard)
	}
	r = newScored(staleRoute)
	r.Events = r.Events[1:]
	if Judge(r.Timeline, nil); r.Scorecard != nil {
		t.Errorf("without preflight: %+v", *r.Scorecard)
	}
	r = newScored(staleRoute)
	r.Events[0].Preflight, r.Events[0].To, r.Events[0].Detail = nil, timeline.PreflightNotDone,
		"the API server did not answer within 4s"
	Judge(r.Timeline, nil)
	if c := r.Scorecard; c == nil || c.Predicted != 0 || len(c.Unjudged) != 1 ||
		!strings.Contains(c.Unjudged[0].Why, "within 4s") {
		t.Errorf("not possible: %+v", c)
	}
}

// A run of a URL measures the Service that is watched beside it.
func TestPredictionsOfAWatchedServiceAreScoredByAURL(t *testing.T) {
	r := newScored(staleRoute)
	r.Targets[0].Service = ""
	r.incident(20*sec, 21*sec, model.Partial, "web new", "route-outlives-pod", model.High)
	Judge(r.Timeline, nil)
	if r.Scorecard.Confirmed != 1 {
		t.Errorf("%+v", *r.Scorecard)
	}
}
