package model

import (
	"reflect"
	"slices"
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
	if n := reflect.TypeFor[BucketSeries]().NumField(); n != 6 {
		t.Errorf("a series has %d members, and Halve knows 6", n)
	}
}

func histograms(of ...SparseCounts) []Histogram {
	list := make([]Histogram, len(of))
	for i, counts := range of {
		list[i] = NewHistogram(counts)
	}
	return list
}

func TestSlotsThatAreLeftOutAreWhereTheyWere(t *testing.T) {
	whole := BucketSeries{
		Sent: []int{0, 0, 0, 4, 0, 2, 0, 0}, Failed: []int{0, 0, 0, 1, 0, 2, 0, 0}, Unobserved: []float64{0, 0, 0, 0.5, 0, 0, 0, 0.25},
		Latency: make([]Histogram, 8), Classes: map[string]SparseCounts{"refused": {3, 1, 5, 2}},
	}
	measured := whole.Measured()
	if measured.Start != 3 || len(measured.Sent) != 5 || len(measured.Latency) != 5 {
		t.Fatalf("%+v, want the slots 3 to 7", measured)
	}
	if again := measured.Whole(); !slices.Equal(again.Sent, whole.Sent) || !slices.Equal(again.Failed, whole.Failed) || !slices.Equal(again.Unobserved, whole.Unobserved) {
		t.Errorf("%+v, want %+v", again, whole)
	}
	of := func(s BucketSeries) BucketSeries {
		return Buckets{Targets: map[string]BucketSeries{"": s}}.Halve().Targets[""]
	}
	if got, want := of(measured).Whole(), of(whole); !slices.Equal(got.Sent, want.Sent) || !slices.Equal(got.Failed, want.Failed) || !slices.Equal(got.Unobserved, want.Unobserved) {
		t.Errorf("halved %+v, want %+v", got, want)
	}
}
