package correlate

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// rerated is a run that asks each 200 ms until raised, and each 10 ms from then on until 15 s. class says how a
// request ends; nil: well.
func rerated(raised time.Duration, class func(due time.Duration) timeline.Class) timeline.Run {
	var requests []timeline.Request
	if class == nil {
		class = func(time.Duration) timeline.Class { return timeline.OK }
	}
	add := func(due time.Duration) {
		requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: due, Sent: due,
			Done: due + ms, Outcome: timeline.Outcome{Class: class(due)}})
	}
	for due := time.Duration(0); due < raised; due += 200 * ms {
		add(due)
	}
	for due := raised; due < 15*time.Second; due += 10 * ms {
		add(due)
	}
	return timeline.Run{
		Meta:    timeline.Meta{Options: timeline.Options{Join: time.Second, Rate: 100}},
		Targets: []timeline.Target{{ID: 1, Name: "new", Kind: timeline.New, URL: "http://web/", Rate: 5, Timeout: time.Second}},
		Events: []timeline.Event{
			{ID: 1, Kind: timeline.TargetChanged, To: "measuring", Object: timeline.Object{Kind: "Target", Name: "new"}},
			{ID: 2, Kind: timeline.RateChanged, Seen: raised, From: "5", To: "100", Object: timeline.Object{Kind: "Target", Name: "new"}},
			{ID: 3, Kind: timeline.RunPhase, Seen: 15 * time.Second, To: string(timeline.PhaseEnded)},
		},
		Batches: inOneBatch(requests),
	}
}

func inOneBatch(requests []timeline.Request) func(func(timeline.Batch, error) bool) {
	return func(yield func(timeline.Batch, error) bool) {
		yield(timeline.Batch{Requests: requests, Watermarks: []timeline.Watermark{{Target: 1, Due: 15 * time.Second}}}, nil)
	}
}

// between returns the classes of a run in which requests due between two instants end so, and all others well.
func between(from, to time.Duration, class timeline.Class) func(time.Duration) timeline.Class {
	return func(due time.Duration) timeline.Class {
		if due >= from && due < to {
			return class
		}
		return timeline.OK
	}
}

func judgeRerated(t *testing.T, run timeline.Run, gates ...string) *model.Timeline {
	t.Helper()
	tl, err := Analyze(run, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var parsed []verdict.Gate
	for _, g := range gates {
		gate, err := verdict.ParseGate(g)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, gate)
	}
	verdict.Judge(tl, parsed)
	return tl
}

// What happened before the rate was raised is known as well as the requests of that time tell, and what happened since
// as well as those of the higher rate do.
func TestABracketIsAsWideAsTheRequestsOfItsTimeWereApart(t *testing.T) {
	raised := 10*time.Second + 2*ms
	tl := judgeRerated(t, rerated(raised, between(10*time.Second, 10*time.Second+300*ms, timeline.Refused)))
	if len(tl.Windows) != 1 {
		t.Fatalf("windows: %+v", tl.Windows)
	}
	w, target := tl.Windows[0], tl.Targets[0]
	if want := (model.Instant{Earliest: 9800 * ms, Latest: 10001 * ms}); w.Start != want {
		t.Errorf("the window began in %+v, want %+v", w.Start, want)
	}
	if width := w.End.Latest - w.End.Earliest; width > 12*ms {
		t.Errorf("its end is known to %v", width)
	}
	if target.Rate != 100 || target.Rerated == nil || target.Rerated.From != 5 || target.Rerated.At.Latest != raised {
		t.Errorf("the target's rates are %+v, %+v", target.Rate, target.Rerated)
	}
	if target.Resolution != 200*ms || target.Rerated.Resolution != 10*ms {
		t.Errorf("detection limits %v and %v", target.Resolution, target.Rerated.Resolution)
	}
	if target.Coverage != 1 || target.AchievedRate < 99 || target.AchievedRate > 101 {
		t.Errorf("coverage %v, %v/s", target.Coverage, target.AchievedRate)
	}
}

// A gap that would be usual at the rate before is a hole at the rate of its time, and a long wait before does not
// dilute it.
func TestAGapCountsAtTheRateOfItsTime(t *testing.T) {
	hole := 150 * ms
	tl := judgeRerated(t, rerated(10*time.Second, between(12*time.Second, 12*time.Second+hole, timeline.NotSent)))
	if len(tl.Unobserved) != 1 || tl.Unobserved[0].End-tl.Unobserved[0].Start < hole {
		t.Fatalf("unobserved: %+v", tl.Unobserved)
	}
	if got, most := tl.Verdict.Coverage, 1-hole.Seconds()/5; got > most {
		t.Errorf("coverage %v is above %v, the share of the time at the high rate", got, most)
	}
	tl = judgeRerated(t, rerated(10*time.Second, between(5*time.Second, 5200*ms, timeline.NotSent)))
	if len(tl.Unobserved) != 0 || tl.Verdict.Coverage != 1 {
		t.Errorf("one request of the low rate that was not sent made a hole: %+v", tl.Unobserved)
	}
}

// A stop that begins with the disruption is a hole since the rate was raised, though it is shorter than one before may be.
func TestAStopAsTheRateIsRaisedIsAHole(t *testing.T) {
	for name, class := range map[string]timeline.Class{"not sent": timeline.NotSent, "local": timeline.Local} {
		tl := judgeRerated(t, rerated(10*time.Second, between(10*time.Second, 11500*ms, class)))
		if len(tl.Unobserved) != 1 || tl.Unobserved[0].Start != 10*time.Second || tl.Unobserved[0].End != 11500*ms {
			t.Errorf("%s: unobserved: %+v", name, tl.Unobserved)
		}
	}
}

// Where the rate is lowered, the time to the first request of the lower one is no hole. A stop before it is.
func TestALoweredRateLeavesAndHidesNoHole(t *testing.T) {
	lowered := func(stop time.Duration) *model.Timeline {
		run := rerated(0, nil)
		run.Events[1].Seen, run.Events[1].To, run.Targets[0].Rate = 10*time.Second, "5", 100
		var requests []timeline.Request
		add := func(due time.Duration) {
			requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: due, Sent: due, Done: due + ms})
		}
		for due := time.Duration(0); due < stop; due += 10 * ms {
			add(due)
		}
		for due := 10195 * ms; due < 15*time.Second; due += 200 * ms {
			add(due)
		}
		run.Batches = inOneBatch(requests)
		return judgeRerated(t, run)
	}
	if tl := lowered(10 * time.Second); len(tl.Unobserved) != 0 {
		t.Errorf("unobserved: %+v", tl.Unobserved)
	}
	if tl := lowered(8500 * ms); len(tl.Unobserved) != 1 || tl.Unobserved[0].Start > 8500*ms || tl.Unobserved[0].End < 10*time.Second {
		t.Errorf("nothing was sent for 1.5 s before the rate was lowered, and unobserved is %+v", tl.Unobserved)
	}
}

// Lateness is measured by the interval of its time.
func TestLatenessCountsAtTheRateOfItsTime(t *testing.T) {
	run := rerated(10*time.Second, nil)
	for b := range run.Batches {
		for _, due := range []time.Duration{4 * time.Second, 12 * time.Second} {
			i := slices.IndexFunc(b.Requests, func(r timeline.Request) bool { return r.Due == due })
			b.Requests[i].Sent += 30 * ms
			b.Requests[i].Done += 30 * ms
		}
	}
	if tl := judgeRerated(t, run); tl.Targets[0].Late != 1 {
		t.Errorf("%d requests are late, want the one at 100/s", tl.Targets[0].Late)
	}
}

// A gate below the detection limit of the time before is not passed, and the headline says both limits.
func TestAPassIsOfTheWholeRun(t *testing.T) {
	well := rerated(10*time.Second, nil)
	tl := judgeRerated(t, well, "downtime.total>100ms")
	if tl.Verdict.Result != model.Inconclusive || tl.Verdict.DetectionLimit != 200*ms {
		t.Errorf("%s with a detection limit of %v", tl.Verdict.Result, tl.Verdict.DetectionLimit)
	}
	const both = "an outage of 200 ms or longer would have been seen at any time, one of 10 ms or longer since 10 s"
	if text := strings.Join(tl.Verdict.Reasons, "; "); !strings.Contains(text, both) || !strings.Contains(text, "--idle-rate") {
		t.Errorf("it says %q", text)
	}
	if tl = judgeRerated(t, well, "downtime.total>250ms"); tl.Verdict.Result != model.Pass {
		t.Errorf("%s: %v", tl.Verdict.Result, tl.Verdict.Reasons)
	}
	if !strings.Contains(tl.Said.Headline, both) {
		t.Errorf("the headline is %q", tl.Said.Headline)
	}
}

// In a window that holds both rates, the few requests of the lower one do not tell which share failed at that time.
func TestTheShareOfTheHigherRateIsNotThatOfTheLower(t *testing.T) {
	run := rerated(10*time.Second, func(due time.Duration) timeline.Class {
		if due >= 8*time.Second && due < 12*time.Second && due%(20*ms) == 0 {
			return timeline.Refused // each of the lower rate, every second of the higher
		}
		return timeline.OK
	})
	tl := judgeRerated(t, run)
	if len(tl.Windows) != 1 || tl.Windows[0].Kind != model.Partial {
		t.Fatalf("windows: %+v", tl.Windows)
	}
	// 2 s in which all failed, and 2 s in which half did
	if d := tl.Windows[0].Downtime; d.Max < 3*time.Second || d.Min > 1100*ms {
		t.Errorf("downtime %v to %v: the time of the lower rate counts fully at the upper end, and not at the lower", d.Min, d.Max)
	}
}

// A run that goes on says what its recording does.
func TestARateThatChangesLiveIsJudgedAsOnRecord(t *testing.T) {
	run := rerated(10*time.Second, between(12*time.Second, 12150*ms, timeline.NotSent))
	live := NewTracker(Options{})
	live.Add(run.Meta)
	live.Add(run.Targets[0])
	live.Add(run.Events[0])
	for b := range run.Batches {
		raised := false
		for _, r := range b.Requests {
			if r.Due >= 10*time.Second && !raised {
				raised = true
				live.Add(run.Events[1])
			}
			live.Add(timeline.Batch{FirstSeq: r.Seq, Requests: []timeline.Request{r}, Watermarks: []timeline.Watermark{{Target: 1, Due: r.Due}}})
			if r.Seq%100 == 0 {
				live.Timeline()
			}
		}
	}
	live.Add(run.Events[2])
	got, want := live.Timeline().Targets[0], judgeRerated(t, run).Targets[0]
	if got.Coverage != want.Coverage || *got.Rerated != *want.Rerated || got.Resolution != want.Resolution || got.Late != want.Late {
		t.Errorf("live: %+v, %+v; on record: %+v, %+v", got, *got.Rerated, want, *want.Rerated)
	}
}

// Whenever an outage begins between the requests of the low rate, and is what raises it, the truth lies in its brackets.
// Of a share that fails, the downtime's bounds hold it.
func TestTruthOfWhatRaisesTheRateLiesInTheBrackets(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	missed, partial := 0, 0
	for range 400 {
		begin := 9*time.Second + time.Duration(random.Int64N(int64(400*ms)))
		end := begin + 250*ms + time.Duration(random.Int64N(int64(2*time.Second)))
		share := 1.0
		if random.IntN(2) == 0 {
			share = 0.3 + 0.6*random.Float64()
		}
		fails := func(due time.Duration) timeline.Class {
			if due >= begin && due < end && random.Float64() < share {
				return timeline.Refused
			}
			return timeline.OK
		}
		var first time.Duration // the failure of the low rate that raises it
		for due := time.Duration(0); due < end && first == 0; due += 200 * ms {
			if fails(due) != timeline.OK {
				first = due
			}
		}
		if first == 0 {
			continue
		}
		tl := judgeRerated(t, rerated(first+2*ms, func(due time.Duration) timeline.Class {
			if due == first {
				return timeline.Refused
			}
			if due < first {
				return timeline.OK
			}
			return fails(due)
		}))
		if len(tl.Windows) != 1 {
			t.Fatalf("an outage from %v to %v makes %d windows", begin, end, len(tl.Windows))
		}
		w := tl.Windows[0]
		if share == 1 {
			if w.Start.Earliest > begin || w.Start.Latest < begin || w.End.Earliest > end || w.End.Latest+ms < end {
				t.Errorf("an outage from %v to %v is said to be from %+v to %+v", begin, end, w.Start, w.End)
			}
			continue
		}
		partial++
		lost := time.Duration(share * float64(end-begin))
		if w.Downtime.Min > lost || w.Downtime.Max < lost {
			missed++
		}
	}
	if partial < 100 || missed*50 > partial {
		t.Errorf("the downtime of %d of %d shares is not within its bounds", missed, partial)
	}
}

// Three resets, 5 s after web-1 had stopped, are not of its connections: each was used every 330 ms. A guard changes the
// rate again later, as a prober of a drained node is lost, and what is known of the time before stays the same.
func TestALaterChangeOfTheRateChangesNoCause(t *testing.T) {
	archive := txtar.Parse([]byte(`
-- requests --
reused: every 30ms 0s..45s ok over 10
reused: 15s..15.09s reset
direct web-1: every 20ms 0s..10.5s ok
direct web-1: 10s.. refused
direct web-2: every 20ms 0s..45s ok
-- events --
0s     pod-seen web-1 Running : listed
0s     pod-ready web-1 true
0s     endpoint web-1 ready
0s     pod-seen web-2 Running : listed
0s     pod-ready web-2 true
0s     endpoint web-2 ready
9.9s   pod-deleted web-1 grace=30s
9.91s  endpoint web-1 ready -> terminating+serving
10.2s  pod-container web-1 running -> terminated exit=0 : main Completed
10.22s endpoint web-1 terminating+serving -> absent
10.5s  pod-gone web-1
`))
	judge := func(rates map[time.Duration]string) string {
		run := readCase(t, archive).run()
		run.Targets[0].Rate = 1.67
		for at, rate := range rates {
			run.Events = append(run.Events, timeline.Event{Kind: timeline.RateChanged, Seen: at, To: rate,
				Object: timeline.Object{Kind: "Target", Name: "reused"}})
		}
		slices.SortStableFunc(run.Events, func(a, b timeline.Event) int { return cmp.Compare(a.Seen, b.Seen) })
		for i := range run.Events {
			run.Events[i].ID = uint32(i + 1)
		}
		tl := judgeRerated(t, run)
		i := slices.IndexFunc(tl.Windows, func(w model.Window) bool { return w.Start.Latest > 10*time.Second })
		if i < 0 || tl.Windows[i].Target != "reused" {
			t.Fatalf("windows: %+v", tl.Windows)
		}
		return tl.Windows[i].Causes[0].Text
	}
	once := judge(map[time.Duration]string{5 * time.Second: "33.3"})
	twice := judge(map[time.Duration]string{5 * time.Second: "33.3", 40 * time.Second: "50"})
	if once != twice || strings.Contains(once, "web-1") {
		t.Errorf("with one change of the rate it says %q, with another one later %q", once, twice)
	}
}
