package correlate

import (
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"
	"time"

	"lapse/timeline"
)

// benchTargets are what a run in a cluster measures: a Service in two ways, two Pods and itself.
var benchTargets = []timeline.Target{
	{ID: 1, Name: "new", Kind: timeline.New, Rate: 2000, Timeout: simTimeout},
	{ID: 2, Name: "reused", Kind: timeline.Reused, Rate: 2000, Timeout: simTimeout},
	{ID: 3, Name: "direct a", Kind: timeline.Direct, Rate: 500, Timeout: simTimeout},
	{ID: 4, Name: "direct b", Kind: timeline.Direct, Rate: 500, Timeout: simTimeout},
}

var benchMeta = timeline.Meta{Options: timeline.Options{Join: time.Second, Slow: time.Second, Timeout: simTimeout}}

// benchBatches yields n requests to benchTargets in batches of 100 ms, each in the order its
// requests were done. One in 30 s has 200 ms in which half of the requests to new fail.
func benchBatches(n int) iter.Seq2[timeline.Batch, error] {
	const batch = 100 * time.Millisecond
	rng := rand.New(rand.NewPCG(1, 2))
	var second []timeline.Request
	for _, t := range benchTargets {
		for due := time.Duration(0); due < batch; due += t.Interval() {
			r := timeline.Request{Target: t.ID, Due: due, Sent: due + time.Duration(rng.IntN(60))*time.Microsecond}
			r.Done = r.Sent + time.Duration(300+rng.IntN(700)+rng.IntN(8)/7*rng.IntN(20_000))*time.Microsecond
			r.Backend = uint16(rng.IntN(3))
			second = append(second, r)
		}
	}
	slices.SortFunc(second, func(a, b timeline.Request) int { return int(a.Done - b.Done) })
	return func(yield func(timeline.Batch, error) bool) {
		requests := make([]timeline.Request, len(second))
		for i, left := 0, n; left > 0; i++ {
			start := time.Duration(i) * batch
			copy(requests, second)
			for j := range requests {
				r := &requests[j]
				r.Seq = uint64(i*len(second) + j)
				r.Due, r.Sent, r.Done = r.Due+start, r.Sent+start, r.Done+start
				if i%300 < 2 && r.Target == 1 && j%2 == 0 {
					r.Class = timeline.Refused
				}
			}
			b := timeline.Batch{Requests: requests[:min(left, len(requests))]}
			left -= len(b.Requests)
			for _, t := range benchTargets {
				b.Watermarks = append(b.Watermarks, timeline.Watermark{Target: t.ID, Due: start + batch})
			}
			if !yield(b, nil) {
				return
			}
		}
	}
}

// benchEvents are n events of the kinds a rollout brings, spread over a time.
func benchEvents(n int, over time.Duration) []timeline.Event {
	events := make([]timeline.Event, n)
	states := []string{timeline.EndpointReady, timeline.EndpointTerminatingServing, timeline.EndpointTerminating,
		timeline.EndpointAbsent}
	for i := range events {
		pod := string(rune('a' + i/100%26))
		events[i] = timeline.Event{
			ID: uint32(i + 1), Seen: over * time.Duration(i) / time.Duration(n), Kind: timeline.EndpointChanged,
			From: states[(i+3)%4], To: states[i%4], Writer: "apiserver",
			Object: timeline.Object{Kind: "Pod", Namespace: "shop", Name: "web-" + pod, UID: "uid-" + pod},
		}
	}
	return events
}

// BenchmarkAnalyze10M judges 10 million requests and 10 thousand events.
func BenchmarkAnalyze10M(b *testing.B) { benchmarkAnalyze(b, 10_000_000, 10_000) }

// BenchmarkAnalyze1M is a tenth of that: a request costs the same, however many there are.
func BenchmarkAnalyze1M(b *testing.B) { benchmarkAnalyze(b, 1_000_000, 1000) }

func benchmarkAnalyze(b *testing.B, n, events int) {
	over := time.Duration(n/5000) * time.Second
	run := timeline.Run{Meta: benchMeta, Targets: benchTargets, Events: benchEvents(events, over),
		Batches: benchBatches(n)}
	run.Events = append(run.Events, timeline.Event{ID: uint32(events + 1), Seen: over, Kind: timeline.RunPhase,
		To: "ended"})
	var peak uint64
	for b.Loop() {
		tl, err := Analyze(run, Options{})
		if err != nil {
			b.Fatal(err)
		}
		var mem runtime.MemStats
		runtime.ReadMemStats(&mem)
		peak = max(peak, mem.HeapSys)
		b.ReportMetric(float64(len(tl.Windows)), "windows")
	}
	b.ReportMetric(float64(peak)/(1<<20), "MiB-heap")
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/request")
}

// BenchmarkTrackerAdd is what the live Tracker costs per request, judged five times a second.
func BenchmarkTrackerAdd(b *testing.B) {
	for _, judged := range []bool{false, true} {
		name := map[bool]string{false: "facts only", true: "with Timeline at 5 Hz"}[judged]
		b.Run(name, func(b *testing.B) {
			tr := NewTracker(Options{})
			tr.Add(benchMeta)
			for _, t := range benchTargets {
				tr.Add(t)
			}
			b.ReportAllocs()
			b.ResetTimer()
			i := 0
			for batch := range benchBatches(b.N) {
				tr.Add(batch)
				if i++; judged && i%2 == 0 {
					tr.Timeline()
				}
			}
		})
	}
}

// BenchmarkTimeline is what one look at an hour's run costs.
func BenchmarkTimeline(b *testing.B) {
	tr := NewTracker(Options{})
	tr.Add(benchMeta)
	for _, t := range benchTargets {
		tr.Add(t)
	}
	for _, e := range benchEvents(2000, time.Hour) {
		tr.Add(e)
	}
	for batch := range benchBatches(3600 * 5000) {
		tr.Add(batch)
	}
	b.ReportAllocs()
	for b.Loop() {
		tr.Timeline()
	}
}
