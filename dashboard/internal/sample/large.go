package sample

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"lapse/correlate/cluster"
	"lapse/correlate/model"
	"lapse/timeline"
)

// The size of the run that [Large] makes up.
const (
	LargeLength = time.Hour
	LargePods   = 200
	LargeEvents = 5000

	largeTargets  = 10
	largeRate     = 200 // requests per second of each target: 2000 in all
	largeWidth    = 800 * ms
	largeReplaced = 100 // how many of the Pods take the place of others while the run goes on
	largeServices = 4
)

// Large makes up a run of an hour at 2000 requests per second: ten targets of four Services, 200 Pods of which 100 replace
// others in the course of a rolling upgrade, 5000 events and a window for every tenth replacement.
func Large() *model.Timeline {
	run := Run(Length)
	run.Run.ID, run.Run.Duration = "20260314-022038-large", LargeLength
	run.Run.Command = &model.Command{Args: []string{"./upgrade-all-nodes.sh"}, Start: new(60 * s), End: new(LargeLength - 60*s), ExitCode: new(0)}
	random := rand.New(rand.NewPCG(5, 6))
	run.Windows = largeWindows()
	run.Unobserved = []model.Unobserved{}
	run.Pods, run.Events = largeCluster()
	run.Services = cluster.Services(run.Events)
	run.Targets = nil
	run.Buckets = model.Buckets{Width: largeWidth, Targets: map[string]model.BucketSeries{}}
	for id := range largeTargets {
		t, series := largeTarget(id, run.Windows, random)
		run.Targets = append(run.Targets, t)
		run.Buckets.Targets[t.Name] = series
	}
	run.Verdict = verdict(run, 0)
	run.Verdict.Downtime.Total = model.Length{Min: 5800 * ms, Max: 6300 * ms}
	return run
}

// replacedAt is when the Pod with that index gives way to the next one.
func replacedAt(i int) time.Duration { return 90*s + time.Duration(i)*34*s }

func largeWindows() []model.Window {
	var all []model.Window
	template := windows(Length)[0]
	for i := 0; i < largeReplaced; i += 10 {
		w := template
		at := replacedAt(i) + 110*ms
		w.ID, w.Target = len(all)+1, largeName(2*(i/10%largeServices))
		w.Start = model.Instant{Earliest: at - 10*ms, Latest: at}
		w.End = model.Instant{Earliest: at + 1200*ms, Latest: at + 1210*ms}
		w.Length = model.Length{Min: 1200 * ms, Max: 1220 * ms}
		w.Sent, w.Failed = 240, 120
		all = append(all, w)
	}
	return all
}

// largeCluster makes up 200 Pods' lives, and fills up with lines of the command until there are 5000 events.
func largeCluster() ([]model.Pod, []model.Event) {
	var pods []model.Pod
	var events []model.Event
	for i := range LargePods {
		p := pod{fmt.Sprintf("web-%d-7f9c5d8b6-%05d", i%largeServices, i), fmt.Sprintf("uid-%d", i), fmt.Sprintf("node-%02d", i%20), fmt.Sprintf("10.40.%d.%d", i%20, i)}
		from, states := time.Duration(0), []model.PodState{{Start: 0, State: "ready"}}
		if i >= LargePods-largeReplaced { // a later one: takes the place of an earlier one
			from = replacedAt(i - (LargePods - largeReplaced))
			states = []model.PodState{{Start: from, State: "pending"}, {Start: from + s, State: "creating"}, {Start: from + 3*s, State: "running"}, {Start: from + 8*s, State: "ready"}}
		}
		if i < largeReplaced {
			gone := replacedAt(i)
			states = append(states, model.PodState{Start: gone, State: "terminating+serving"}, model.PodState{Start: gone + 100*ms, State: "terminating"}, model.PodState{Start: gone + 2*s, State: "gone"})
		}
		pods = append(pods, model.Pod{Namespace: "shop", Name: p.name, UID: p.uid, Node: p.node, IP: p.ip, States: states})
		for k, state := range states {
			events = append(events, largeChange(p, states, k, state)...)
		}
	}
	for i := 0; len(events) < LargeEvents; i++ {
		at := 60*s + time.Duration(i)*s
		events = append(events, model.Event{Seen: at, At: around(at, 0), Kind: timeline.CommandOutput, Writer: "lapse", Detail: fmt.Sprintf("node/node-%02d: step %d done", i%20, i)})
	}
	slices.SortStableFunc(events, func(a, b model.Event) int { return int(a.Seen - b.Seen) })
	for i := range events {
		events[i].ID = uint32(i + 1)
	}
	return pods, events[:LargeEvents]
}

// largeChange are the events that come with a Pod's state.
func largeChange(p pod, states []model.PodState, k int, now model.PodState) []model.Event {
	before := "absent"
	if k > 0 {
		before = states[k-1].State
	}
	change := func(kind timeline.EventKind, from, to string) model.Event {
		return model.Event{Seen: now.Start, At: around(now.Start, 5*ms), Kind: kind, Writer: "apiserver", From: from, To: to, Object: p.object(), Addr: p.ip}
	}
	all := []model.Event{change(timeline.PodPhase, before, now.State), change(timeline.KubeEvent, "", "Step")}
	switch now.State {
	case "ready":
		all = append(all, change(timeline.EndpointChanged, "not-ready", "ready"), change(timeline.PodReady, "false", "true"))
	case "terminating+serving", "terminating":
		all = append(all, change(timeline.EndpointChanged, before, now.State), change(timeline.PodDeleted, "", ""))
	case "gone":
		all = append(all, change(timeline.EndpointChanged, before, "absent"), change(timeline.PodGone, "", ""))
	}
	return all
}

// largeName is the name of the target with that index: new and reused of each Service, then two of evidence.
func largeName(id int) string {
	if id < 2*largeServices {
		return fmt.Sprintf("web-%d %s", id/2, []string{"new", "reused"}[id%2])
	}
	return []string{"web-0 direct", "control"}[id-2*largeServices]
}

func largeTarget(id int, windows []model.Window, random *rand.Rand) (model.Target, model.BucketSeries) {
	kinds := []timeline.TargetKind{timeline.New, timeline.Reused}
	t := model.Target{
		ID: timeline.TargetID(id + 1), Name: largeName(id), Kind: kinds[id%2], URL: "http://10.96.14.3/", Rate: largeRate, AchievedRate: largeRate, Coverage: 1,
		Classes: map[string]int{}, Measured: model.Instant{Latest: LargeLength}, Resolution: 5 * ms,
		Latency: &model.Latency{P50: 1900 * time.Microsecond, P90: 4200 * time.Microsecond, P99: 38 * ms, P999: 212 * ms, Max: 1040 * ms},
	}
	if id >= 2*largeServices {
		t.Kind = []timeline.TargetKind{timeline.Direct, timeline.Control}[id-2*largeServices]
	}
	slots := int(LargeLength / largeWidth)
	perSlot := int(largeRate * largeWidth / s)
	series := model.BucketSeries{Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots), Latency: make([]model.Histogram, slots), Classes: map[string]model.SparseCounts{}}
	likely := probe{Target: t}
	for i := range slots {
		from, to := time.Duration(i)*largeWidth, time.Duration(i+1)*largeWidth
		series.Sent[i] = perSlot
		for _, w := range windows {
			if overlap := min(to, w.End.Latest) - max(from, w.Start.Earliest); w.Target == t.Name && overlap > 0 {
				series.Failed[i] = int(float64(perSlot) * float64(overlap) / float64(largeWidth) / 2)
				series.Classes["refused"] = append(series.Classes["refused"], i, series.Failed[i])
			}
		}
		answered := map[int]int{}
		for range perSlot - series.Failed[i] {
			answered[model.LatencyBin(likely.takes(from, random))]++
		}
		series.Latency[i] = histogram(answered)
		t.Sent, t.Failed = t.Sent+perSlot, t.Failed+series.Failed[i]
	}
	t.OK = t.Sent - t.Failed
	t.Classes["ok"], t.Classes["refused"] = t.OK, t.Failed
	return t, series
}
