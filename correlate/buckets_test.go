package correlate

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/timeline"
)

func TestLatencyBinsTouchAndAreNarrow(t *testing.T) {
	_, end := model.BinLatency(-1)
	for slot := range 250 {
		low, high := model.BinLatency(slot)
		if low != end || high <= low {
			t.Fatalf("slot %d is [%v, %v), the one before ends at %v", slot, low, high, end)
		}
		if model.LatencyBin(low) != slot || model.LatencyBin(high-1) != slot {
			t.Fatalf("slot %d is [%v, %v), but LatencyBin says %d and %d", slot, low, high, model.LatencyBin(low),
				model.LatencyBin(high-1))
		}
		if slot >= 8 && float64(high-low) > 0.125*float64(low) {
			t.Errorf("slot %d is [%v, %v): wider than 12.5 %%", slot, low, high)
		}
		end = high
	}
}

func TestBucketsHoldEveryRequestOnce(t *testing.T) {
	for _, test := range []struct {
		every, width time.Duration
	}{
		{10 * time.Millisecond, 100 * time.Millisecond},
		{time.Second, 3200 * time.Millisecond},           // at least two requests per slot
		{300 * time.Millisecond, 800 * time.Millisecond}, // also fewer than maxSlots
	} {
		const n = 3001
		var requests []timeline.Request
		for i := range n {
			at := time.Duration(i) * test.every
			r := timeline.Request{Target: 1, Seq: uint64(i), Due: at, Sent: at,
				Done: at + time.Duration(i%7)*time.Millisecond}
			if i%10 == 3 {
				r.Class = timeline.Reset
			}
			requests = append(requests, r)
		}
		run := rowRun(requests)
		run.Targets[0].Rate = float64(time.Second) / float64(test.every)
		b := analyze(t, run).Buckets
		if b.Width != test.width {
			t.Errorf("every %v: slots are %v wide, want %v", test.every, b.Width, test.width)
		}
		sent, failed, answered := 0, 0, 0
		series := b.Targets["new"]
		for i := range series.Sent {
			sent, failed = sent+series.Sent[i], failed+series.Failed[i]
			for _, n := range series.Latency[i].All() {
				answered += n
			}
		}
		if sent != n || failed != 300 || answered != n-300 {
			t.Errorf("every %v: %d sent, %d failed, %d answered", test.every, sent, failed, answered)
		}
	}
}

func TestBucketsOfALongRunMerge(t *testing.T) {
	requests := make([]timeline.Request, 5000)
	for i := range requests {
		at := time.Duration(i) * 300 * time.Millisecond
		requests[i] = timeline.Request{Due: at, Sent: at, Done: at + time.Duration(i%900)*time.Microsecond}
	}
	var fine, coarse series
	for i := range requests {
		fine.add(&requests[i])
	}
	coarse.width = fine.width
	for i := range requests {
		coarse.add(&requests[i])
	}
	if fine.width != 800*time.Millisecond {
		t.Fatalf("25 minutes in slots of %v", fine.width)
	}
	if diff := cmp.Diff(coarse.publish(1875), fine.publish(1875)); diff != "" {
		t.Errorf("merging changes the figures (-counted at once +merged):\n%s", diff)
	}
}

// However late answers come, in whatever order, each is counted in the slot it was sent in.
func TestBucketsCountAnswersOutOfOrder(t *testing.T) {
	const slots = 5 * maxOpenBuckets
	random := rand.New(rand.NewPCG(1, 2))
	var requests []timeline.Request
	want := make([]map[int]int, slots)
	for i := range 50 * slots {
		at := time.Duration(i) * bucketWidth / 50
		r := timeline.Request{Due: at, Sent: at, Done: at + time.Duration(random.Int64N(int64(10*time.Second)))}
		requests = append(requests, r)
		if want[i/50] == nil {
			want[i/50] = map[int]int{}
		}
		want[i/50][model.LatencyBin(r.Latency())]++
	}
	slices.SortFunc(requests, func(a, b timeline.Request) int { return int(a.Done - b.Done) })
	var s series
	for i := range requests {
		s.add(&requests[i])
		if i%1000 == 0 {
			s.publish(s.n) // looking must change nothing
		}
	}
	for i, h := range s.publish(slots).Latency {
		if got := maps.Collect(h.All()); !maps.Equal(got, want[i]) {
			t.Fatalf("slot %d: %v, want %v", i, got, want[i])
		}
	}
}

func TestBucketsTellTheClassOfEachFailure(t *testing.T) {
	var fine, coarse series
	coarse.width = 400 * time.Millisecond // what 25 minutes need
	for i := range 5000 {
		for _, s := range []*series{&fine, &coarse} {
			at := s.index(time.Duration(i) * 300 * time.Millisecond)
			s.at(at).sent++
			if i%10 == 3 {
				s.at(at).fail([]timeline.Class{timeline.Reset, timeline.Refused}[i/10%2], 2)
			}
		}
	}
	b := fine.publish(3750)
	sum := map[string]int{}
	perSlot := make([]int, 3750)
	for class, pairs := range b.Classes {
		for i := 0; i < len(pairs); i += 2 {
			sum[class] += pairs[i+1]
			perSlot[pairs[i]] += pairs[i+1]
		}
	}
	if len(sum) != 2 || sum["reset"] != 500 || sum["refused"] != 500 || !slices.Equal(perSlot, b.Failed) {
		t.Errorf("failures by class %v; they do not add up to those by slot", sum)
	}
	if diff := cmp.Diff(b.Classes, coarse.publish(3750).Classes); diff != "" {
		t.Errorf("merging changes the figures (-fine +coarse):\n%s", diff)
	}
	if healthy := analyze(t, rowRun(row("ok*5"))).Buckets.Targets["new"]; healthy.Classes != nil {
		t.Errorf("classes %v without any failure", healthy.Classes)
	}
}

func TestBucketsTellWhatWasNotObserved(t *testing.T) {
	series := analyze(t, rowRun(row("ok*5 -*10 ok*5"))).Buckets.Targets["new"]
	if len(series.Unobserved) != 2 || series.Unobserved[0] < 0.59 || series.Unobserved[0] > 0.61 ||
		series.Unobserved[1] < 0.49 || series.Unobserved[1] > 0.51 {
		t.Errorf("unobserved %v, want 0.6 and 0.5", series.Unobserved)
	}
}

// The series of a run that is over are made when somebody asks for them: they are the same, and JSON is, too.
func TestSeriesThatAreMadeWhenAskedAreTheSame(t *testing.T) {
	fed := func() *Tracker {
		f := newFleet(30)
		for f.second < 400 {
			f.next()
		}
		return f.tracker
	}
	want, last := fed().Timeline(), fed().Last()
	if diff := cmp.Diff(want.Buckets, last.Buckets.Kept()); diff != "" {
		t.Errorf("kept, and made (-want +got):\n%s", diff)
	}
	for name, series := range want.Buckets.Targets {
		if got, ok := last.Buckets.Of(name); !ok || !reflect.DeepEqual(got, series) {
			t.Errorf("%s: %+v, want %+v", name, got, series)
		}
	}
	if _, ok := last.Buckets.Of("another"); ok || last.Buckets.Len() != want.Buckets.Len() || last.Buckets.Len() < 30 {
		t.Errorf("%d series, want %d", last.Buckets.Len(), want.Buckets.Len())
	}
}

// A target that joins a run whose buckets are wide has such buckets from its first request on, and one that is asked
// seldom has none that are open: where many nodes ask many Services there are thousands of both.
func TestATargetThatJoinsLaterTakesNoMoreMemory(t *testing.T) {
	tracker := NewTracker(Options{})
	tracker.Add(benchMeta)
	for id := timeline.TargetID(1); id <= 2; id++ {
		tracker.Add(timeline.Target{ID: id, Name: fmt.Sprintf("web new from node%d", id), Kind: timeline.New,
			Service: "shop/web", Rate: 0.05, Timeout: simTimeout})
		for seq := range uint64(5) {
			due := time.Duration(seq) * 20 * time.Second
			tracker.Add(timeline.Batch{Requests: []timeline.Request{{Target: id, Seq: seq, Due: due, Sent: due,
				Done: due + time.Millisecond}}})
		}
		tracker.SetEnd(100 * time.Second)
		tracker.Brief()
	}
	first, second := &tracker.targets[1].series, &tracker.targets[2].series
	if first.width != 51200*time.Millisecond || second.width != first.width || len(second.chunks) != len(first.chunks) {
		t.Errorf("buckets of the first are %v wide in %d chunks, of the second %v in %d", first.width,
			len(first.chunks), second.width, len(second.chunks))
	}
	if first.open != nil || second.open != nil {
		t.Error("a target that is asked every 20 s has open buckets")
	}
	for name, series := range tracker.Timeline().Buckets.Targets {
		if want := []model.Histogram{latenciesOf(3, time.Millisecond),
			latenciesOf(2, time.Millisecond)}; !slices.Equal(series.Latency, want) {
			t.Errorf("%s: latencies %q, want %q", name, series.Latency, want)
		}
	}
}

func latenciesOf(n int, latency time.Duration) model.Histogram {
	return model.NewHistogram(model.SparseCounts{model.LatencyBin(latency), n})
}
