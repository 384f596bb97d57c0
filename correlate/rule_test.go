package correlate

import (
	"strings"
	"testing"
	"time"

	"lapse/timeline"
)

func TestStandstillExplainsOnlyWhatItCanMake(t *testing.T) {
	v := newView(&scene{run: &Timeline{Run: RunInfo{Timeout: 800 * time.Millisecond}, Targets: []Target{{SlowFrom: 500 * time.Millisecond}}}})
	timeouts := map[string]int{"timeout_connect": 3, "no_slot": 1}
	for _, tt := range []struct {
		name  string
		w     Window
		stall time.Duration
		why   string
	}{
		{"long enough to time out", Window{Kind: Outage, Classes: timeouts}, 700 * time.Millisecond, ""},
		{"too short to time out", Window{Kind: Outage, Classes: timeouts}, 20 * time.Millisecond, "too short to make requests time out"},
		{"a refusal is an answer", Window{Kind: Outage, Classes: map[string]int{"timeout_connect": 3, "refused": 1}}, time.Second, "makes no 3 timeout_connect, 1 refused"},
		{"late answers", Window{Kind: Slow, Slow: 4}, time.Second, ""},
		{"answers later than it was long", Window{Kind: Slow, Slow: 4}, 100 * time.Millisecond, "too short to make answers this slow"},
	} {
		why := cannotStall(v, &tt.w, tt.stall)
		if why == "" != (tt.why == "") || !strings.Contains(why, tt.why) {
			t.Errorf("%s: %q, want %q", tt.name, why, tt.why)
		}
	}
}

func TestOpenOnsetReachesIntoTheTimeNotObserved(t *testing.T) {
	v := newView(&scene{run: &Timeline{Unobserved: []Unobserved{
		{Target: "new", Start: 1 * time.Second, End: 2 * time.Second},
		{Target: "new", Start: 9 * time.Second, End: 10 * time.Second},
		{Target: "reused", Start: 8 * time.Second, End: 10 * time.Second},
	}}})
	start := Instant{10 * time.Second, 11 * time.Second}
	for _, tt := range []struct {
		name string
		w    Window
		want time.Duration
	}{
		{"closed", Window{Target: "new", Start: start}, 10 * time.Second},
		{"open to a gap", Window{Target: "new", Start: start, Open: Open{Start: true}}, 9 * time.Second},
		{"open because nothing was ever well", Window{Target: "other", Start: start, Open: Open{Start: true}}, Unbounded},
	} {
		if got := v.onset(&tt.w); got.Earliest != tt.want || got.Latest != start.Latest {
			t.Errorf("%s: onset %v, want from %v", tt.name, got, tt.want)
		}
	}
}

func TestTwoCausesThatFitEquallyWellKeepNoHighConfidence(t *testing.T) {
	ranked := rank([]Cause{{Rule: "a", Confidence: Low, Text: "A"}, {Rule: "b", Confidence: High, Text: "B"}, {Rule: "c", Confidence: High, Text: "C"}})
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

	alone := rank([]Cause{{Rule: "a", Confidence: High}, {Rule: "b", Confidence: Medium}})
	if alone[0].Confidence != High {
		t.Errorf("a weaker rival took the high confidence: %+v", alone[0])
	}
}

func BenchmarkExplainThousandWindows(b *testing.B) {
	tl := &Timeline{Targets: []Target{
		{Name: "new", Kind: timeline.New, Service: "shop/web", Source: "prober"},
		{Name: "direct", Kind: timeline.Direct, Service: "shop/web", PodUID: "u0"},
	}}
	for i := range 1000 {
		at := time.Duration(i) * 10 * time.Second
		tl.Windows = append(tl.Windows, Window{Target: "new", Kind: Partial, Start: Instant{at, at + time.Millisecond}, End: Instant{at + 50*time.Millisecond, at + 60*time.Millisecond}, Sent: 20, Failed: 10, Classes: map[string]int{"refused": 10}})
		for j := range 10 {
			tl.Events = append(tl.Events, Event{ID: uint32(i*10 + j), Seen: at, At: Instant{at - time.Second, at}, Kind: timeline.EndpointChanged, From: "ready", To: "terminating", Object: &timeline.Object{Kind: "Pod", Namespace: "shop", UID: "u" + string(rune('a'+j))}})
		}
	}
	for b.Loop() {
		explain(&scene{run: tl})
	}
}
