package publish

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/dashboard"
)

// Every chunk of a series tells of the classes of its own failures, and of no others.
func TestChunksTellTheClassesOfTheirSlots(t *testing.T) {
	const slots = 3*chunkSlots + 7
	series := model.BucketSeries{
		Sent: make([]int, slots), Failed: make([]int, slots), Unobserved: make([]float64, slots), Latency: make([]model.Histogram, slots),
		Classes: map[string]model.SparseCounts{},
	}
	for i := range slots {
		series.Sent[i] = 9
		if i%3 == 0 {
			class := []string{"refused", "eof"}[i/chunkSlots%2]
			series.Failed[i] = 1 + i%5
			series.Classes[class] = append(series.Classes[class], i, series.Failed[i])
		}
	}
	store := dashboard.NewStore()
	if err := To(store).Show(&model.Timeline{Buckets: model.Buckets{Width: 100 * time.Millisecond, Targets: map[string]model.BucketSeries{"web new": series}}}, 0); err != nil {
		t.Fatal(err)
	}
	chunks := 0
	for key, value := range store.Snapshot().Entries {
		if !strings.HasPrefix(key, "bucket/") {
			continue
		}
		chunks++
		var c chunk
		if err := json.Unmarshal(value, &c); err != nil {
			t.Fatal(err)
		}
		told := make([]int, len(c.Sent))
		for _, pairs := range c.Classes {
			for i := 0; i < len(pairs); i += 2 {
				told[pairs[i]-c.Start] += pairs[i+1]
			}
		}
		if !slices.Equal(told, c.Failed) {
			t.Errorf("%s tells the classes of %v failures, there are %v", key, told, c.Failed)
		}
	}
	if chunks != 4 {
		t.Errorf("%d chunks, want 4", chunks)
	}
}
