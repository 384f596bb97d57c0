package evidence

import (
	"testing"
	"time"

	"lapse/correlate/model"
)

func TestOpenOnsetReachesIntoTheTimeNotObserved(t *testing.T) {
	v := New(&Input{Run: &model.Timeline{Unobserved: []model.Unobserved{
		{Target: "new", Start: 1 * time.Second, End: 2 * time.Second},
		{Target: "new", Start: 9 * time.Second, End: 10 * time.Second},
		{Target: "reused", Start: 8 * time.Second, End: 10 * time.Second},
	}}})
	start := model.Instant{Earliest: 10 * time.Second, Latest: 11 * time.Second}
	for _, tt := range []struct {
		name string
		w    model.Window
		want time.Duration
	}{
		{"closed", model.Window{Target: "new", Start: start}, 10 * time.Second},
		{"open to a gap", model.Window{Target: "new", Start: start, Open: model.Open{Start: true}}, 9 * time.Second},
		{"open because nothing was ever well", model.Window{Target: "other", Start: start,
			Open: model.Open{Start: true}}, model.Unbounded},
	} {
		if got := v.Traffic.Onset(&tt.w); got.Earliest != tt.want || got.Latest != start.Latest {
			t.Errorf("%s: onset %v, want from %v", tt.name, got, tt.want)
		}
	}
}
