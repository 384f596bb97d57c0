package correlate

import (
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

// deliver cuts a run's requests into batches in the order they were done, shuffled as far as
// watermarks allow, and calls see after each.
func deliver(rng *rand.Rand, requests []timeline.Request, end time.Duration, see func(timeline.Batch)) {
	rest := slices.Clone(requests)
	slices.SortFunc(rest, func(a, b timeline.Request) int { return cmp.Compare(a.Done, b.Done) })
	for seq := uint64(0); len(rest) > 0; {
		n := 1 + rng.IntN(min(len(rest), 40))
		rng.Shuffle(min(len(rest), n+5), func(i, j int) { rest[i], rest[j] = rest[j], rest[i] })
		see(timeline.Batch{FirstSeq: seq, Requests: slices.Clone(rest[:n]), Watermarks: watermarks(rest[n:], end)})
		rest, seq = rest[n:], seq+uint64(n)
	}
}

// watermarks promises for both targets what is true while rest is still to come.
func watermarks(rest []timeline.Request, end time.Duration) []timeline.Watermark {
	due := map[timeline.TargetID]time.Duration{1: end, 2: end}
	for _, r := range rest {
		due[r.Target] = min(due[r.Target], r.Due)
	}
	return []timeline.Watermark{{Target: 1, Due: due[1]}, {Target: 2, Due: due[2]}}
}

// requestsToTwo are requests to the targets 1 and 2, and the end of their run.
func requestsToTwo(data []byte) (requests []timeline.Request, end time.Duration) {
	half := len(data) / 2
	classes := []timeline.Class{timeline.Refused, timeline.TimeoutResponse, timeline.NoSlot, timeline.NotSent,
		timeline.Local, timeline.HTTP5xx, timeline.TimeoutConnect}
	requests = readFlights(data[:half], classes...)
	for _, r := range readFlights(data[half:], classes[:2]...) {
		r.Target = 2
		r.Due = max(0, r.Due-time.Duration(r.Seq%7)*time.Millisecond)
		requests = append(requests, r)
	}
	for _, r := range requests {
		end = max(end, r.Sent+1)
	}
	return requests, end
}

// FuzzTracker gives the same run to a Tracker in many orders, and looks at it meanwhile.
func FuzzTracker(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		requests, end := requestsToTwo(data)
		if len(requests) == 0 {
			return
		}
		run := fuzzRun(requests, 30*time.Millisecond)
		run.Targets = append(run.Targets, timeline.Target{ID: 2, Name: "reused", Kind: timeline.Reused, Rate: 200,
			Timeout: 80 * time.Millisecond})
		run.Events = []timeline.Event{
			{ID: 1, Seen: end / 2, Since: end/2 - 30*time.Millisecond, Kind: timeline.ProberStall},
			{ID: 2, Seen: end, Kind: timeline.RunPhase, To: "ended"},
		}
		run.Batches = func(yield func(timeline.Batch, error) bool) {
			yield(timeline.Batch{Requests: requests, Watermarks: watermarks(nil, end)}, nil)
		}
		want := analyze(t, run)
		checkWindows(t, want)

		for seed := range uint64(3) {
			rng := rand.New(rand.NewPCG(seed, 1))
			tr := NewTracker(Options{})
			tr.Add(run.Meta)
			tr.Add(run.Targets[0])
			tr.Add(run.Targets[1])
			tr.Add(run.Events[0])
			deliver(rng, requests, end, func(b timeline.Batch) {
				tr.Add(b)
				if rng.IntN(8) == 0 {
					live := tr.Timeline()
					checkLive(t, live, want)
				}
			})
			tr.Add(run.Events[1])
			if diff := gocmp.Diff(want, tr.Timeline(), addresses); diff != "" {
				t.Fatalf("order %d: the Tracker differs from Analyze (-analyze +tracker):\n%s", seed, diff)
			}
			if t.Failed() {
				return
			}
		}
	})
}

// FuzzKeptJudgement ends a direct target while facts still come, of itself, of the clocks, of stalls and of names,
// and holds what is said of it again against what is judged anew.
func FuzzKeptJudgement(f *testing.F) {
	addSeeds(f)
	f.Fuzz(func(t *testing.T, data []byte) {
		requests, end := requestsToTwo(data)
		for i := range requests {
			requests[i].Backend = uint16(1 + i%2)
		}
		for seed := range uint64(2) {
			rng := rand.New(rand.NewPCG(seed, 2))
			run := fuzzRun(requests, 30*time.Millisecond)
			tr := NewTracker(Options{})
			tr.Add(run.Meta)
			tr.Add(run.Targets[0])
			tr.Add(timeline.Target{ID: 2, Name: "direct", Kind: timeline.Direct, Rate: 200,
				Timeout: 80 * time.Millisecond})
			ended := timeline.Event{Seen: end / 2, Kind: timeline.TargetChanged, To: "ended",
				Object: timeline.Object{Name: "direct"}}
			others := []timeline.Fact{
				ended,
				timeline.Event{Seen: end / 2, Since: end/2 - 80*time.Millisecond, Kind: timeline.ProberStall},
				timeline.Backend{ID: 1, Name: "web-1"}, timeline.Backend{ID: 2, Name: "web-2"},
				timeline.Sync{At: end / 3, Min: -time.Millisecond, Max: time.Millisecond},
				timeline.Source{Name: "lapse-0", Node: "node1"},
				timeline.Event{Seen: end / 2, Kind: timeline.TargetChanged, To: "measuring", Object: ended.Object},
				ended,
				timeline.Target{ID: 2, Name: "direct", Kind: timeline.Direct, Rate: 200,
					Timeout: 80 * time.Millisecond, Pod: "shop/web-1"},
			}
			check := func(f timeline.Fact) {
				tr.Add(f)
				again := tr.Timeline()
				for _, track := range tr.targets {
					track.kept = nil
				}
				if anew := tr.Timeline(); !reflect.DeepEqual(anew, again) { // far quicker than Diff
					t.Fatalf("order %d: after %+v what was kept differs (-judged anew +kept):\n%s", seed, f,
						gocmp.Diff(anew, again, addresses))
				}
			}
			deliver(rng, requests, end, func(b timeline.Batch) {
				if len(others) == 0 && rng.IntN(8) > 0 {
					tr.Add(b)
					return
				}
				check(b)
				if len(others) > 0 && rng.IntN(2) == 0 {
					check(others[0])
					others = others[1:]
				}
			})
			for _, f := range others {
				check(f)
			}
		}
	})
}

// checkLive checks that what a live timeline calls final is found in the final one.
func checkLive(t *testing.T, live, final *model.Timeline) {
	t.Helper()
	checkWindows(t, live)
	if !live.Run.Live {
		t.Error("a run that has not ended is not marked live")
	}
	type key struct {
		target string
		slow   bool
		start  model.Instant
	}
	known := map[key]model.Window{}
	for _, w := range final.Windows {
		w.ID, w.Causes = 0, nil
		known[key{w.Target, w.Kind == model.Slow, w.Start}] = w
	}
	for _, w := range live.Windows {
		w.ID, w.Causes = 0, nil
		if !w.Live && !gocmp.Equal(w, known[key{w.Target, w.Kind == model.Slow, w.Start}]) {
			t.Errorf("a window that was final changed: %+v\nnow: %+v", w,
				known[key{w.Target, w.Kind == model.Slow, w.Start}])
		}
	}
}
