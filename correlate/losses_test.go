package correlate

import (
	"slices"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// lossy is a run of two sources with a batch per second, of which those that lost names are not on record. The batch
// after a lost one is unobserved too: what was due in its time may have ended before, and be lost.
func lossy(lost func(source timeline.SourceID, second int) bool) timeline.Run {
	run := timeline.Run{Meta: timeline.Meta{ID: "lossy"}}
	var batches []timeline.Batch
	for id := timeline.SourceID(1); id <= 2; id++ {
		run.Sources = append(run.Sources, timeline.Source{ID: id, Name: []string{"east", "west"}[id-1]})
		run.Targets = append(run.Targets, timeline.Target{ID: timeline.TargetID(id),
			Name: []string{"east new", "west new"}[id-1], Kind: timeline.New, Source: id, Rate: 100,
			Timeout: time.Second})
		for s := range 5 {
			b := timeline.Batch{Source: id, FirstSeq: uint64(100 * s)}
			for i := range 100 {
				due := time.Duration(s)*time.Second + time.Duration(i)*10*time.Millisecond
				b.Requests = append(b.Requests, timeline.Request{Target: timeline.TargetID(id), Seq: uint64(100*s + i),
					Due: due, Sent: due, Done: due + time.Millisecond})
			}
			b.Watermarks = []timeline.Watermark{{Target: timeline.TargetID(id), Due: time.Duration(s+1) * time.Second}}
			if !lost(id, s) {
				batches = append(batches, b)
			}
		}
	}
	run.Events = []timeline.Event{
		{ID: 1, Kind: timeline.RunPhase, To: "measuring"},
		{ID: 2, Seen: time.Second, Kind: timeline.PodReady, To: "true",
			Object: timeline.Object{Kind: "Pod", Name: "web-1", UID: "u1"}},
		{ID: 3, Seen: 5 * time.Second, Kind: timeline.RunPhase, From: "measuring", To: "ended"},
	}
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		for _, b := range batches {
			if !yield(b, nil) {
				return
			}
		}
	}
	return run
}

func TestALostBatchIsUnobservedTimeOfItsSource(t *testing.T) {
	gate, err := verdict.ParseGate("failed > 0")
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name string
		lost []int
		want []model.Unobserved
	}{
		{"none", nil, []model.Unobserved{}},
		{"one", []int{2}, []model.Unobserved{{Target: "west new", Start: 2 * time.Second, End: 4 * time.Second,
			Reason: model.ReasonLost}}},
		{"two in a row", []int{1, 2}, []model.Unobserved{{Target: "west new", Start: time.Second, End: 4 * time.Second,
			Reason: model.ReasonLost}}},
		{"the first", []int{0}, []model.Unobserved{{Target: "west new", Start: time.Second, End: 2 * time.Second,
			Reason: model.ReasonLost}}},
	} {
		tl, err := Analyze(lossy(func(source timeline.SourceID, second int) bool {
			return source == 2 && slices.Contains(test.lost, second)
		}), Options{})
		if err != nil {
			t.Fatal(err)
		}
		verdict.Judge(tl, []verdict.Gate{gate})
		near := func(a, b time.Duration) bool { return (a - b).Abs() <= 20*time.Millisecond }
		if !slices.EqualFunc(tl.Unobserved, test.want, func(a, b model.Unobserved) bool {
			return a.Target == b.Target && a.Reason == b.Reason && near(a.End, b.End) &&
				(near(a.Start, b.Start) || a.Start > b.Start)
		}) {
			t.Errorf("%s lost: unobserved %+v, want %+v", test.name, tl.Unobserved, test.want)
		}
		if pass := tl.Verdict.Result == model.Pass; pass != (test.lost == nil) {
			t.Errorf("%s lost: %s", test.name, tl.Verdict.Result)
		}
	}
}

func TestLostEventsAreAWatchGap(t *testing.T) {
	run := lossy(func(timeline.SourceID, int) bool { return false })
	run.Events = slices.Delete(run.Events, 1, 2)
	tl := analyzed(t, run)
	gap := slices.IndexFunc(tl.Events, func(e model.Event) bool { return e.Kind == timeline.WatchGap })
	if gap < 0 || tl.Events[gap].ID != 2 || tl.Events[gap].At.Latest != 5*time.Second {
		t.Errorf("%+v, want a watch gap up to 5 s", tl.Events)
	}
}

// The clock of the prober "west" is 5 s behind the run's. What it states says nothing of when the run's own events,
// those of the watches, were lost.
func TestLostEventsAreAWatchGapOnTheClockOfTheRun(t *testing.T) {
	event := func(id uint32, source timeline.SourceID, seen time.Duration, kind timeline.EventKind,
		to string) timeline.Event {
		return timeline.Event{ID: id, Source: source, Seen: seen, Kind: kind, To: to,
			Object: timeline.Object{Kind: "Pod", Name: "web-1", UID: "u1"}}
	}
	const second = time.Second
	for _, tt := range []struct {
		name   string
		events []timeline.Event
		want   model.Instant
	}{
		{"before and after events of the run", []timeline.Event{
			event(1, 0, 6*second, timeline.PodReady, "false"), event(2, 2, 2*second, timeline.ProberStall, ""),
			event(4, 0, 9*second, timeline.PodReady, "true"),
		}, model.Instant{Earliest: 6 * second, Latest: 9 * second}},
		{"before an event of the prober", []timeline.Event{
			event(1, 0, 6*second, timeline.PodReady, "false"), event(3, 2, 2*second, timeline.ProberStall, ""),
			event(4, 0, 9*second, timeline.PodReady, "true"),
		}, model.Instant{Earliest: 6 * second, Latest: 9 * second}},
		{"before an event of the prober, which is the last", []timeline.Event{
			event(1, 0, 6*second, timeline.PodReady, "false"), event(3, 2, 6*second, timeline.ProberStall, ""),
		}, model.Instant{Earliest: 6 * second, Latest: 10990 * time.Millisecond}},
	} {
		run := lossy(func(timeline.SourceID, int) bool { return false })
		run.Syncs = []timeline.Sync{{Source: 2, Min: 5 * second, Max: 5 * second}}
		run.Events = tt.events
		tl := analyzed(t, run)
		gaps := slices.DeleteFunc(tl.Events, func(e model.Event) bool { return e.Kind != timeline.WatchGap })
		if len(gaps) != 1 || gaps[0].At.Earliest != tt.want.Earliest || gaps[0].At.Latest < tt.want.Latest {
			t.Errorf("%s: %+v, want a watch gap of %v", tt.name, gaps, tt.want)
		}
	}
}
