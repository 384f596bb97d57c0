package evidence

import (
	"testing"
	"time"

	"lapse/correlate/internal/windows"
	"lapse/correlate/model"
	"lapse/timeline"
)

// The first Pod that is listed is asked alone, and shares the rate with others later. What is said of its rate is that
// of its start: here 100/s, and requests 200 ms apart.
func TestAPodMayHaveStoppedUntilTheNextRequestToItWasAnsweredNoMore(t *testing.T) {
	const ms = time.Millisecond
	request := func(sent, took time.Duration, class timeline.Class) *timeline.Request {
		return &timeline.Request{Seq: uint64(sent / ms), Sent: sent, Done: sent + took, Outcome: timeline.Outcome{Class: class}}
	}
	outage := model.Window{Start: model.Instant{Earliest: 10_000 * ms, Latest: 11_000 * ms},
		Classes: map[string]int{"timeout_response": 20}}
	for _, tt := range []struct {
		name    string
		failure *timeline.Request // the first
		latest  time.Duration
	}{
		{"the next one failed", request(10_200*ms, 800*ms, timeline.TimeoutResponse), 10_205 * ms},
		{"one failed long before", request(5_000*ms, 800*ms, timeline.TimeoutResponse), 11_000 * ms},
		{"one that was sent before waited for longer", request(9_990*ms, 800*ms, timeline.TimeoutResponse), 11_000 * ms},
	} {
		direct := model.Target{Target: timeline.Target{ID: 1, Kind: timeline.Direct, Rate: 100},
			Latency: &model.Latency{Max: 5 * ms}}
		v := New(&Input{
			Run: &model.Timeline{Run: model.RunInfo{Timeout: 800 * ms}, Targets: []model.Target{direct}},
			Probed: map[timeline.TargetID]*Probed{1: {FirstLast: windows.FirstLast{
				LastOK: request(10_000*ms, ms, timeline.OK), FirstFailure: tt.failure,
			}}},
		})
		want := model.Instant{Earliest: 10_000 * ms, Latest: tt.latest}
		if got := v.Endings.beganToFail(&v.Run.Targets[0], &outage); got != want {
			t.Errorf("%s: it began to fail in %v, want %v", tt.name, got, want)
		}
	}
}
