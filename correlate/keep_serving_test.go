package correlate

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// Of a simulated rollout it is known which Pod each request was routed to, and so what would have become of it had
// the Pod served longer.
func TestKeepServingHoldsWhatWouldHaveBeen(t *testing.T) {
	t.Parallel()
	points, width, failed, without := 0, 0, 0, 0
	for seed := range uint64(seeds(60)) {
		for _, shape := range []struct {
			replicas, batch int
			pause           time.Duration
			slow            bool
		}{{2, 1, 3 * time.Second, false}, {3, 1, 2 * time.Second, false}, {12, 6, 3 * time.Second, false},
			{4, 2, 20 * time.Second, true}} {
			r := newRollout(seed, shape.replicas, shape.batch, shape.pause, shape.slow)
			tl := analyzed(t, r.run())
			k := tl.KeepServing
			if k == nil {
				without += len(r.needed)
				continue
			}
			if k.Failed+k.Others != len(r.needed) {
				t.Errorf("seed %d: %d and %d failures, want %d", seed, k.Failed, k.Others, len(r.needed))
			}
			failed += k.Failed
			without += k.Others
			for _, left := range k.Left {
				truth := 0
				for _, needed := range r.needed {
					if needed > left.Longer {
						truth++
					}
				}
				points, width = points+1, width+left.Max-left.Min
				if truth < left.Min || truth > left.Max+k.Others {
					t.Errorf("seed %d, %d Pods, %d at once: serving %v longer leaves %d of %d, said to be %d to %d, "+
						"and %d others", seed, shape.replicas, shape.batch, left.Longer, truth, len(r.needed),
						left.Min, left.Max, k.Others)
				}
			}
		}
	}
	t.Logf("%d points of %d failures, %.1f wide in the mean; nothing is said of %d failures", points, failed,
		float64(width)/float64(max(1, points)), without)
	if failed < 9*without {
		t.Errorf("it is about %d failures, and not about %d", failed, without)
	}
}

// Where not every failure is listed, or none is of routes, nothing is said. Where the cause explains some of a
// window's failures, the others may be left.
func TestKeepServingCountsWhatItKnows(t *testing.T) {
	tl := &model.Timeline{
		Pods: []model.Pod{{Name: "web-1", Stopped: &model.Instant{Earliest: time.Second, Latest: time.Second +
			20*time.Millisecond}}},
		Targets: []model.Target{{Target: timeline.Target{Name: "web new"}, Latency: &model.Latency{P99: 10 * time.Millisecond}}},
		Windows: []model.Window{{
			Target: "web new", Start: model.Instant{Earliest: time.Second},
			End: model.Instant{Latest: 3 * time.Second}, Failed: 3,
			Causes: []model.Cause{{Rule: "route-outlives-pod", Confidence: model.High,
				Measures: []model.Measure{{Name: model.RouteLag, Object: "web-1",
					Length: model.Length{Max: 5 * time.Second}}}}},
		}},
	}
	for _, sent := range []time.Duration{1100, 1310, 1900, 9000} {
		tl.Failures = append(tl.Failures, model.Failure{Target: "web new", Sent: sent * time.Millisecond,
			Done: (sent + 1) * time.Millisecond})
	}
	left := func(longer time.Duration) (at model.ServedLonger) {
		for _, l := range keepServing(tl).Left {
			if l.Longer == longer {
				return l
			}
		}
		t.Fatalf("nothing is said of %v", longer)
		return at
	}
	const ms = time.Millisecond
	if k := keepServing(tl); k.Failed != 3 || k.Others != 1 || k.Left[len(k.Left)-1].Longer != time.Second {
		t.Errorf("%+v", k)
	}
	// The second was sent 290 to 310 ms after the Pod stopped, and an answer takes up to 10 ms.
	if at := left(300 * ms); at.Min != 1 || at.Max != 2 {
		t.Errorf("%+v", at)
	}
	if at := left(100 * ms); at.Min != 2 || at.Max != 3 {
		t.Errorf("%+v", at)
	}
	tl.Windows[0].Causes[0].Explains = 2
	if at := left(500 * ms); at.Min != 1 || at.Max != 2 {
		t.Errorf("one failure has another cause: %+v", at)
	}
	if at := left(10 * time.Second); at.Max != 1 {
		t.Errorf("one failure has another cause: %+v", at)
	}
	tl.Windows[0].Causes[0].Explains, tl.Pods[0].Stopped = 0, nil
	if k := keepServing(tl); k != nil {
		t.Errorf("when the Pod stopped is not known: %+v", k)
	}
	tl.Windows[0].Causes[0].Confidence = model.Low
	if k := keepServing(tl); k != nil {
		t.Errorf("low confidence: %+v", k)
	}
	tl.Windows[0].Causes[0].Confidence, tl.FailuresTruncated = model.Medium, 1
	if k := keepServing(tl); k != nil {
		t.Errorf("not all failures are listed: %+v", k)
	}
}
