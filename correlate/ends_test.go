package correlate

import (
	"testing"
	"time"

	"lapse/timeline"
)

// The stop is proved by requests alone: between the last answered one and the first that is known
// to have failed after it.
func TestPodStoppedOnlyIfNoAnswerFollows(t *testing.T) {
	at := func(sent, done time.Duration) *timeline.Request { return &timeline.Request{Sent: sent, Done: done} }
	for _, tt := range []struct {
		name    string
		edge    edge
		outages []Window
		want    *Instant
	}{
		{"never answered", edge{lastFailure: at(5, 6)}, nil, nil},
		{"never failed", edge{lastOK: at(5, 6)}, nil, nil},
		{"answered after failing", edge{lastOK: at(50, 60), lastFailure: at(20, 30)}, []Window{{Start: Instant{10, 21}}}, nil},
		{"stopped", edge{lastOK: at(50, 60), lastFailure: at(90, 95)}, []Window{{Start: Instant{10, 21}}, {Start: Instant{50, 66}}}, &Instant{50, 66}},
		{"failing on and off before", edge{lastOK: at(50, 60), lastFailure: at(90, 95)}, []Window{{Start: Instant{10, 21}}}, &Instant{50, 95}},
	} {
		got := tt.edge.stop(tt.outages)
		if (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want {
			t.Errorf("%s: stopped %v, want %v", tt.name, got, tt.want)
		}
	}
}
