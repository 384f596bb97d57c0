package causes

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/causes/evidence"
	"lapse/correlate/model"
	"lapse/timeline"
)

func TestEveryRuleIsDescribed(t *testing.T) {
	known := map[string]bool{}
	for _, r := range Rules() {
		if r.Name == "" || known[r.Name] || r.Doc == "" || r.Test == nil && r.Held == nil {
			t.Errorf("a rule that lacks something, or has the name of another: %+v", r)
		}
		known[r.Name] = true
	}
}

func TestTwoCausesThatFitEquallyWellKeepNoHighConfidence(t *testing.T) {
	ranked := rank([]model.Cause{{Rule: "a", Confidence: model.Low, Text: "A"},
		{Rule: "b", Confidence: model.High, Text: "B"}, {Rule: "c", Confidence: model.High, Text: "C"}})
	var got []string
	for _, c := range ranked {
		got = append(got, c.Rule+" "+string(c.Confidence))
	}
	if strings.Join(got, ", ") != "b medium, c medium, a low" {
		t.Errorf("ranked %v", got)
	}
	if want := "c fits too, but ranks lower [medium]: C"; ranked[0].Rivals[0] != want {
		t.Errorf("rivals of the first %q, want %q among them", ranked[0].Rivals, want)
	}
	if want := "b ranks higher [medium]"; ranked[2].Rivals[0] != want {
		t.Errorf("rivals of the last %q, want %q among them", ranked[2].Rivals, want)
	}

	alone := rank([]model.Cause{{Rule: "a", Confidence: model.High}, {Rule: "b", Confidence: model.Medium}})
	if alone[0].Confidence != model.High {
		t.Errorf("a weaker rival took the high confidence: %+v", alone[0])
	}
}

func BenchmarkExplainThousandWindows(b *testing.B) {
	tl := &model.Timeline{Targets: []model.Target{
		{Target: timeline.Target{Name: "new", Kind: timeline.New, Service: "shop/web"}, Source: "prober"},
		{Target: timeline.Target{Name: "direct", Kind: timeline.Direct, Service: "shop/web", PodUID: "u0"}},
	}}
	for i := range 1000 {
		at := time.Duration(i) * 10 * time.Second
		tl.Windows = append(tl.Windows, model.Window{Target: "new", Kind: model.Partial,
			Start: model.Instant{Earliest: at, Latest: at + time.Millisecond},
			End:   model.Instant{Earliest: at + 50*time.Millisecond, Latest: at + 60*time.Millisecond}, Sent: 20,
			Failed: 10, Classes: map[string]int{"refused": 10}})
		for j := range 10 {
			tl.Events = append(tl.Events, model.Event{Event: timeline.Event{ID: uint32(i*10 + j), Seen: at, Kind: timeline.EndpointChanged,
				From: "ready", To: "terminating", Object: timeline.Object{Kind: "Pod", Namespace: "shop",
					UID: "u" + string(rune('a'+j))}},
				At: model.Instant{Earliest: at - time.Second, Latest: at}})
		}
	}
	for b.Loop() {
		Explain(&evidence.Input{Run: tl})
	}
}
