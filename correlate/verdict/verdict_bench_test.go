package verdict

import (
	"fmt"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// BenchmarkJudgeManyTargets judges ten times as many targets in ten times the time: a run is judged several times per
// second while it goes on.
func BenchmarkJudgeManyTargets(b *testing.B) {
	for _, n := range []int{2000, 20_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			tl := &model.Timeline{Run: model.RunInfo{Duration: time.Minute}}
			for i := range n {
				name := fmt.Sprint("new ", i)
				tl.Targets = append(tl.Targets, model.Target{
					Target:   timeline.Target{ID: timeline.TargetID(i + 1), Name: name, Kind: timeline.New, Rate: 1},
					Sent:     60,
					OK:       60,
					Coverage: 0.999,
					Measured: model.Instant{Latest: time.Minute},
				})
				tl.Unobserved = append(tl.Unobserved, model.Unobserved{
					Target: name,
					Start:  time.Second,
					End:    1060 * time.Millisecond,
					Reason: model.ReasonNotSent,
				})
			}
			for b.Loop() {
				Judge(tl, nil)
			}
		})
	}
}
