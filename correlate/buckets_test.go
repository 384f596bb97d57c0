package correlate

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"lapse/timeline"
)

func TestLatencySlotsTouchAndAreNarrow(t *testing.T) {
	_, end := SlotLatency(-1)
	for slot := range 250 {
		low, high := SlotLatency(slot)
		if low != end || high <= low {
			t.Fatalf("slot %d is [%v, %v), the one before ends at %v", slot, low, high, end)
		}
		if LatencySlot(low) != slot || LatencySlot(high-1) != slot {
			t.Fatalf("slot %d is [%v, %v), but LatencySlot says %d and %d", slot, low, high, LatencySlot(low), LatencySlot(high-1))
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
			r := timeline.Request{Target: 1, Seq: uint64(i), Due: at, Sent: at, Done: at + time.Duration(i%7)*time.Millisecond}
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
			for j := 1; j < len(series.Latency[i]); j += 2 {
				answered += series.Latency[i][j]
			}
		}
		if sent != n || failed != 300 || answered != n-300 {
			t.Errorf("every %v: %d sent, %d failed, %d answered", test.every, sent, failed, answered)
		}
	}
}

func TestBucketsOfALongRunMerge(t *testing.T) {
	var fine, coarse series
	for i := range 5000 {
		at := time.Duration(i) * 300 * time.Millisecond
		fine.at(at).sent++
		fine.at(at).add(LatencySlot(time.Duration(i)*time.Microsecond), 1)
	}
	coarse.width = fine.width
	for i := range 5000 {
		at := time.Duration(i) * 300 * time.Millisecond
		coarse.at(at).sent++
		coarse.at(at).add(LatencySlot(time.Duration(i)*time.Microsecond), 1)
	}
	if fine.width != 800*time.Millisecond {
		t.Fatalf("25 minutes in slots of %v", fine.width)
	}
	a, b := fine.publish(1875, nil), coarse.publish(1875, nil)
	for i := range a.Sent {
		if a.Sent[i] != b.Sent[i] || len(a.Latency[i]) != len(b.Latency[i]) {
			t.Fatalf("slot %d: merged %d %v, counted at once %d %v", i, a.Sent[i], a.Latency[i], b.Sent[i], b.Latency[i])
		}
	}
}

func TestBucketsTellTheClassOfEachFailure(t *testing.T) {
	var fine, coarse series
	coarse.width = 400 * time.Millisecond // what 25 minutes need
	for i := range 5000 {
		for _, s := range []*series{&fine, &coarse} {
			at := s.at(time.Duration(i) * 300 * time.Millisecond)
			at.sent++
			if i%10 == 3 {
				at.fail([]timeline.Class{timeline.Reset, timeline.Refused}[i/10%2], 2)
			}
		}
	}
	b := fine.publish(3750, nil)
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
	if diff := cmp.Diff(b.Classes, coarse.publish(3750, nil).Classes); diff != "" {
		t.Errorf("merging changes what is told (-fine +coarse):\n%s", diff)
	}
	if healthy := analyze(t, rowRun(row("ok*5"))).Buckets.Targets["new"]; healthy.Classes != nil {
		t.Errorf("classes %v without any failure", healthy.Classes)
	}
}

func TestBucketsTellWhatWasNotObserved(t *testing.T) {
	series := analyze(t, rowRun(row("ok*5 -*10 ok*5"))).Buckets.Targets["new"]
	if len(series.Unobserved) != 2 || series.Unobserved[0] < 0.59 || series.Unobserved[0] > 0.61 || series.Unobserved[1] < 0.49 || series.Unobserved[1] > 0.51 {
		t.Errorf("unobserved %v, want 0.6 and 0.5", series.Unobserved)
	}
}
