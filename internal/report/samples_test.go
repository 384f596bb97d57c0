package report

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second
)

// samples are runs as the other parts of Lapse judge them, written out by hand.
var samples = map[string]func() *model.Timeline{
	"race":         race,
	"clean":        cleanRun,
	"inconclusive": inconclusive,
	"aborted":      aborted,
	"slow":         slow,
	"two-services": twoServices,
	"live":         live,
	"hostile":      hostileNames,
	"refused":      refused,
	"recurring":    recurring,
	"rollout":      rollout,
	"many":         many,
	"predicted":    predicted,
	"held":         heldConnections,
	"held-only":    heldOnly,
	"blind":        blind,
	"silent-node":  silentNode,
}

// blind is a run from two nodes over bare TCP, where no answer is awaited. One node observed a little less.
func blind() *model.Timeline {
	tl := cleanRun()
	for i := range tl.Targets {
		tl.Targets[i].Proves, tl.Targets[i].Blind = "somebody accepted a connection, whether or not the application answers on it", true
	}
	tl.Verdict.Blind = "blind: a success shows only that somebody accepted a connection"
	tl.Verdict.Nodes = []model.NodeCoverage{
		{Node: "node2", Coverage: 0.9983, Unobserved: 51 * ms, Target: "http://127.0.0.1:8080/healthz new"},
		{Node: "node1", Coverage: 1},
	}
	return tl
}

// silentNode is a run from three nodes. Of two of them too little was observed, and amid the failures the prober stood
// still.
func silentNode() *model.Timeline {
	tl := inconclusive()
	tl.Windows[0].NoEvidence = 72
	tl.Verdict.Nodes = []model.NodeCoverage{
		{Node: "node3"},
		{Node: "node2", Coverage: 0.9273, Unobserved: 4434 * ms, Target: "https://shop.example.com/ new"},
		{Node: "node1", Coverage: 1},
	}
	return tl
}

// heldConnections is the drain seen by connections that are kept open, beside new ones: some were cut as the Pod
// left, and one of them twice.
func heldConnections() *model.Timeline {
	tl := race()
	addTarget(tl, "web held", timeline.Held, 20, nil)
	tl.Targets[len(tl.Targets)-1].Connections = 100
	cut := func(conn int, at, after time.Duration, class string, warned bool) model.HeldCut {
		c := model.HeldCut{Conn: conn, Window: 2, Cut: model.Instant{Earliest: at - 2*s, Latest: at}, Class: class, Warned: warned, Idle: model.Length{Min: 2*s - ms, Max: 2 * s}, From: "web-5c9d7f-x2kzq"}
		if after > 0 {
			c.Back, c.After, c.To, c.Failed = &model.Instant{Earliest: at + after - ms, Latest: at + after}, &after, "web-5c9d7f-7fqwn", 1
		}
		return c
	}
	window := model.Window{
		ID: 2, Target: "web held", Kind: model.CutKind, Basis: model.Exact, Start: model.Instant{Earliest: 13*s + 400*ms, Latest: 18*s + 402*ms}, End: model.Instant{Earliest: 19*s + 430*ms, Latest: 19*s + 433*ms},
		Length: model.Length{Min: s + 28*ms, Max: 6*s + 33*ms}, Sent: 100, Failed: 40, Share: 0.4, Classes: map[string]int{"eof": 38, "reset": 3}, Cut: &model.Instant{Earliest: 18*s + 350*ms, Latest: 18*s + 402*ms},
		Causes: []model.Cause{{
			Rule: "pinned-connection", Confidence: model.High, Text: "web-5c9d7f-x2kzq ended the 40 connections that were pinned to it, 38 of them without a warning",
			Fix: "from SIGTERM on answer with Connection: close", Evidence: []model.Evidence{{Event: 7, At: &model.Instant{Earliest: 17*s + 300*ms, Latest: 18*s + 300*ms}, Text: "x2kzq was deleted"}}, Rivals: []string{},
		}},
	}
	back := model.Length{Min: 12 * ms, Max: s + 31*ms}
	tl.Held = []model.Held{{
		Target: "web held", Connections: 100, Heartbeat: 5 * s, Stood: 100, Standing: 99, Cut: 40, Unwarned: 38, Cuts: 41, Missing: 1, Back: &back, Attempts: 180, Failed: map[string]int{"refused": 39, "timeout_connect": 1},
		Before: map[string]int{"web-5c9d7f-7fqwn": 60, "web-5c9d7f-x2kzq": 40}, After: map[string]int{"web-5c9d7f-7fqwn": 61, "web-5c9d7f-m8v4t": 38}, Coverage: 1,
		List: []model.HeldCut{cut(3, 18*s+402*ms, 12*ms, "eof", true), cut(17, 18*s+402*ms, s+31*ms, "reset", false), cut(18, 18*s+403*ms, 0, "eof", false)}, Truncated: 38,
		Windows: []model.CutWindow{{Window: window, Cuts: 41, Unwarned: 38, Back: &back, Missing: 1, Attempts: 80, Refused: map[string]int{"refused": 39, "timeout_connect": 1}, Busiest: 79,
			From: map[string]int{"web-5c9d7f-x2kzq": 41}, To: map[string]int{"web-5c9d7f-7fqwn": 2, "web-5c9d7f-m8v4t": 38}}},
	}}
	tl.Incidents = append(slices.Clone(tl.Incidents), model.Incident{
		ID: 2, Windows: []int{2}, Targets: []string{"web held"}, Start: window.Start, End: window.End, Cut: 40, Classes: map[string]int{}, Triggers: []model.Trigger{},
		Causes: []model.IncidentCause{{Cause: window.Causes[0], Windows: []int{2}, Cut: 40}},
	})
	tl.Verdict.Held = verdict.HeldFound(tl)
	return tl
}

// heldOnly is the drain seen by connections that are kept open alone: no request is judged, and none was sent.
func heldOnly() *model.Timeline {
	full := heldConnections()
	tl := base(full.Run.Duration)
	tl.Run.Services, tl.Run.Command, tl.Held = full.Run.Services, full.Run.Command, full.Held
	addTarget(tl, "web held", timeline.Held, 20, nil).Connections = 100
	addTarget(tl, "control", timeline.Control, 100, nil)
	verdict.Judge(tl, nil)
	return tl
}

// help returns what would make a run conclusive: the last caveat.
func help(tl *model.Timeline) string {
	lines := caveats(tl)
	return lines[len(lines)-1]
}

// predicted is the drain with what preflight had said before, and all that a patch needs.
func predicted() *model.Timeline {
	tl := race()
	tl.Windows[0].Causes[0].Sleep = &model.Sleep{Pod: "web-5c9d7f-x2kzq", PodUID: "uid-2", Measured: 79 * ms, Bounds: model.Length{Min: 71 * ms, Max: 83 * ms}, Margin: s}
	tl.Pods[1].Owner, tl.Pods[1].Template = "ReplicaSet/web-5c9d7f", "t1"
	owner := timeline.Object{Kind: "ReplicaSet", Namespace: "shop", Name: "web-5c9d7f"}
	tl.Events = append(tl.Events,
		model.Event{Event: timeline.Event{ID: 101, Kind: timeline.SnapshotTaken, Object: owner, Snapshot: &timeline.Snapshot{Workload: &timeline.Workload{Owner: "Deployment/web", Replicas: 2}}}},
		model.Event{Event: timeline.Event{ID: 102, Kind: timeline.SnapshotTaken, Object: owner, Snapshot: &timeline.Snapshot{Template: &timeline.PodTemplate{ID: "t1", Grace: 30 * s, Containers: []timeline.Container{{Name: "server"}}}}}},
	)
	tl.KeepServing = &model.KeepServing{Failed: 64, Left: []model.ServedLonger{{Longer: 100 * ms}}}
	prediction := func(rule, name, severity, text, evidence, fix string) timeline.Prediction {
		return timeline.Prediction{Rule: rule, Name: name, Severity: severity, Text: text, Evidence: []string{evidence}, Fix: fix, Causes: []string{"route-outlives-pod"}, When: timeline.PodEnds}
	}
	accepted := prediction("LP13", "unusual-service", "may-lose", "a client stays with one Pod", "Service/web: spec.sessionAffinity = ClientIP for 3h0m0s", "no affinity")
	accepted.Accepted = "the shop's carts need it"
	tl.Scorecard = &model.Scorecard{
		Predicted: 4, Confirmed: 1, Refuted: 1, NotTested: 2, Missed: 1,
		Predictions: []model.ScoredPrediction{
			{Service: "shop/web", Outcome: model.Confirmed, Why: "incident 1: route-outlives-pod [high]", Incidents: []int{1},
				Prediction: prediction("LP05", "no-prestop", "may-lose", "whenever a Pod ends, 1 in 2 requests may fail until routes to it are gone", "Pod/web-5c9d7f-7fqwn: spec.containers[server].lifecycle.preStop = none", "preStop: {sleep: {seconds: 5}}")},
			{Service: "shop/web", Outcome: model.Refuted, Why: "a new Pod became a ready endpoint (1 time), and no incident has the cause startup-race",
				Prediction: prediction("LP09", "weak-probes", "may-lose", "a new Pod is ready when its container has started", "Pod/web-5c9d7f-7fqwn: spec.containers[server].readinessProbe = none", "a readinessProbe")},
			{Service: "shop/web", Outcome: model.NotTested, Why: "a run names no cause that would confirm it",
				Prediction: prediction("LP16", "drain-refuses", "will-block", "kubectl drain refuses these Pods", "Pod/web-5c9d7f-7fqwn: spec.volumes = emptyDir: tmp", "drain with --delete-emptydir-data")},
			{Service: "shop/web", Outcome: model.NotTested, Why: "a Pod with a ready endpoint was deleted (1 time), but incident 1 could hide it", Prediction: accepted},
		},
		Misses:   []model.Miss{{Service: "shop/web", Incident: 1, Cause: "grace-too-short", Why: "LP07 found nothing of the kind"}},
		Unjudged: []model.UnjudgedRule{{Service: "shop/web", Rule: "LP04", Why: "no right to list poddisruptionbudgets.policy"}, {Service: "shop/web", Rule: "LP03", Why: "no right to list poddisruptionbudgets.policy"}, {Service: "shop/web", Rule: "LP19", Why: "no right to get configmaps/kube-proxy"}, {Service: "shop/cart", Rule: "LP19", Why: "no right to get configmaps/kube-proxy"}},
	}
	return tl
}

// race is a drain that the app does not survive gracefully: it stops listening before the routes change.
func race() *model.Timeline {
	tl := base(80 * s)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web", ClusterIP: "10.96.0.20", Ports: []string{"80/TCP → http"}}}
	tl.Run.Cluster = &timeline.Cluster{Version: "v1.37.2", ProxyMode: "iptables"}
	tl.Run.Baseline, tl.Run.Settle = 10*s, 20*s
	tl.Run.Command = &model.Command{
		Args:  []string{"kubectl", "drain", "node-b", "--ignore-daemonsets"},
		Start: new(10*s + 31*ms), End: new(44*s + 812*ms), ExitCode: new(0),
	}
	addTarget(tl, "web new", timeline.New, 500, fails{{18, 64}})
	addTarget(tl, "web reused", timeline.Reused, 500, nil)
	addDirect(tl, "web-5c9d7f-7fqwn", "uid-1", "node-a", 0, 80*s, nil)
	addDirect(tl, "web-5c9d7f-x2kzq", "uid-2", "node-b", 0, 19*s, fails{{18, 250}, {19, 400}})
	addDirect(tl, "web-5c9d7f-m8v4t", "uid-3", "node-c", 14*s, 80*s, nil)
	addTarget(tl, "control", timeline.Control, 100, nil)
	tl.Windows = []model.Window{{
		ID: 1, Target: "web new", Kind: model.Partial, Basis: model.Statistical,
		Start: model.Instant{Earliest: 18*s + 306*ms, Latest: 18*s + 314*ms}, End: model.Instant{Earliest: 18*s + 387*ms, Latest: 18*s + 397*ms},
		Length: model.Length{Min: 73 * ms, Max: 91 * ms}, Sent: 128, Failed: 64, Share: 0.5,
		Downtime: model.Length{Min: 37 * ms, Max: 45 * ms}, Blackout: &model.Length{Min: 9 * ms, Max: 14 * ms},
		Classes: map[string]int{"refused": 60, "timeout_connect": 4}, Backends: map[string]int{"web-5c9d7f-7fqwn": 64},
		Causes: []model.Cause{{
			Rule: "route-outlives-pod", Confidence: model.High,
			Text: "node-c still routed to web-5c9d7f-x2kzq for 71 ms after it stopped",
			Fix:  "keep serving for at least 0.2 s after SIGTERM: a preStop sleep of 1 s covers what was seen here more than ten times",
			Evidence: []model.Evidence{
				{Event: 9, At: &model.Instant{Earliest: 18*s + 371*ms, Latest: 18*s + 383*ms}, Text: "the endpoint of x2kzq turned terminating"},
				{Target: "web direct web-5c9d7f-x2kzq", At: &model.Instant{Earliest: 18*s + 304*ms, Latest: 18*s + 308*ms}, Text: "x2kzq stopped answering on its own address"},
				{Event: 7, At: &model.Instant{Earliest: 17*s + 300*ms, Latest: 18*s + 300*ms}, Text: "deletion of x2kzq was requested, grace period 30 s"},
				{Target: "web direct web-5c9d7f-7fqwn", Text: "7fqwn answered every request on its own address meanwhile"},
			},
			Rivals: []string{"no-ready-endpoint: 1 endpoint was ready throughout"},
		}},
	}}
	tl.Failures = []model.Failure{
		{Target: "web new", Seq: 9157, Due: 18*s + 314*ms, Sent: 18*s + 314*ms, Done: 18*s + 315*ms, Class: timeline.Refused, Connect: 412 * time.Microsecond},
		{Target: "web new", Seq: 9159, Due: 18*s + 318*ms, Sent: 18*s + 318*ms, Done: 19*s + 118*ms, Class: timeline.TimeoutConnect},
	}
	tl.FailuresTruncated = 62
	tl.Pods = []model.Pod{
		{Namespace: "shop", Name: "web-5c9d7f-7fqwn", UID: "uid-1", Node: "node-a", IP: "10.244.1.7", States: lane("0s ready")},
		{Namespace: "shop", Name: "web-5c9d7f-x2kzq", UID: "uid-2", Node: "node-b", IP: "10.244.2.9",
			Deleted: &model.Instant{Earliest: 17*s + 300*ms, Latest: 18*s + 300*ms},
			Stopped: &model.Instant{Earliest: 18*s + 304*ms, Latest: 18*s + 308*ms}, ExitCode: new(0), FirstOK: new(2 * ms), LastOK: new(18*s + 304*ms),
			States: lane("0s ready, 18.3s terminating+serving, 18.306s terminating, 19.6s gone")},
		{Namespace: "shop", Name: "web-5c9d7f-m8v4t", UID: "uid-3", Node: "node-c", IP: "10.244.3.4",
			States: lane("12.1s pending, 12.2s creating, 13.4s running, 16.5s ready")},
	}
	tl.Events = events(
		timeline.Event{Seen: 0, Kind: timeline.RunPhase, To: "baseline"},
		endpoint(20*ms, "uid-1", "10.244.1.7", timeline.EndpointReady),
		endpoint(20*ms, "uid-2", "10.244.2.9", timeline.EndpointReady),
		timeline.Event{Seen: 10 * s, Kind: timeline.RunPhase, From: "baseline", To: "measuring"},
		timeline.Event{Seen: 10*s + 31*ms, Kind: timeline.Command, To: "running", Detail: "kubectl drain node-b --ignore-daemonsets"},
		endpoint(16*s+520*ms, "uid-3", "10.244.3.4", timeline.EndpointReady),
		timeline.Event{Seen: 18*s + 300*ms, Kind: timeline.PodDeleted, Grace: new(30 * s), Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-5c9d7f-x2kzq", UID: "uid-2", Node: "node-b"}},
		timeline.Event{Seen: 18*s + 340*ms, Kind: timeline.CommandOutput, Detail: "evicting pod shop/web-5c9d7f-x2kzq"},
		endpoint(18*s+383*ms, "uid-2", "10.244.2.9", timeline.EndpointTerminating),
		endpoint(19*s+600*ms, "uid-2", "10.244.2.9", timeline.EndpointAbsent),
		timeline.Event{Seen: 44*s + 812*ms, Kind: timeline.Command, From: "running", To: "exited"},
		timeline.Event{Seen: 44*s + 813*ms, Kind: timeline.RunPhase, From: "measuring", To: "settling"},
		timeline.Event{Seen: 80 * s, Kind: timeline.RunPhase, From: "settling", To: "ended"},
	)
	tl.Services = cluster.Services(tl.Events)
	tl.Hammer = &model.Hammer{Args: "-c 50 -q 20", Start: new(2 * ms), End: new(70*s + 3*ms), Summary: &model.HammerSummary{
		Duration: 70 * s, Requests: 69874, Rate: 998.2, Bytes: 838344,
		Latency:  &model.HammerLatency{Mean: 2100 * time.Microsecond, Min: 204 * time.Microsecond, P50: ms, P90: 4 * ms, P95: 8 * ms, P99: 31 * ms, Max: 1043200 * time.Microsecond},
		Statuses: map[string]int{"200": 69860, "503": 2}, Errors: map[string]int{"dial tcp 10.96.0.20:80: connect: connection refused": 12},
	}}
	tl.Verdict = model.Verdict{
		Result: model.Fail, ExitCode: 3, Reasons: []string{}, Sent: 80000, Failed: 64, ErrorRate: 0.0008, Windows: 1,
		Gates: []model.GateResult{
			{Expr: "failed > 0", Metric: "failed", Unit: model.Count, Outcome: model.GateFail, Value: &model.Range{Min: 64, Max: 64}},
			{Expr: "coverage < 99.9%", Metric: "coverage", Unit: model.Ratio, Outcome: model.GatePass, Value: &model.Range{Min: 0.9998, Max: 0.9998}},
		},
		Downtime: model.Downtime{Total: model.Length{Min: 37 * ms, Max: 45 * ms}}, LongestWindow: &model.Length{Min: 73 * ms, Max: 91 * ms},
		DetectionLimit: 6 * ms, Coverage: 0.9998, LatencyP99: new(38 * ms),
		Validity: model.Validity{Late: 0.0002, Control: "ok"},
	}
	return tl
}

// cleanRun is a run against a URL, without a cluster, in which nothing failed.
func cleanRun() *model.Timeline {
	tl := base(30 * s)
	tl.Run.URLs = []string{"http://127.0.0.1:8080/healthz"}
	addTarget(tl, "http://127.0.0.1:8080/healthz new", timeline.New, 100, nil)
	addTarget(tl, "http://127.0.0.1:8080/healthz reused", timeline.Reused, 100, nil)
	tl.Verdict = model.Verdict{
		Result: model.Pass, Reasons: []string{}, Sent: 6000, DetectionLimit: 21300 * time.Microsecond, Coverage: 1, LatencyP99: new(38 * ms),
		Gates:    []model.GateResult{{Expr: "failed > 0", Metric: "failed", Unit: model.Count, Outcome: model.GatePass, Value: &model.Range{}}},
		Validity: model.Validity{Control: "ok"},
	}
	return tl
}

// inconclusive is a run whose prober was starved.
func inconclusive() *model.Timeline {
	tl := base(60 * s)
	tl.Run.URLs = []string{"https://shop.example.com/"}
	addTarget(tl, "https://shop.example.com/ new", timeline.New, 200, fails{{31, 180}})
	silence(tl, "https://shop.example.com/ new", 32, 36)
	tl.Targets[0].AchievedRate = 186.2
	for i := range 12 {
		start := time.Duration(i)*s + 400*ms
		tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: "https://shop.example.com/ new", Start: start, End: start + time.Duration(20+i)*ms, Reason: "not sent"})
	}
	tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: "https://shop.example.com/ new", Start: 32 * s, End: 36*s + 120*ms, Reason: "prober stalled"})
	tl.Windows = []model.Window{{
		ID: 1, Target: "https://shop.example.com/ new", Kind: model.Outage, Basis: model.Exact,
		Start: model.Instant{Earliest: 31*s + 95*ms, Latest: 31*s + 101*ms}, End: model.Instant{Earliest: 32 * s, Latest: 36*s + 120*ms},
		Length: model.Length{Min: 899 * ms, Max: 5*s + 25*ms}, Sent: 180, Failed: 180, Share: 1, Open: model.Open{End: true},
		Most:     &model.Most{Length: 5*s + 36*ms, Downtime: 5*s + 36*ms},
		Downtime: model.Length{Min: 899 * ms, Max: 5*s + 25*ms}, Classes: map[string]int{"timeout_response": 180},
		Causes: []model.Cause{{
			Rule: "unexplained", Confidence: model.Low, Text: "no cause found",
			Evidence: []model.Evidence{}, Rivals: []string{"prober-fault: the control target stalled only 0.9 s later"},
		}},
	}}
	tl.Verdict = model.Verdict{
		Result: model.Inconclusive, ExitCode: 4, Sent: 11180, Failed: 180, ErrorRate: 180.0 / 11180, Windows: 1,
		Reasons: []string{"coverage 92.73 % is below the required 99 %: downtime in unobserved time cannot be excluded", "gate window.longest > 1s: the error bars (899 ms to 5.03 s) cannot decide it"},
		Gates: []model.GateResult{
			{Expr: "window.longest > 1s", Metric: "window.longest", Unit: model.Duration, Outcome: model.GateUndecided, Value: &model.Range{Min: 899e6, Max: 5025e6}},
			{Expr: "errors.rate > 5%", Metric: "errors.rate", Unit: model.Ratio, Outcome: model.GatePass, Value: &model.Range{Min: 180.0 / 11180, Max: 180.0 / 11180}},
			{Expr: "latency.p99 > 1s", Metric: "latency.p99", Unit: model.Duration, Outcome: model.GateUndecided},
		},
		Downtime: model.Downtime{Total: model.Length{Min: 899 * ms, Max: 5*s + 25*ms}}, DetectionLimit: 31 * ms, Coverage: 0.9273,
		Validity: model.Validity{Late: 0.083, NotSent: 820, Stalls: 1, Unobserved: 4434 * ms, Control: "stalled 1 time, 4.12 s in all"},
	}
	tl.Verdict.Reasons = append(tl.Verdict.Reasons, help(tl))
	return tl
}

// recurring is a run in which a worker is recycled every 6 s: nothing in the cluster says so.
func recurring() *model.Timeline {
	tl := base(30 * s)
	tl.Run.URLs = []string{"https://shop.example.com/"}
	const target = "https://shop.example.com/ new"
	addTarget(tl, target, timeline.New, 100, fails{{4, 5}, {10, 5}, {16, 5}, {22, 5}})
	for i := range 4 {
		from := time.Duration(4+6*i) * s
		tl.Windows = append(tl.Windows, model.Window{
			ID: i + 1, Target: target, Kind: model.Outage, Basis: model.Exact, Start: model.Instant{Earliest: from - 9*ms, Latest: from}, End: model.Instant{Earliest: from + 40*ms, Latest: from + 50*ms},
			Length: model.Length{Min: 40 * ms, Max: 59 * ms}, Downtime: model.Length{Min: 40 * ms, Max: 59 * ms}, Sent: 5, Failed: 5, Share: 1, Classes: map[string]int{"reset": 5},
			Causes: []model.Cause{{
				Rule: "unexplained", Confidence: model.Low, Text: "no known cause matches; the cluster was not watched", Fix: "watch the cluster as well: --watch svc/NAME",
				Evidence: []model.Evidence{}, Rivals: []string{},
			}},
		})
	}
	tl.Verdict = model.Verdict{
		Result: model.Fail, ExitCode: 3, Reasons: []string{"gate failed > 0 failed: 20"}, Sent: 3000, Failed: 20, ErrorRate: 20.0 / 3000, Windows: 4,
		Gates:    []model.GateResult{{Expr: "failed > 0", Metric: "failed", Unit: model.Count, Outcome: model.GateFail, Value: &model.Range{Min: 20, Max: 20}}},
		Downtime: model.Downtime{Total: model.Length{Min: 160 * ms, Max: 236 * ms}}, LongestWindow: &model.Length{Min: 40 * ms, Max: 59 * ms},
		DetectionLimit: 11 * ms, Coverage: 1, LatencyP99: new(38 * ms), Validity: model.Validity{Control: "ok"},
	}
	return tl
}

// aborted is a run that was interrupted while everything failed.
func aborted() *model.Timeline {
	tl := base(24*s + 400*ms)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}}
	tl.Run.Aborted = "interrupted (SIGINT)"
	tl.Run.Command = &model.Command{Args: []string{"kubectl", "rollout", "restart", "deployment/web"}, Start: new(10 * s)}
	addTarget(tl, "web new", timeline.New, 100, fails{{11, 60}, {12, 100}, {13, 100}, {14, 100}, {15, 100}, {16, 100}, {17, 100}, {18, 100}, {19, 100}, {20, 100}})
	silence(tl, "web new", 21, 24)
	tl.Targets[0].Measured.Latest = 21 * s
	tl.Targets[0].FailedAddresses = []model.FailedAddress{{
		Addr: "10.0.143.22", Class: "refused", Text: "connect: connection refused", Connections: 1, During: model.Instant{Earliest: 10 * s, Latest: 10*s + ms},
	}}
	tl.Unobserved = []model.Unobserved{{Target: "web new", Start: 21 * s, End: 24*s + 400*ms, Reason: "run ended early"}}
	tl.Windows = []model.Window{{
		ID: 1, Target: "web new", Kind: model.Outage, Basis: model.Exact,
		Start: model.Instant{Earliest: 11*s + 391*ms, Latest: 11*s + 402*ms}, End: model.Instant{Earliest: 20*s + 990*ms, Latest: 21 * s},
		Length: model.Length{Min: 9588 * ms, Max: 9609 * ms}, Sent: 960, Failed: 960, Share: 1, Open: model.Open{End: true},
		Downtime: model.Length{Min: 9588 * ms, Max: 9609 * ms}, Classes: map[string]int{"refused": 12, "timeout_connect": 948},
		Causes: []model.Cause{{
			Rule: "no-ready-endpoint", Confidence: model.High, Text: "svc shop/web had no ready endpoint: its only Pod ended before its replacement was ready",
			Fix:      "run at least 2 replicas",
			Evidence: []model.Evidence{{Event: 3, At: &model.Instant{Earliest: 10*s + 390*ms, Latest: 11*s + 390*ms}, Text: "the last ready endpoint left"}},
			Rivals:   []string{},
		}},
	}}
	tl.Pods = []model.Pod{
		{Namespace: "shop", Name: "web-0", UID: "uid-0", Node: "ip-10-0-143-22.eu-central-1.compute.internal", States: lane("0s ready, 11.4s terminating, 12.9s gone, 13s pending, 13.2s creating, 15s running, 16s crashed")},
	}
	tl.Events = events(
		timeline.Event{Seen: 0, Kind: timeline.RunPhase, To: "baseline"},
		endpoint(15*ms, "uid-0", "10.244.1.7", timeline.EndpointReady),
		endpoint(11*s+390*ms, "uid-0", "10.244.1.7", timeline.EndpointTerminating),
	)
	tl.Events[2].From = timeline.EndpointReady
	tl.Services = cluster.Services(tl.Events)
	tl.Verdict = model.Verdict{
		Result: model.Inconclusive, ExitCode: 6, Sent: 2100, Failed: 960, ErrorRate: 960.0 / 2100, Windows: 1,
		Reasons: []string{"the run was aborted: interrupted (SIGINT)"}, Gates: []model.GateResult{},
		Downtime: model.Downtime{Total: model.Length{Min: 9588 * ms, Max: 9609 * ms}}, DetectionLimit: 22 * ms, Coverage: 0.8606,
		Validity: model.Validity{Control: "ok", LanesOff: []string{"Node", "Event"}, WatchGaps: 1},
	}
	return tl
}

// refused is a drain that a PodDisruptionBudget did not allow: nothing happened, and the prober was short of CPU
// besides.
func refused() *model.Timeline {
	tl := base(30 * s)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}}
	tl.Run.Command = &model.Command{Args: []string{"kubectl", "drain", "node2", "--timeout", "15s"}, Start: new(10 * s), End: new(25 * s), ExitCode: new(1)}
	addTarget(tl, "web new", timeline.New, 100, nil)
	addTarget(tl, "web reused", timeline.Reused, 100, nil)
	for i := range 40 {
		start := time.Duration(i)*700*ms + 13*ms
		tl.Unobserved = append(tl.Unobserved, model.Unobserved{Target: "web new", Start: start, End: start + 26*ms, Reason: "not sent"})
	}
	evicting := `error when evicting pods/"web-1" -n "shop" (will retry after 5s): Cannot evict pod as it would violate the pod's disruption budget.`
	tl.Events = events(
		timeline.Event{Seen: 10 * s, Kind: timeline.Command, To: "running", Detail: "kubectl drain node2 --timeout 15s"},
		timeline.Event{Seen: 10*s + 90*ms, Kind: timeline.CommandOutput, Detail: "node/node2 cordoned"},
		timeline.Event{Seen: 10*s + 200*ms, Kind: timeline.CommandOutput, Detail: evicting},
		timeline.Event{Seen: 15*s + 200*ms, Kind: timeline.CommandOutput, Detail: evicting},
		timeline.Event{Seen: 25 * s, Kind: timeline.CommandOutput, Detail: "error: unable to drain node \"node2\" due to error: global timeout reached: 15s"},
		timeline.Event{Seen: 25 * s, Kind: timeline.Command, From: "running", To: "exited", ExitCode: new(1)},
	)
	tl.Services = cluster.Services(tl.Events)
	tl.Verdict = model.Verdict{
		Result: model.Inconclusive, ExitCode: 4, Sent: 5960,
		Reasons:        []string{"coverage 96.53 % is below the required 99 %: downtime in unobserved time cannot be excluded"},
		Gates:          []model.GateResult{{Expr: "failed > 0", Metric: "failed", Unit: model.Count, Outcome: model.GatePass, Value: &model.Range{}}},
		DetectionLimit: 31 * ms, Coverage: 0.9653,
		Validity: model.Validity{Late: 0.012, NotSent: 40, Unobserved: 1040 * ms, Control: "ok"},
	}
	tl.Verdict.Reasons = append(tl.Verdict.Reasons, help(tl))
	return tl
}

// rollout is a rolling restart that three Pods do not survive gracefully, seen by both targets.
func rollout() *model.Timeline {
	tl := race()
	tl.Hammer = nil
	tl.Run.Command.Args = []string{"kubectl", "rollout", "restart", "deployment/web"}
	first := tl.Windows[0]
	tl.Windows = nil
	for i := range 9 {
		w := first
		w.ID, w.Target = i+1, []string{"web new", "web reused"}[i%2]
		w.Start = model.Instant{Earliest: first.Start.Earliest + time.Duration(i)*s, Latest: first.Start.Latest + time.Duration(i)*s}
		w.End = model.Instant{Earliest: first.End.Earliest + time.Duration(i)*s, Latest: first.End.Latest + time.Duration(i)*s}
		w.Causes = slices.Clone(first.Causes)
		w.Causes[0].Fix = "keep serving ≥ 1.2 s after SIGTERM (a preStop sleep, or a delay before shutting down)"
		w.Causes[0].Text = fmt.Sprintf("node-c still routed to web-5c9d7f-x2kzq for %d ms after it stopped", 71+i)
		switch i {
		case 1, 3:
			w.Causes[0].Text = first.Causes[0].Text
		case 4:
			w.Causes = []model.Cause{{Rule: "unexplained", Confidence: model.Low, Text: "no known cause matches: 3 changes within 2 s of its onset", Rivals: []string{}, Evidence: []model.Evidence{}}}
		case 7, 8:
			w.Downtime = model.Length{Min: ms, Max: 2 * ms} // the least: they are not told in full
		}
		tl.Windows = append(tl.Windows, w)
	}
	tl.Verdict.Windows = 5
	tl.Verdict.Failed, tl.Verdict.Gates[0].Value = 576, &model.Range{Min: 576, Max: 576}
	tl.Verdict.Downtime.Total = model.Length{Min: 149 * ms, Max: 182 * ms}
	return tl
}

// slow is a run in which no request failed, but some took as long as a SYN retransmission.
func slow() *model.Timeline {
	tl := base(20 * s)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}}
	addTarget(tl, "web new", timeline.New, 250, nil)
	addTarget(tl, "web reused", timeline.Reused, 250, nil)
	tl.Targets[0].FailedAddresses = []model.FailedAddress{{
		Addr: "2001:db8::9", Class: "timeout_connect", Text: "i/o timeout", Connections: 9, During: model.Instant{Earliest: 7*s + 6*ms, Latest: 8*s + 42*ms},
	}}
	tl.Targets[1].NewConnections = 501
	tl.Windows = []model.Window{{
		ID: 1, Target: "web new", Kind: model.Slow, Basis: model.Exact,
		Start: model.Instant{Earliest: 7*s + 2*ms, Latest: 7*s + 10*ms}, End: model.Instant{Earliest: 8*s + 40*ms, Latest: 8*s + 44*ms},
		Length: model.Length{Min: 1030 * ms, Max: 1042 * ms}, Sent: 260, Slow: 9, Share: 9.0 / 260, Classes: map[string]int{},
		Causes: []model.Cause{},
	}}
	tl.Verdict = model.Verdict{
		Result: model.Ungated, Reasons: []string{}, Gates: []model.GateResult{}, Sent: 5000, DetectionLimit: 8400 * time.Microsecond, Coverage: 1,
		Validity: model.Validity{Control: "ok"},
	}
	return tl
}

// twoServices is a drain that touches two Services, wrapped around a command that failed.
func twoServices() *model.Timeline {
	tl := base(6*time.Minute + 40*s)
	tl.Run.Services = []timeline.Service{{Namespace: "shop", Name: "web"}, {Namespace: "payments-production", Name: "authorization-gateway"}}
	tl.Run.Command = &model.Command{Args: []string{"kubectl", "drain", "node-b"}, Start: new(350 * s), End: new(352 * s), ExitCode: new(1)}
	addTarget(tl, "web new", timeline.New, 500, fails{{352, 3}})
	addTarget(tl, "web reused", timeline.Reused, 500, fails{{352, 2}})
	addTarget(tl, "payments-production/authorization-gateway new", timeline.New, 500, fails{{353, 499}, {354, 20}})
	for i, w := range []struct {
		target   string
		from, to time.Duration
		failed   int
		class    string
	}{
		{"web new", 352*s + 100*ms, 352*s + 104*ms, 3, "refused"},
		{"web reused", 352*s + 101*ms, 352*s + 101*ms, 2, "eof"},
		{"payments-production/authorization-gateway new", 353 * s, 354*s + 40*ms, 519, "timeout_connect"},
	} {
		length := model.Length{Min: max(0, w.to-w.from-2*ms), Max: w.to - w.from + 2300*time.Microsecond}
		tl.Windows = append(tl.Windows, model.Window{
			ID: i + 1, Target: w.target, Kind: model.Outage, Basis: model.Exact,
			Start: model.Instant{Earliest: w.from - 2*ms, Latest: w.from}, End: model.Instant{Earliest: w.to, Latest: w.to + 2*ms},
			Length: length, Downtime: length, Sent: w.failed, Failed: w.failed, Share: 1, Classes: map[string]int{w.class: w.failed},
			Causes: []model.Cause{{Rule: "unexplained", Confidence: model.Low, Text: "no cause found", Evidence: []model.Evidence{}, Rivals: []string{}}},
		})
	}
	tl.Verdict = model.Verdict{
		Result: model.Ungated, ExitCode: 5, Reasons: []string{"the wrapped command failed with exit code 1"}, Gates: []model.GateResult{},
		Sent: 600000, Failed: 524, ErrorRate: 524.0 / 600000, Windows: 1, Downtime: model.Downtime{Total: tl.Windows[2].Length},
		DetectionLimit: 4 * ms, Coverage: 0.99991, Validity: model.Validity{Control: "ok"},
	}
	return tl
}

// live is a run that goes on, in the middle of an outage.
func live() *model.Timeline {
	tl := race()
	tl.Run.Live, tl.Run.Duration = true, 18*s+370*ms
	for name, series := range tl.Buckets.Targets {
		tl.Buckets.Targets[name] = model.BucketSeries{Sent: series.Sent[:19], Failed: series.Failed[:19], Unobserved: series.Unobserved[:19], Latency: series.Latency[:19]}
	}
	tl.Run.Command.End, tl.Run.Command.ExitCode = nil, nil
	w := &tl.Windows[0]
	w.Live, w.Open.End = true, true
	w.Length = model.Length{Min: 30 * ms, Max: 64 * ms}
	w.End = model.Instant{Earliest: 18*s + 344*ms, Latest: 18*s + 370*ms}
	w.Causes, w.Sent, w.Failed = []model.Cause{}, 52, 26
	w.Downtime = model.Length{Min: 15 * ms, Max: 32 * ms}
	for i := range tl.Targets {
		tl.Targets[i].Measured.Latest = min(tl.Targets[i].Measured.Latest, tl.Run.Duration)
		tl.Targets[i].Sent = int(tl.Targets[i].Rate * 18.37)
		tl.Targets[i].Failed = min(tl.Targets[i].Failed, 26)
	}
	tl.Events = tl.Events[:9]
	tl.Services = cluster.Services(tl.Events)
	tl.Hammer = nil
	tl.Verdict.Gates, tl.Verdict.Failed, tl.Verdict.Downtime.Total = []model.GateResult{}, 26, w.Downtime
	return tl
}

// hostileNames is a run in which everything that comes from outside tries to write to the terminal.
func hostileNames() *model.Timeline {
	evil := "\x1b]0;owned\x07\x1b[2J\x1b[32m PASS \u202egnp.exe\u009b31m\r\n\xff\u0301ж漢"
	tl := race()
	tl.Run.Services[0].Name = evil
	tl.Run.Aborted = evil
	tl.Run.Command.Args = append(tl.Run.Command.Args, evil)
	tl.Verdict.Gates[0].Expr = evil
	tl.Verdict.Validity.Control = evil
	tl.Verdict.Validity.LanesOff = []string{evil}
	tl.Hammer.Error, tl.Hammer.Args, tl.Hammer.Summary.Errors, tl.Hammer.Summary.Statuses = evil, evil, map[string]int{evil: 1}, map[string]int{evil: 2}
	w := &tl.Windows[0]
	w.Classes = map[string]int{evil: 3}
	w.Causes[0].Text, w.Causes[0].Fix, w.Causes[0].Rivals[0], w.Causes[0].Evidence[0].Text = evil, evil, evil, evil
	tl.Unobserved = []model.Unobserved{{Target: evil, Start: 1 * s, End: 2 * s, Reason: evil}}
	for i := range tl.Pods {
		tl.Pods[i].Name += evil
		tl.Pods[i].Node += evil
	}
	series := tl.Buckets.Targets["web new"]
	tl.Targets[0].Name = evil
	tl.Buckets.Targets[evil] = series
	return tl
}

// many is a run with more of everything than a screen can hold.
func many() *model.Timeline {
	tl := race()
	for i := range 60 {
		w := tl.Windows[0]
		shift := time.Duration(i) * 700 * ms
		w.ID, w.Start, w.End = i+2, model.Instant{Earliest: 20*s + shift, Latest: 20*s + shift + ms}, model.Instant{Earliest: 20*s + shift + 4*ms, Latest: 20*s + shift + 5*ms}
		w.Length, w.Downtime = model.Length{Min: 3 * ms, Max: 5 * ms}, model.Length{Min: ms, Max: time.Duration(i%7+2) * ms}
		tl.Windows = append(tl.Windows, w)
	}
	for i := range 40 {
		pod := tl.Pods[i%2]
		pod.Name, pod.UID = pod.Name+string(rune('a'+i)), pod.UID+string(rune('a'+i))
		tl.Pods = append(tl.Pods, pod)
	}
	return tl
}

// base is a run of some length that measured nothing yet.
func base(duration time.Duration) *model.Timeline {
	t0 := time.Date(2026, 11, 21, 2, 20, 40, 0, time.UTC)
	return &model.Timeline{
		SchemaVersion: model.SchemaVersion, Tool: model.Tool{Name: "lapse", Version: "0.1.0"}, T0: t0,
		Run: model.RunInfo{
			ID: "20261121T022040Z-7d1", Duration: duration, Timeout: 800 * ms, Join: s, Slow: 500 * ms,
		},
		Targets: []model.Target{}, Windows: []model.Window{}, Unobserved: []model.Unobserved{}, Failures: []model.Failure{},
		Buckets: model.Buckets{Width: s, Targets: map[string]model.BucketSeries{}}, Events: []model.Event{}, Services: []model.WatchedService{}, Pods: []model.Pod{},
	}
}

// fails lists how many requests failed in which second.
type fails [][2]int

// addTarget adds a target and its buckets, all good but for fails.
func addTarget(tl *model.Timeline, name string, kind timeline.TargetKind, rate int, bad fails) *model.Target {
	slots := int((tl.Run.Duration + s - 1) / s)
	series := model.BucketSeries{Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots), Latency: make([]model.Histogram, slots)}
	failed := 0
	for i := range slots {
		series.Sent[i] = int(time.Duration(rate) * min(s, tl.Run.Duration-time.Duration(i)*s) / s)
		series.Latency[i] = model.NewHistogram(model.SparseCounts{84, rate - 1, 130, 1})
	}
	for _, f := range bad {
		series.Failed[f[0]] += f[1]
		failed += f[1]
	}
	sent := int(int64(rate) * int64(tl.Run.Duration) / int64(s))
	tl.Targets = append(tl.Targets, model.Target{
		Target: timeline.Target{
			ID: timeline.TargetID(len(tl.Targets) + 1), Name: name, Kind: kind, URL: "http://10.96.0.20:80/", Rate: float64(rate),
		}, Source: "lapse",
		Sent: sent, OK: sent - failed, Failed: failed, Classes: map[string]int{"ok": sent - failed}, AchievedRate: float64(rate),
		Resolution: s / time.Duration(rate), Coverage: 1, Measured: model.Instant{Latest: tl.Run.Duration},
		Latency: &model.Latency{P50: 1912 * time.Microsecond, P90: 3100 * time.Microsecond, P99: 38 * ms, P999: 212 * ms, Max: 1043 * ms},
	})
	tl.Buckets.Targets[name] = series
	return &tl.Targets[len(tl.Targets)-1]
}

// addDirect adds a direct target that was measured from..to.
func addDirect(tl *model.Timeline, pod, uid, node string, from, to time.Duration, bad fails) {
	t := addTarget(tl, "web direct "+pod, timeline.Direct, 250, bad)
	t.Pod, t.PodUID, t.PodNode, t.Service, t.Addr = "shop/"+pod, uid, node, "shop/web", netip.MustParseAddrPort("10.244.2.9:8080")
	t.Measured = model.Instant{Earliest: from, Latest: to}
	for i := range tl.Buckets.Targets[t.Name].Sent {
		if at := time.Duration(i) * s; at < from || at > to {
			tl.Buckets.Targets[t.Name].Sent[i] = 0
		}
	}
}

// silence makes a target unmeasured in the seconds from..to.
func silence(tl *model.Timeline, target string, from, to int) {
	series := tl.Buckets.Targets[target]
	for i := from; i <= min(to, len(series.Sent)-1); i++ {
		series.Sent[i], series.Unobserved[i] = 0, 1
	}
}

// lane reads "0s ready, 18.3s gone".
func lane(text string) []model.PodState {
	var states []model.PodState
	for entry := range strings.SplitSeq(text, ", ") {
		start, state, _ := strings.Cut(entry, " ")
		at, err := time.ParseDuration(start)
		if err != nil {
			panic(err)
		}
		states = append(states, model.PodState{Start: at, State: state})
	}
	return states
}

func endpoint(seen time.Duration, uid, addr, state string) timeline.Event {
	return timeline.Event{Seen: seen, Kind: timeline.EndpointChanged, To: state, Port: 8080, Addr: netip.MustParseAddr(addr), Object: timeline.Object{Kind: "Pod", UID: uid}}
}

// events numbers events and places them where they were seen.
func events(list ...timeline.Event) []model.Event {
	placed := []model.Event{}
	for i, e := range list {
		e.ID, e.Writer = uint32(i+1), "apiserver"
		placed = append(placed, model.Event{Event: e, At: model.Instant{Earliest: e.Seen - 10*ms, Latest: e.Seen}})
	}
	return placed
}
