package model

import (
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestHalvedSlotsHoldTheSameCounts(t *testing.T) {
	whole := Buckets{Width: 100 * time.Millisecond, Targets: map[string]BucketSeries{"web new": {
		Sent: []int{1, 2, 3, 4, 5}, Failed: []int{0, 1, 0, 2, 3}, Unobserved: []float64{0, 0.5, 1, 1, 0.25},
		Latency: histograms(SparseCounts{3, 1, 9, 1}, SparseCounts{1, 1, 3, 2, 12, 5}, nil, SparseCounts{4, 2}, SparseCounts{7, 1}),
		Classes: map[string]SparseCounts{"refused": {1, 1, 3, 1, 4, 3}, "eof": {3, 1}},
	}}}
	want := Buckets{Width: 200 * time.Millisecond, Targets: map[string]BucketSeries{"web new": {
		Sent: []int{3, 7, 5}, Failed: []int{1, 2, 3}, Unobserved: []float64{0.25, 1, 0.25},
		Latency: histograms(SparseCounts{1, 1, 3, 3, 9, 1, 12, 5}, SparseCounts{4, 2}, SparseCounts{7, 1}),
		Classes: map[string]SparseCounts{"refused": {0, 1, 1, 1, 2, 3}, "eof": {1, 1}},
	}}}
	if diff := cmp.Diff(want, whole.Halve()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := reflect.TypeFor[BucketSeries]().NumField(); n != 5 {
		t.Errorf("a series has %d members, and Halve knows 5", n)
	}
}

func histograms(of ...SparseCounts) []Histogram {
	list := make([]Histogram, len(of))
	for i, counts := range of {
		list[i] = NewHistogram(counts)
	}
	return list
}
