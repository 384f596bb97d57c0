// Package sample makes up a run that is worth looking at: two replicas on two nodes, both nodes
// drained one after the other, a route that outlives its Pod, a moment without any ready endpoint,
// and a prober that stalls. Nothing of it was measured. It serves the page's tests and its
// development (`go run ./dashboard/ui/dev`).
package sample

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/incidents"
	"lapse/correlate/model"
	"lapse/timeline"
)

const (
	ms = time.Millisecond
	s  = time.Second

	// Length is how long the made-up run takes.
	Length = 72 * s

	width = 100 * ms // of a bucket
)

// The Pods: old ones on node-b and node-c, and those that replace them.
var (
	oldB = pod{"web-5c9d8f7b6-x2kzq", "uid-x2kzq", "node-b", "10.40.1.7"}
	oldC = pod{"web-5c9d8f7b6-9fw4t", "uid-9fw4t", "node-c", "10.40.2.4"}
	newA = pod{"web-5c9d8f7b6-lm5cd", "uid-lm5cd", "node-a", "10.40.0.11"}
	newB = pod{"web-5c9d8f7b6-qq7hn", "uid-qq7hn", "node-b", "10.40.1.9"}
)

type pod struct{ name, uid, node, ip string }

func (p pod) object() *timeline.Object {
	return &timeline.Object{Kind: "Pod", Namespace: "shop", Name: p.name, UID: p.uid, Node: p.node}
}

func (p pod) target() string { return "web direct " + p.name }

// T0 is when the made-up run began.
var T0 = time.Date(2026, 3, 14, 2, 20, 38, 412_907_113, time.UTC)

// Run returns the made-up run as a live judge would see it at instant now; from [Length] on it has ended.
func Run(now time.Duration) *model.Timeline {
	live := now < Length
	now = min(now, Length)
	run := &model.Timeline{
		SchemaVersion: model.SchemaVersion,
		Tool:          model.Tool{Name: "lapse", Version: "0.1.0-dev"},
		T0:            T0,
		Run: model.RunInfo{
			ID:       "20260314-022038-shop-web",
			Services: []timeline.Service{{Namespace: "shop", Name: "web", ClusterIP: "10.96.14.3", Ports: []string{"80/TCP → http"}}},
			Duration: now, Baseline: 10 * s, Settle: 15 * s, Timeout: 800 * ms, Join: s, Slow: 500 * ms,
			Command: command(now),
			Cluster: &timeline.Cluster{Version: "v1.36.3", ProxyMode: "iptables"},
			Live:    live,
		},
		Events:     upTo(events(), now, func(e model.Event) time.Duration { return e.Seen }),
		Pods:       pods(now),
		Windows:    windows(now),
		Unobserved: upTo(unobserved(), now, func(u model.Unobserved) time.Duration { return u.End }),
		Failures:   []model.Failure{},
	}
	run.Incidents = incidents.Of(run, s)
	run.Services = cluster.Services(run.Events)
	fillTargets(run, now)
	run.Verdict = verdict(run, now)
	return run
}

// upTo keeps what happened no later than now.
func upTo[T any](all []T, now time.Duration, at func(T) time.Duration) []T {
	kept := []T{}
	for _, one := range all {
		if at(one) <= now {
			kept = append(kept, one)
		}
	}
	return kept
}

func command(now time.Duration) *model.Command {
	c := &model.Command{Args: []string{"sh", "-c", "kubectl drain node-b --ignore-daemonsets && kubectl drain node-c --ignore-daemonsets"}}
	if now >= 10*s {
		c.Start = new(10 * s)
	}
	if now >= 52*s {
		c.End, c.ExitCode = new(52*s), new(0)
	}
	return c
}

// around is an instant known to within d on both sides.
func around(at, d time.Duration) model.Instant {
	return model.Instant{Earliest: at - d, Latest: at + d}
}

func events() []model.Event {
	var all []model.Event
	add := func(seen time.Duration, e model.Event) {
		e.ID, e.Seen = uint32(len(all)+1), seen
		if e.At == (model.Instant{}) {
			e.At = model.Instant{Earliest: max(0, seen-12*ms), Latest: seen}
		}
		all = append(all, e)
	}
	life := func(seen time.Duration, p pod, kind timeline.EventKind, from, to, detail string) {
		e := model.Event{Kind: kind, Writer: "apiserver", From: from, To: to, Object: p.object(), Addr: p.ip, Detail: detail}
		switch {
		case kind == timeline.EndpointChanged:
			e.Port = 8080
		case kind == timeline.PodDeleted:
			e.Grace = new(30 * s)
		case to == "terminated":
			e.ExitCode = new(0)
		}
		add(seen, e)
	}
	endpoint := func(seen time.Duration, p pod, from, to string) {
		life(seen, p, timeline.EndpointChanged, from, to, "")
	}
	node := func(seen time.Duration, name string, kind timeline.EventKind, from, to string) {
		add(seen, model.Event{Kind: kind, Writer: "apiserver", From: from, To: to, Object: &timeline.Object{Kind: "Node", Name: name}})
	}
	kube := func(seen time.Duration, p pod, reason, message string) {
		add(seen, model.Event{Kind: timeline.KubeEvent, Writer: "kubelet/" + p.node, To: reason, Object: p.object(), Detail: message, At: around(seen-20*ms, ms)})
	}
	phase := func(seen time.Duration, from, to string) {
		add(seen, model.Event{Kind: timeline.RunPhase, Writer: "lapse", From: from, To: to, At: around(seen, 0)})
	}
	output := func(seen time.Duration, line string) {
		add(seen, model.Event{Kind: timeline.CommandOutput, Writer: "lapse", Detail: line, At: around(seen, 0)})
	}

	phase(0, "", "baseline")
	for _, name := range []string{"node-a", "node-b", "node-c"} {
		node(4*ms, name, timeline.NodeReady, "", "true")
		node(4*ms, name, timeline.NodeSchedulable, "", "true")
	}
	for _, p := range []pod{oldB, oldC} {
		life(6*ms, p, timeline.PodSeen, "", "Running", "listed")
		life(6*ms, p, timeline.PodReady, "", "true", "")
		endpoint(8*ms, p, "absent", "ready")
	}

	phase(10*s, "baseline", "measuring")
	add(10*s, model.Event{Kind: timeline.Command, Writer: "lapse", To: "running", Detail: "sh -c kubectl drain node-b --ignore-daemonsets && kubectl drain node-c --ignore-daemonsets", At: around(10*s, 0)})
	output(10180*ms, "node/node-b cordoned")
	node(10210*ms, "node-b", timeline.NodeSchedulable, "true", "false")
	output(10420*ms, "evicting pod shop/"+oldB.name)
	replace(life, endpoint, kube, 10440*ms, oldB, newA, 6*s)
	output(41900*ms, "node/node-b drained")
	output(42150*ms, "node/node-c cordoned")
	node(42170*ms, "node-c", timeline.NodeSchedulable, "true", "false")
	output(42300*ms, "evicting pod shop/"+newA.name)
	output(42300*ms, "evicting pod shop/"+oldC.name)
	life(42330*ms, oldC, timeline.PodDeleted, "", "", "")
	endpoint(42345*ms, oldC, "ready", "terminating+serving")
	life(42340*ms, newA, timeline.PodDeleted, "", "", "")
	endpoint(42345*ms, newA, "ready", "terminating")
	kube(42380*ms, oldC, "Killing", "Stopping container web")
	kube(42390*ms, newA, "Killing", "Stopping container web")
	endpoint(42410*ms, oldC, "terminating+serving", "terminating")
	life(42420*ms, oldC, timeline.PodContainer, "running", "terminated", "web Completed")
	life(42440*ms, newA, timeline.PodContainer, "running", "terminated", "web Completed")
	life(42500*ms, newB, timeline.PodSeen, "", "Pending", "watched")
	life(42505*ms, newB, timeline.PodScheduled, "", newB.node, "")
	endpoint(43100*ms, oldC, "terminating", "absent")
	life(43110*ms, oldC, timeline.PodGone, "", "", "")
	endpoint(43120*ms, newA, "terminating", "absent")
	life(43130*ms, newA, timeline.PodGone, "", "", "")
	kube(43300*ms, newB, "Started", "Started container web")
	life(43320*ms, newB, timeline.PodContainer, "waiting", "running", "web")
	endpoint(43340*ms, newB, "absent", "not-ready")
	life(45480*ms, newB, timeline.PodReady, "false", "true", "")
	endpoint(45490*ms, newB, "not-ready", "ready")
	output(51950*ms, "node/node-c drained")
	add(52*s, model.Event{Kind: timeline.Command, Writer: "lapse", From: "running", To: "exited", ExitCode: new(0), At: around(52*s, 0)})
	phase(52*s, "measuring", "settling")
	add(59250*ms, model.Event{Kind: timeline.ProberStall, Writer: "lapse", At: model.Instant{Earliest: 58 * s, Latest: 59250 * ms}, Detail: "the prober did not run for 1.25 s"})
	add(63*s, model.Event{Kind: timeline.WatchGap, Writer: "lapse", Object: &timeline.Object{Kind: "Pod"}, At: model.Instant{Earliest: 61 * s, Latest: 63 * s}, Detail: "watch closed: too old resource version"})
	phase(Length, "settling", "ended")
	return all
}

// replace is one Pod evicted at t and another coming up in its stead, ready after d.
func replace(
	life func(time.Duration, pod, timeline.EventKind, string, string, string),
	endpoint func(time.Duration, pod, string, string),
	kube func(time.Duration, pod, string, string),
	t time.Duration, old, fresh pod, d time.Duration,
) {
	life(t, old, timeline.PodDeleted, "", "", "")
	endpoint(t+12*ms, old, "ready", "terminating+serving")
	kube(t+40*ms, old, "Killing", "Stopping container web")
	life(t+80*ms, fresh, timeline.PodSeen, "", "Pending", "watched")
	life(t+85*ms, fresh, timeline.PodScheduled, "", fresh.node, "")
	endpoint(t+130*ms, old, "terminating+serving", "terminating")
	life(t+140*ms, old, timeline.PodContainer, "running", "terminated", "web Completed")
	life(t+140*ms, old, timeline.PodReady, "true", "false", "")
	endpoint(t+810*ms, old, "terminating", "absent")
	life(t+900*ms, old, timeline.PodGone, "", "", "")
	kube(t+1100*ms, fresh, "Started", "Started container web")
	life(t+1110*ms, fresh, timeline.PodContainer, "waiting", "running", "web")
	endpoint(t+1130*ms, fresh, "absent", "not-ready")
	kube(t+2000*ms, fresh, "Unhealthy", "Readiness probe failed: Get \"http://"+fresh.ip+":8080/ready\": dial tcp "+fresh.ip+":8080: connect: connection refused")
	life(t+d, fresh, timeline.PodReady, "false", "true", "")
	endpoint(t+d+15*ms, fresh, "not-ready", "ready")
}

func pods(now time.Duration) []model.Pod {
	life := func(p pod, states ...model.PodState) model.Pod {
		return model.Pod{
			Namespace: "shop", Name: p.name, UID: p.uid, Node: p.node, IP: p.ip,
			States: upTo(states, now, func(s model.PodState) time.Duration { return s.Start }),
		}
	}
	at := func(start time.Duration, state string) model.PodState {
		return model.PodState{Start: start, State: state}
	}
	all := []model.Pod{
		life(oldB, at(0, "ready"), at(10440*ms, "terminating+serving"), at(10570*ms, "terminating"), at(11340*ms, "gone")),
		life(oldC, at(0, "ready"), at(42330*ms, "terminating+serving"), at(42410*ms, "terminating"), at(43110*ms, "gone")),
		life(newA, at(10520*ms, "pending"), at(10525*ms, "creating"), at(11540*ms, "running"), at(16440*ms, "ready"), at(42340*ms, "terminating"), at(43130*ms, "gone")),
		life(newB, at(42500*ms, "pending"), at(42505*ms, "creating"), at(43300*ms, "running"), at(45480*ms, "ready")),
	}
	kept := []model.Pod{}
	for _, p := range all {
		if len(p.States) > 0 {
			kept = append(kept, p)
		}
	}
	return kept
}

func unobserved() []model.Unobserved {
	var all []model.Unobserved
	for _, name := range []string{"web new", "web reused", newB.target(), "control"} {
		all = append(all, model.Unobserved{Target: name, Start: 58 * s, End: 59250 * ms, Reason: "prober stalled"})
	}
	return all
}

func windows(now time.Duration) []model.Window {
	all := []model.Window{
		{
			ID: 1, Target: "web new", Kind: model.Partial, Basis: model.Statistical,
			Start: model.Instant{Earliest: 10541 * ms, Latest: 10562 * ms}, End: model.Instant{Earliest: 10640 * ms, Latest: 10655 * ms},
			Length: model.Length{Min: 78 * ms, Max: 114 * ms}, Sent: 42, Failed: 21, Share: 0.5,
			Downtime: model.Length{Min: 31 * ms, Max: 57 * ms}, Blackout: &model.Length{Min: 10 * ms, Max: 20 * ms},
			Classes: map[string]int{"refused": 20, "reset": 1}, Backends: map[string]int{oldC.name: 21},
			Causes: []model.Cause{{
				Rule: "route-outlives-pod", Confidence: model.High,
				Text:   "node-a still routed new connections to x2kzq for 79 ms after it had stopped listening.",
				Fix:    "Keep serving for at least 0.4 s after SIGTERM (79 ms here, with a margin): preStop: {sleep: {seconds: 1}}",
				Rivals: []string{"startup-race: no endpoint was added within 5 s of the start", "prober-fault: control answered throughout"},
				Evidence: []model.Evidence{
					{Event: eventOf(timeline.PodDeleted, oldB, ""), Text: "deletion of x2kzq was requested (grace period 30 s)"},
					{Target: oldB.target(), At: &model.Instant{Earliest: 10548 * ms, Latest: 10561 * ms}, Text: "x2kzq itself stopped answering: its direct target was refused"},
					{Target: "web new", At: &model.Instant{Earliest: 10562 * ms, Latest: 10562 * ms}, Text: "first new connection refused"},
					{Event: eventOf(timeline.EndpointChanged, oldB, "terminating"), Text: "the endpoint turned terminating, not serving"},
					{Target: "web new", At: &model.Instant{Earliest: 10640 * ms, Latest: 10640 * ms}, Text: "last new connection refused; 21 of 42 in between, all on the half routed to x2kzq"},
					{Target: oldC.target(), Text: "the other Pod, 9fw4t, answered every direct request"},
				},
			}},
		},
		{
			ID: 2, Target: "web reused", Kind: model.Partial, Basis: model.Statistical,
			Start: model.Instant{Earliest: 10552 * ms, Latest: 10559 * ms}, End: model.Instant{Earliest: 10571 * ms, Latest: 10580 * ms},
			Length: model.Length{Min: 12 * ms, Max: 28 * ms}, Sent: 9, Failed: 4, Share: 0.444,
			Downtime: model.Length{Min: 3 * ms, Max: 12 * ms}, Classes: map[string]int{"eof": 4}, Backends: map[string]int{oldC.name: 5},
			Causes: []model.Cause{{
				Rule: "unexplained", Confidence: model.Low, Text: "No rule explains this window; closest in time: x2kzq stopped 4 ms before.",
				Evidence: []model.Evidence{{Event: eventOf(timeline.PodContainer, oldB, "terminated"), Text: "container web of x2kzq terminated, exit code 0"}},
				Rivals:   []string{"route-outlives-pod: needs refused or timed-out connections, these were cut (eof)"},
			}},
		},
		{
			ID: 3, Target: "web new", Kind: model.Outage, Basis: model.Exact,
			Start: model.Instant{Earliest: 42412 * ms, Latest: 42441 * ms}, End: model.Instant{Earliest: 45502 * ms, Latest: 45514 * ms},
			Length: model.Length{Min: 3061 * ms, Max: 3102 * ms}, Sent: 617, Failed: 617, Share: 1,
			Downtime: model.Length{Min: 3061 * ms, Max: 3102 * ms}, Blackout: &model.Length{Min: 3061 * ms, Max: 3102 * ms},
			Classes: map[string]int{"refused": 11, "timeout_connect": 606},
			Causes: []model.Cause{{
				Rule: "no-ready-endpoint", Confidence: model.High,
				Text:   "The Service had no ready endpoint for 3.15 s: both Pods were evicted from node-c before qq7hn was ready.",
				Fix:    "Add a PodDisruptionBudget with minAvailable: 1, and spread the replicas: lm5cd and 9fw4t were evicted within 10 ms of each other.",
				Rivals: []string{"route-outlives-pod: explains the first 0.1 s at most"},
				Evidence: []model.Evidence{
					{Event: eventOf(timeline.EndpointChanged, oldC, "terminating+serving"), Text: "endpoint 9fw4t left ready: no ready endpoint remains"},
					{Target: "web new", At: &model.Instant{Earliest: 42441 * ms, Latest: 42441 * ms}, Text: "first new connection refused; after 11 refusals all time out, as a rate-limited REJECT looks"},
					{Event: eventOf(timeline.EndpointChanged, newB, "ready"), Text: "endpoint qq7hn ready: one ready endpoint"},
					{Target: "web new", At: &model.Instant{Earliest: 45514 * ms, Latest: 45514 * ms}, Text: "first answer, from qq7hn"},
				},
			}},
		},
		{
			ID: 4, Target: "web reused", Kind: model.Outage, Basis: model.Exact,
			Start: model.Instant{Earliest: 42415 * ms, Latest: 42433 * ms}, End: model.Instant{Earliest: 45520 * ms, Latest: 45531 * ms},
			Length: model.Length{Min: 3087 * ms, Max: 3116 * ms}, Sent: 619, Failed: 619, Share: 1,
			Downtime: model.Length{Min: 3087 * ms, Max: 3116 * ms}, Blackout: &model.Length{Min: 3087 * ms, Max: 3116 * ms},
			Classes: map[string]int{"eof": 8, "refused": 5, "timeout_connect": 606},
			Causes: []model.Cause{{
				Rule: "no-ready-endpoint", Confidence: model.High,
				Text:     "The Service had no ready endpoint for 3.15 s: both Pods were evicted from node-c before qq7hn was ready.",
				Evidence: []model.Evidence{{Event: eventOf(timeline.EndpointChanged, oldC, "terminating+serving"), Text: "endpoint 9fw4t left ready: no ready endpoint remains"}},
				Rivals:   []string{},
			}},
		},
	}
	seen := upTo(all, now, func(w model.Window) time.Duration { return w.Start.Latest })
	for i := range seen {
		if w := &seen[i]; w.End.Latest > now {
			w.Live, w.Open.End = true, true
			w.End = model.Instant{Earliest: min(w.End.Earliest, now), Latest: now}
			w.Length = model.Length{Min: max(0, w.End.Earliest-w.Start.Latest), Max: now - w.Start.Earliest}
		}
	}
	return seen
}

// eventOf returns the ID of the event in which a Pod came to a state.
func eventOf(kind timeline.EventKind, p pod, to string) uint32 {
	for _, e := range events() {
		if e.Kind == kind && e.To == to && e.Object.UID == p.uid {
			return e.ID
		}
	}
	return 0
}

// A probe is a made-up target: when it was measured, and when a share of its requests failed.
type probe struct {
	model.Target
	from, to time.Duration
	bad      []stretch
}

type stretch struct {
	from, to time.Duration
	share    float64
	class    string
}

func probes() []probe {
	judged := func(id timeline.TargetID, kind timeline.TargetKind, bad ...stretch) probe {
		return probe{model.Target{ID: id, Name: "web " + string(kind), Kind: kind, URL: "http://10.96.14.3/", Source: "lapse-0", Node: "node-a", Service: "shop/web", Rate: 200}, 0, Length, bad}
	}
	direct := func(id timeline.TargetID, p pod, rate float64, from, to time.Duration, bad ...stretch) probe {
		return probe{model.Target{
			ID: id, Name: p.target(), Kind: timeline.Direct, URL: "http://" + p.ip + ":8080/", Source: "lapse-0", Node: "node-a", Service: "shop/web",
			Addr: p.ip + ":8080", Pod: "shop/" + p.name, PodUID: p.uid, PodNode: p.node, Rate: rate,
		}, from, to, bad}
	}
	return []probe{
		judged(1, timeline.New, stretch{10562 * ms, 10640 * ms, .5, "refused"}, stretch{42441 * ms, 45502 * ms, 1, "timeout_connect"}),
		judged(2, timeline.Reused, stretch{10559 * ms, 10571 * ms, .45, "eof"}, stretch{42433 * ms, 45520 * ms, 1, "timeout_connect"}),
		direct(3, oldB, 100, 0, 11340*ms, stretch{10561 * ms, 11340 * ms, 1, "refused"}),
		direct(4, oldC, 100, 0, 43110*ms, stretch{42430 * ms, 43110 * ms, 1, "refused"}),
		direct(5, newA, 100, 11570*ms, 43130*ms, stretch{11570 * ms, 16400 * ms, 1, "refused"}, stretch{42436 * ms, 43130 * ms, 1, "refused"}),
		direct(6, newB, 100, 43340*ms, Length, stretch{43340 * ms, 45470 * ms, 1, "refused"}),
		{model.Target{ID: 7, Name: "control", Kind: timeline.Control, URL: "http://127.0.0.1:39213/", Source: "lapse-0", Node: "node-a", Rate: 100}, 0, Length, nil},
	}
}

// fillTargets makes up every request up to now, and counts.
func fillTargets(run *model.Timeline, now time.Duration) {
	run.Buckets = model.Buckets{Width: width, Targets: map[string]model.BucketSeries{}}
	random, delays := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
	for _, p := range probes() {
		if p.from > now {
			continue
		}
		t := p.Target
		t.Classes = map[string]int{}
		slots := int((now + width - 1) / width)
		series := model.BucketSeries{
			Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots),
			Latency: make([]model.Histogram, slots), Classes: map[string]model.SparseCounts{},
		}
		answered := make([]map[int]int, slots) // latency slot → count
		for i := range answered {
			answered[i] = map[int]int{}
		}
		interval := time.Duration(float64(time.Second) / t.Rate)
		for at := p.from; at < min(p.to, now); at += interval {
			slot := int(at / width)
			if at >= 58*s && at < 59250*ms {
				t.NotSent++
				series.Unobserved[slot] += float64(interval) / float64(width)
				continue
			}
			t.Sent++
			series.Sent[slot]++
			if class := p.fails(at, random); class != "" {
				t.Failed++
				t.Classes[class]++
				series.Failed[slot]++
				series.Classes[class] = count(series.Classes[class], slot)
				continue
			}
			answered[slot][model.LatencyBin(p.takes(at, delays))]++
		}
		for i, counts := range answered {
			series.Latency[i] = histogram(counts)
		}
		t.OK = t.Sent - t.Failed
		t.Classes["ok"] = t.OK
		t.Late = t.Sent / 5000
		t.Measured = model.Instant{Earliest: p.from, Latest: min(p.to, now)}
		t.Resolution = interval
		length := t.Measured.Latest - t.Measured.Earliest
		t.AchievedRate = float64(t.Sent) / max(length.Seconds(), .001)
		t.Coverage = float64(t.Sent) / float64(max(1, t.Sent+t.NotSent))
		if t.OK > 0 {
			t.Latency = &model.Latency{P50: 1900 * time.Microsecond, P90: 4200 * time.Microsecond, P99: 38 * ms, P999: 212 * ms, Max: 1040 * ms}
		}
		run.Targets = append(run.Targets, t)
		run.Buckets.Targets[t.Name] = series
	}
}

// count adds one to the count of a slot, which is the last one counted or a later one.
func count(pairs model.SparseCounts, slot int) model.SparseCounts {
	if n := len(pairs); n > 0 && pairs[n-2] == slot {
		pairs[n-1]++
		return pairs
	}
	return append(pairs, slot, 1)
}

// histogram packs the counts by slot.
func histogram(counts map[int]int) model.Histogram {
	pairs := model.SparseCounts{}
	for _, slot := range slices.Sorted(maps.Keys(counts)) {
		pairs = append(pairs, slot, counts[slot])
	}
	return model.NewHistogram(pairs)
}

// takes returns how long the answer to the request due at that instant takes: mostly about 2 ms, at
// times much longer, and longer for a while after trouble.
func (p probe) takes(at time.Duration, random *rand.Rand) time.Duration {
	typical := 1.9
	if p.Kind == timeline.Control {
		typical = 0.12
	}
	for _, bad := range p.bad {
		if since := at - bad.to; since > 0 && since < 4*s {
			typical *= 1 + 5*math.Exp(-since.Seconds())
		}
	}
	spread := 0.28
	if random.IntN(60) == 0 {
		spread = 1.5
	}
	return time.Duration(typical * math.Exp(spread*random.NormFloat64()) * float64(ms))
}

// fails returns how the request sent at that instant failed, "" if it was answered.
func (p probe) fails(at time.Duration, random *rand.Rand) string {
	for _, bad := range p.bad {
		if at >= bad.from && at <= bad.to && random.Float64() < bad.share {
			return bad.class
		}
	}
	return ""
}

func verdict(run *model.Timeline, now time.Duration) model.Verdict {
	v := model.Verdict{
		Result: model.Pass, Reasons: []string{}, Coverage: 1, DetectionLimit: 5 * ms,
		LatencyP99: new(38 * ms), Windows: len(run.Windows),
		Validity: model.Validity{Late: 0.0002, Control: "ok"},
	}
	for _, t := range run.Targets {
		if t.Kind.Judged() {
			v.Sent += t.Sent
			v.Failed += t.Failed
			v.Coverage = min(v.Coverage, t.Coverage)
			v.Validity.NotSent += t.NotSent
		}
	}
	v.ErrorRate = float64(v.Failed) / float64(max(1, v.Sent))
	for _, w := range run.Windows {
		if w.Target == "web new" {
			v.Downtime.Total.Min += w.Downtime.Min
			v.Downtime.Total.Max += w.Downtime.Max
		}
		if v.LongestWindow == nil || w.Length.Max > v.LongestWindow.Max {
			v.LongestWindow, v.LongestBlackout = &w.Length, w.Blackout
		}
	}
	if now >= 59250*ms {
		v.Validity.Unobserved, v.Validity.Stalls = 1250*ms, 1
		v.Reasons = append(v.Reasons, "coverage 98.3 % is below 99 %: the prober stalled once, for 1.25 s")
	}
	if now >= 63*s {
		v.Validity.WatchGaps = 1
	}
	gate := func(metric, limit string, unit model.Unit, failed bool, value float64) {
		expr := metric + limit
		outcome := model.GatePass
		if failed {
			outcome, v.Result, v.ExitCode = model.GateFail, model.Fail, 3
			v.Reasons = append([]string{fmt.Sprintf("gate %s failed", expr)}, v.Reasons...)
		}
		v.Gates = append(v.Gates, model.GateResult{Expr: expr, Metric: metric, Unit: unit, Outcome: outcome, Value: &model.Range{Min: value, Max: value}})
	}
	gate("failed", " > 0", model.Count, v.Failed > 0, float64(v.Failed))
	gate("latency.p99", " > 100ms", model.Duration, false, float64(38*ms))
	return v
}
