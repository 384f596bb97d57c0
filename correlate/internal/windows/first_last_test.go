package windows

import (
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/timeline"
)

// The stop is proved by requests alone: between the last answered one and the first that is known
// to have failed after it.
func TestPodStoppedOnlyIfNoAnswerFollows(t *testing.T) {
	at := func(sent, done time.Duration) *timeline.Request { return &timeline.Request{Sent: sent, Done: done} }
	for _, tt := range []struct {
		name    string
		edge    FirstLast
		outages []model.Window
		want    *model.Instant
	}{
		{"never answered", FirstLast{LastFailure: at(5, 6)}, nil, nil},
		{"never failed", FirstLast{LastOK: at(5, 6)}, nil, nil},
		{"answered after failing", FirstLast{LastOK: at(50, 60), LastFailure: at(20, 30)},
			[]model.Window{{Start: model.Instant{Earliest: 10, Latest: 21}}}, nil},
		{"stopped", FirstLast{LastOK: at(50, 60), LastFailure: at(90, 95)},
			[]model.Window{{Start: model.Instant{Earliest: 10, Latest: 21}},
				{Start: model.Instant{Earliest: 50, Latest: 66}}}, &model.Instant{Earliest: 50, Latest: 66}},
		{"failing on and off before", FirstLast{LastOK: at(50, 60), LastFailure: at(90, 95)},
			[]model.Window{{Start: model.Instant{Earliest: 10, Latest: 21}}}, &model.Instant{Earliest: 50, Latest: 95}},
	} {
		got := tt.edge.Stop(tt.outages)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: stopped %v, want %v", tt.name, got, tt.want)
		}
	}
}
