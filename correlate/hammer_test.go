package correlate

import (
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

func hammerRun(events ...timeline.Event) timeline.Run { return rowRun(row("ok*10"), events...) }

func TestHammerIsToldWithItsTimesAndItsSummary(t *testing.T) {
	tl := analyze(t, hammerRun(
		timeline.Event{Seen: 3 * tick, Kind: timeline.Hammer, To: "running", Detail: "-c 5"},
		timeline.Event{Seen: 9 * tick, Kind: timeline.Hammer, To: "ended", Detail: `{
			"Total":2,"NumRes":10,"Rps":4,"Unanswered":3,"Average":0.002,"Fastest":0.001,"Slowest":0.25,
			"LatencyDistribution":[
				{"Percentage":10,"Latency":0.001},{"Percentage":50,"Latency":0.0015},{"Percentage":99,"Latency":0.2}],
			"StatusCodeDist":{"200":7,"503":1},"ErrorDist":{"EOF":2},"SizeTotal":80}`}))
	want := &model.Hammer{Args: "-c 5", Start: new(3 * tick), End: new(9 * tick), Summary: &model.HammerSummary{
		Duration: 2 * time.Second, Requests: 10, Rate: 5, Unanswered: 3, Bytes: 80,
		Latency: &model.HammerLatency{Mean: 2 * ms, Min: ms, P50: 1500 * time.Microsecond, P99: 200 * ms,
			Max: 250 * ms},
		Statuses: map[string]int{"200": 7, "503": 1}, Errors: map[string]int{"EOF": 2},
	}}
	if diff := gocmp.Diff(want, tl.Hammer); diff != "" {
		t.Error(diff)
	}
	if got := tl.Hammer.Summary.Failed(); got != 2 {
		t.Errorf("%d failed, want 2", got)
	}
}

func TestHammerWithoutAReplyHasNoLatency(t *testing.T) {
	tl := analyze(t, hammerRun(
		timeline.Event{Seen: 3 * tick, Kind: timeline.Hammer, To: "running", Detail: "-c 5"},
		timeline.Event{Seen: 9 * tick, Kind: timeline.Hammer, To: "ended",
			Detail: `{"Total":1,"NumRes":4,"ErrorDist":{"EOF":4}}`}))
	want := &model.HammerSummary{Duration: time.Second, Requests: 4, Rate: 4, Statuses: map[string]int{},
		Errors: map[string]int{"EOF": 4}}
	if diff := gocmp.Diff(want, tl.Hammer.Summary); diff != "" {
		t.Error(diff)
	}
}

func TestHammerThatFailedOrDidNotEndHasNoSummary(t *testing.T) {
	began := timeline.Event{Seen: 3 * tick, Kind: timeline.Hammer, To: "running", Detail: "-c 5"}
	for _, tt := range []struct {
		name string
		then []timeline.Event
		want model.Hammer
	}{
		{"under way", nil, model.Hammer{Args: "-c 5", Start: new(3 * tick)}},
		{"failed", []timeline.Event{{Seen: 9 * tick, Kind: timeline.Hammer, To: "ended", Detail: "no such host"}},
			model.Hammer{Args: "-c 5", Start: new(3 * tick), End: new(9 * tick), Error: "no such host"}},
		{"failed with a number", []timeline.Event{{Seen: 9 * tick, Kind: timeline.Hammer, To: "ended", Detail: "42"}},
			model.Hammer{Args: "-c 5", Start: new(3 * tick), End: new(9 * tick), Error: "42"}},
	} {
		if diff := gocmp.Diff(&tt.want,
			analyze(t, hammerRun(append([]timeline.Event{began}, tt.then...)...)).Hammer); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// Whatever the background load met, it is no evidence.
func TestHammerErrorsAreNoDowntime(t *testing.T) {
	tl := analyze(t, hammerRun(
		timeline.Event{Seen: 3 * tick, Kind: timeline.Hammer, To: "running", Detail: "-c 5"},
		timeline.Event{Seen: 9 * tick, Kind: timeline.Hammer, To: "ended",
			Detail: `{"Total":1,"NumRes":4000,"ErrorDist":{"EOF":4000}}`}))
	verdict.Judge(tl, gatesOf(t, "failed>0"))
	if v := tl.Verdict; v.Failed != 0 || len(tl.Windows) != 0 || strings.Contains(strings.Join(v.Reasons, " "), "EOF") {
		t.Errorf("%+v", v)
	}
}
