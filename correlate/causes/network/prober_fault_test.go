package network

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
)

func TestStandstillExplainsOnlyWhatItCanMake(t *testing.T) {
	v := evidence.New(&evidence.Input{Run: &model.Timeline{Run: model.RunInfo{Timeout: 800 * time.Millisecond},
		Targets: []model.Target{{SlowFrom: 500 * time.Millisecond}}}})
	timeouts := map[string]int{"timeout_connect": 3, "no_slot": 1}
	for _, tt := range []struct {
		name  string
		w     model.Window
		stall time.Duration
		why   string
	}{
		{"long enough to time out", model.Window{Kind: model.Outage, Classes: timeouts}, 700 * time.Millisecond, ""},
		{"too short to time out", model.Window{Kind: model.Outage, Classes: timeouts}, 20 * time.Millisecond,
			"too short to make requests time out"},
		{"a refusal is an answer",
			model.Window{Kind: model.Outage, Classes: map[string]int{"timeout_connect": 3, "refused": 1}}, time.Second,
			"makes no 3 timeout_connect, 1 refused"},
		{"late answers", model.Window{Kind: model.Slow, Slow: 4}, time.Second, ""},
		{"answers later than it was long", model.Window{Kind: model.Slow, Slow: 4}, 100 * time.Millisecond,
			"too short to make answers this slow"},
	} {
		why := cannotStall(v, &tt.w, tt.stall)
		if why == "" != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.why)
		}
	}
}
