package correlate

import (
	"encoding/json"
	"errors"
	"math"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// addresses makes cmp compare the addresses in a Timeline.
var addresses = cmpopts.EquateComparable(netip.Addr{}, netip.AddrPort{})

// track gives a Tracker the targets of rowRun and some requests that are complete up to a tick.
func trackRow(text string, complete int) *Tracker {
	run := rowRun(nil)
	tr := NewTracker(Options{})
	tr.Add(run.Meta)
	tr.Add(run.Targets[0])
	tr.Add(timeline.Batch{Requests: row(text),
		Watermarks: []timeline.Watermark{{Target: 1, Due: time.Duration(complete) * tick}}})
	return tr
}

func onlyWindow(t *testing.T, tl *model.Timeline) model.Window {
	t.Helper()
	if len(tl.Windows) != 1 {
		t.Fatalf("%d windows, want 1: %+v", len(tl.Windows), tl.Windows)
	}
	return tl.Windows[0]
}

// unobservedText writes what was not observed in ticks: "3..7 not sent".
func unobservedText(tl *model.Timeline) string {
	var parts []string
	for _, u := range tl.Unobserved {
		parts = append(parts, ticks(u.Start)+".."+ticks(u.End)+" "+u.Reason)
	}
	return strings.Join(parts, ", ")
}

func TestWindowIsLiveUntilNoRequestCanChangeIt(t *testing.T) {
	const text = "ok ok x*8 ok ok ok ok ok ok ok"
	for _, test := range []struct {
		complete int
		live     bool
	}{
		{9, true},   // more failures may come
		{13, true},  // one within join may
		{16, false}, // none can
	} {
		w := onlyWindow(t, trackRow(text, test.complete).Timeline())
		if got := inTicks(w); w.Live != test.live || got != "outage exact start 1..2 end 9..10 length 7..9 8/8 "+
			"blackout 7..9" {
			t.Errorf("complete up to %d: live %v, %s", test.complete, w.Live, got)
		}
	}
}

func TestABriefLacksOnlyTheBuckets(t *testing.T) {
	tr := trackRow("ok ok x x x ok ok -*5 ok", 12)
	brief, full := tr.Brief(), tr.Timeline()
	if len(full.Buckets.Targets) != 1 || brief.Buckets.Targets != nil {
		t.Errorf("buckets: %d and %v", len(full.Buckets.Targets), brief.Buckets)
	}
	full.Buckets = model.Buckets{}
	if diff := gocmp.Diff(full, brief, addresses); diff != "" {
		t.Errorf("(-Timeline +Brief):\n%s", diff)
	}
}

func TestTimelineOnceReturnedNeverChanges(t *testing.T) {
	tr := trackRow("ok x ok x x x ok", 4)
	first := tr.Timeline()
	before := must(json.Marshal(first))
	for range 3 {
		more := row("x x ok x ok ok x")
		for i := range more {
			more[i].Seq += 100
			more[i].Due, more[i].Sent, more[i].Done = more[i].Due+7*tick, more[i].Sent+7*tick, more[i].Done+9*tick
		}
		tr.Add(timeline.Batch{Requests: more, Watermarks: []timeline.Watermark{{Target: 1, Due: 30 * tick}}})
		tr.Add(timeline.Event{Seen: 12 * tick, Since: tick, Kind: timeline.ProberStall})
		tr.Timeline()
	}
	if after := must(json.Marshal(first)); string(after) != string(before) {
		t.Errorf("it changed (-before +after):\n%s", gocmp.Diff(string(before), string(after)))
	}
}

func TestTimelineSurvivesJSON(t *testing.T) {
	run := rowRun(row("ok*20 x x ok x late ok+5 - - - - - - - - ok*20"),
		timeline.Event{Seen: 5 * tick, Since: 2 * tick, Kind: timeline.ProberStall})
	run.Meta.T0 = time.Date(2026, 7, 1, 2, 20, 58, 310_000_001, time.UTC)
	want := analyze(t, run)
	var got model.Timeline
	if err := json.Unmarshal(must(json.Marshal(want)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want, &got, addresses); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
}

func TestUnobserved(t *testing.T) {
	stall := func(from, to int) timeline.Event {
		return timeline.Event{Since: time.Duration(from) * tick, Seen: time.Duration(to) * tick,
			Kind: timeline.ProberStall}
	}
	for _, test := range []struct {
		name, row  string
		events     []timeline.Event
		want       string
		resolution int // ticks
	}{
		{"all of it was observed", "ok ok ok ok", nil, "", 1},
		{"three intervals may pass", "ok ok - - ok ok", nil, "", 3},
		{"more may not", "ok ok - - - ok ok", nil, "1..5 not sent", 1},
		{"unobserved time begins when the last answer came", "ok ok+0.5 - - - - ok", nil, "1.5..6 not sent", 1},
		{"a service that does not answer is observed", "ok ok+7 - - - - - - ok", nil, "", 7},
		{"a service that has used up all connections is observed", "ok t+8 t+8 slot slot slot slot slot slot slot ok",
			nil, "", 1},
		{"what we could not send is a gap like any other", "ok late late ok", nil, "", 3},
		{"and a hole as any other", "ok late late late ok", nil, "0..4 not sent", 1},
		{"so is what tells nothing by our own fault", "ok local local ok ok", nil, "", 3},
		{"and that is called so", "ok local local local ok ok", nil, "0..4 local fault", 1},
		{"our own faults while an answer is awaited are not", "ok ok+5 local local ok ok", nil, "", 3},
		{"answers that we read late show that it was up when they were sent",
			"ok delayed+5 delayed+4 delayed+3 delayed+2 ok", nil, "", 1},
		{"and no longer: they may have come at once", "ok delayed+5 late late late late ok ok", nil, "1..6 not sent",
			1},
		{"a stalled prober observes nothing, even if an answer was awaited", "ok ok+6 - - - - - - ok ok",
			[]timeline.Event{stall(2, 7)}, "2..7 prober stalled", 1},
		{"a stall no longer than a gap may be is none", "ok ok+6 - - ok ok ok ok ok", []timeline.Event{stall(1, 4)},
			"", 3},
		{"an answer awaited before a hole tells nothing of other requests", "ok ok+4 - - - - - - - - ok", nil,
			"5..10 not sent", 4},
		{"stalls and gaps are counted once", "ok ok - - - - - - ok ok", []timeline.Event{stall(3, 9)},
			"1..9 prober stalled", 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			tl := analyze(t, rowRun(row(test.row), test.events...))
			if got := unobservedText(tl); got != test.want {
				t.Errorf("unobserved %q, want %q", got, test.want)
			}
			target := tl.Targets[0]
			measured := target.Measured.Latest - target.Measured.Earliest
			unobserved := time.Duration(0)
			for _, u := range tl.Unobserved {
				unobserved += u.End - u.Start
			}
			if want := 1 - float64(unobserved)/float64(measured); math.Abs(target.Coverage-want) > 1e-9 {
				t.Errorf("coverage %v, want %v", target.Coverage, want)
			}
			if target.Resolution != time.Duration(test.resolution)*tick {
				t.Errorf("resolution %v, want %d ticks", target.Resolution, test.resolution)
			}
		})
	}
}

// A Pod's own address is asked seldom, and often when its Pod ends: each time is judged by the rate it had.
func TestTargetWhoseRateChangesIsJudgedByTheRateOfTheTime(t *testing.T) {
	for _, last := range []time.Duration{20 * ms, 125 * ms} { // the interval that is on record
		var requests []timeline.Request
		add := func(from, to, interval time.Duration) {
			for at := from; at < to; at += interval {
				requests = append(requests, timeline.Request{Target: 1, Seq: uint64(len(requests)), Due: at, Sent: at,
					Done: at + ms})
			}
		}
		add(0, 5*time.Second, 125*ms)
		add(5*time.Second, 10*time.Second, 20*ms)
		for i := range requests { // 300 ms in which none was sent, at either rate
			if r := &requests[i]; r.Due >= 2*time.Second && r.Due < 2300*ms || r.Due >= 7*time.Second &&
				r.Due < 7300*ms {
				r.Class = timeline.NotSent
			}
		}
		run := rowRun(requests)
		run.Targets[0].Kind, run.Targets[0].Rate, run.Meta.Options.Resolution = timeline.Direct,
			float64(time.Second)/float64(last), 0
		target := analyze(t, run).Targets[0]
		if want := 1 - 0.319/10; math.Abs(target.Coverage-want) > 0.001 {
			t.Errorf("at %v/s on record: coverage %v, want %v: 300 ms are a hole where a request was due every 20 "+
				"ms, and none at 125 ms", run.Targets[0].Rate, target.Coverage, want)
		}
	}
}

// A prober that is lost watches no more. What it saw last is not true to the end, and its last stall does not explain
// why.
func TestNothingIsKnownOfTheClusterOnceTheProberIsLost(t *testing.T) {
	pod := timeline.Object{Kind: "Pod", UID: "u1"}
	run := rowRun(row("ok*100"),
		timeline.Event{ID: 1, Seen: ms, Kind: timeline.PodSeen, Object: pod, Detail: "listed"},
		timeline.Event{ID: 2, Since: 94 * tick, Seen: 100 * tick, Kind: timeline.ProberStall},
		timeline.Event{ID: 3, Seen: 700 * tick, Kind: timeline.CommandOutput, Detail: "evicting pod"})
	run.Events[3].ID, run.Events[3].Seen = 4, 800*tick
	run.Events[3].Detail = "the measuring Pod was lost"
	for writer, gaps := range map[string]int{"lapse": 1, "": 0} {
		run.Events[3].Writer = writer
		tl := analyze(t, run)
		verdict.Judge(tl, nil)
		if got := tl.Verdict.Validity.WatchGaps; got != gaps {
			t.Errorf("end written by %q: %d watch gaps, want %d", writer, got, gaps)
		}
		if gaps == 0 {
			continue
		}
		if e := tl.Events[len(tl.Events)-1]; e.Kind != timeline.WatchGap || e.ID != 5 ||
			e.At != (model.Instant{Earliest: 100 * tick, Latest: 800 * tick}) {
			t.Errorf("%+v, want a watch gap from the last sign of the prober to the end", e)
		}
		if got := unobservedText(tl); got != "94..100 prober stalled, 100..800 run ended early" {
			t.Errorf("unobserved %q", got)
		}
	}
}

func TestStallOfTheControlTargetIsUnobservedForAll(t *testing.T) {
	requests := row("ok*40")
	run := rowRun(requests)
	run.Targets = append(run.Targets, timeline.Target{ID: 2, Name: "control", Kind: timeline.Control, Rate: 100,
		Timeout: time.Second})
	slow := timeline.Request{Target: 2, Due: 5 * tick, Sent: 5 * tick, Done: 25 * tick}
	run.Batches = func(yield func(timeline.Batch, error) bool) {
		yield(timeline.Batch{Requests: append(requests, slow),
			Watermarks: []timeline.Watermark{{Target: 1, Due: 40 * tick}, {Target: 2, Due: 40 * tick}}}, nil)
	}
	tl := analyze(t, run)
	if got := unobservedText(tl); got != "5..25 prober stalled" {
		t.Errorf("unobserved %q", got)
	}
	if len(tl.Windows) != 0 {
		t.Errorf("the control target has no part in windows: %+v", tl.Windows)
	}
}

func TestRunMeasuredNothing(t *testing.T) {
	run := rowRun(nil)
	run.Events[0].Seen = 10 * tick
	tl := analyze(t, run)
	target := tl.Targets[0]
	if target.Coverage != 0 || target.Sent != 0 || target.Latency != nil || target.Resolution != 10*tick {
		t.Errorf("%+v", target)
	}
	if got := unobservedText(tl); got != "0..10 not sent" {
		t.Errorf("unobserved %q", got)
	}
}

func TestTimeBetweenTheLastRequestAndTheLastAnswerIsNotMeasured(t *testing.T) {
	tl := analyze(t, rowRun(row("ok ok ok ok+80"))) // ended after 4
	if got := unobservedText(tl); got != "" || tl.Targets[0].Coverage != 1 || tl.Targets[0].Measured.Latest != 4*tick {
		t.Errorf("unobserved %q, %+v", got, tl.Targets[0])
	}
}

// A prober that was stopped when the run ended has no request to show for the time before that.
func TestNothingSentBeforeTheEndIsUnobserved(t *testing.T) {
	run := rowRun(row("ok ok ok ok"))
	run.Events[0].Seen = 84 * tick // less after the last request than the timeout
	tl := analyze(t, run)
	if got := unobservedText(tl); got != "3..84 not sent" || tl.Targets[0].Measured.Latest != 84*tick {
		t.Errorf("unobserved %q, %+v", got, tl.Targets[0])
	}
	run.Events[0].Seen = 6 * tick // as long as may pass between two requests, too
	tl = analyze(t, run)
	if got := unobservedText(tl); got != "" || tl.Targets[0].Resolution != 3*tick {
		t.Errorf("unobserved %q, %+v", got, tl.Targets[0])
	}
}

// A target counts as measured from when measuring was to begin, whatever keeps the prober from its first request.
func TestTimeBeforeTheFirstRequest(t *testing.T) {
	const shift = 100 // ticks; a tick is 10 ms, and so is the interval
	for _, test := range []struct {
		name       string
		begun      int // ticks
		unobserved string
		from       int // ticks
	}{
		{"getting ready takes its time", shift - 10, "", shift},
		{"but not that long", shift - 40, "60..100 not sent", shift - 40},
	} {
		t.Run(test.name, func(t *testing.T) {
			requests := row("ok ok ok ok")
			for i := range requests {
				requests[i].Due, requests[i].Sent, requests[i].Done = requests[i].Due+shift*tick,
					requests[i].Sent+shift*tick, requests[i].Done+shift*tick
			}
			run := rowRun(requests, timeline.Event{
				Seen: time.Duration(test.begun) * tick, Kind: timeline.TargetChanged, To: "measuring",
				Object: timeline.Object{Kind: "Target", Name: "new"},
			})
			run.Events[1].Seen = (shift + 4) * tick
			tl := analyze(t, run)
			if got := unobservedText(tl); got != test.unobserved ||
				tl.Targets[0].Measured.Earliest != time.Duration(test.from)*tick {
				t.Errorf("unobserved %q, %+v", got, tl.Targets[0])
			}
		})
	}
}

// At a low rate an outage before the first request may have gone unseen, as may one between two of them.
func TestTheLeadOfASlowTargetCountsInItsResolution(t *testing.T) {
	slow := timeline.Target{ID: 1, Name: "new", Kind: timeline.New, Rate: 0.1, Timeout: time.Second}
	tr := NewTracker(Options{})
	tr.Add(slow)
	tr.Add(timeline.Event{Kind: timeline.TargetChanged, To: "measuring",
		Object: timeline.Object{Kind: "Target", Name: "new"}})
	at := 9 * time.Second
	tr.Add(timeline.Batch{
		Requests:   []timeline.Request{{Target: 1, Due: at, Sent: at, Done: at + tick}},
		Watermarks: []timeline.Watermark{{Target: 1, Due: at + tick}},
	})
	tr.Add(timeline.Event{Seen: at + 100*time.Millisecond, Kind: timeline.RunPhase, To: "ended"})
	target := tr.Timeline().Targets[0]
	if target.Measured.Earliest != 0 || target.Resolution != at+100*time.Millisecond {
		t.Errorf("%+v", target)
	}
}

// Nothing is said of the time after a recording that breaks off: it was not a run of its planned length.
func TestARecordingThatBreaksOffIsJudgedUpToItsEnd(t *testing.T) {
	brokenOff := rowRun(row("ok ok x ok"))
	brokenOff.Events = nil
	brokenOff.Meta.Options.Duration = 500 * tick
	damaged := brokenOff
	damaged.Batches = func(yield func(timeline.Batch, error) bool) {
		if yield(timeline.Batch{Requests: row("ok ok x ok"),
			Watermarks: []timeline.Watermark{{Target: 1, Due: 4 * tick}}}, nil) {
			yield(timeline.Batch{}, errors.New("block 7 is cut short"))
		}
	}
	for _, test := range []struct {
		name    string
		run     timeline.Run
		aborted string
	}{
		{"broken off", brokenOff, "the recording ends there: Lapse was killed, or the run goes on"},
		{"damaged", damaged, "the record is not whole: block 7 is cut short"},
	} {
		tl := analyze(t, test.run)
		if got := unobservedText(tl); got != "" {
			t.Errorf("%s: unobserved %q, though nothing is known of the time after the recording", test.name, got)
		}
		if !tl.Run.Truncated || tl.Run.Aborted != test.aborted || tl.Run.Live || len(tl.Windows) != 1 {
			t.Errorf("%s: %+v", test.name, tl.Run)
		}
		if tl.Run.Duration > 5*tick || tl.Run.Planned != 500*tick {
			t.Errorf("%s: it took %v of %v, 4 ticks are on record", test.name, tl.Run.Duration, tl.Run.Planned)
		}
		if verdict.Judge(tl, nil); tl.Verdict.ExitCode != verdict.ExitAborted {
			t.Errorf("%s: exit code %d", test.name, tl.Verdict.ExitCode)
		}
	}
}

// Where the run's end is on record, what is missing before it was not observed.
func TestTimeBeforeAKnownEndIsUnobserved(t *testing.T) {
	lost := rowRun(row("ok ok x ok"))
	lost.Events[0].Seen, lost.Events[0].Detail = 500*tick, "the measuring Pod was lost"
	tl := analyze(t, lost)
	if got := unobservedText(tl); got != "3..500 run ended early" {
		t.Errorf("unobserved %q", got)
	}
	if tl.Run.Truncated || tl.Run.Aborted != "the measuring Pod was lost" || tl.Targets[0].Coverage > 0.01 {
		t.Errorf("%+v, %+v", tl.Run, tl.Targets[0])
	}
}

// Of a prober that was lost no run ended early: the run went on, on other nodes.
func TestTimeAfterALostProberSaysSo(t *testing.T) {
	lostOn := func(node string) timeline.Event {
		return timeline.Event{ID: 1, Seen: 200 * tick, Kind: timeline.ProberChanged, To: "lost",
			Object: timeline.Object{Kind: "Node", Name: node}, Detail: "Pod lapse-x: it was ended"}
	}
	for node, want := range map[string]string{"node2": "3..500 prober lost", "node3": "3..500 run ended early"} {
		run := rowRun(row("ok ok ok ok"), lostOn(node))
		run.Sources = []timeline.Source{{Name: "lapse-x", Role: timeline.Prober, Node: "node2"}}
		run.Events[1].ID, run.Events[1].Seen = 2, 500*tick
		tl := analyze(t, run)
		if got := unobservedText(tl); got != want {
			t.Errorf("lost on %s: unobserved %q, want %q", node, got, want)
		}
	}
}

func TestRunWithoutTargetsCannotBeJudged(t *testing.T) {
	if tl, err := Analyze(timeline.Run{}, Options{}); err == nil {
		t.Errorf("judged: %+v", tl)
	}
}

func TestSilenceOfALiveProberShowsAsUnobserved(t *testing.T) {
	tr := trackRow("ok ok ok ok", 4)
	tr.SetEnd(50 * tick)
	if got := unobservedText(tr.Timeline()); got != "" {
		t.Errorf("after less than the timeout and a second: unobserved %q", got)
	}
	tr.SetEnd(400 * tick)
	if got := unobservedText(tr.Timeline()); got != "3..400 run ended early" {
		t.Errorf("unobserved %q", got)
	}
}

func TestTargetIsMeasuredUntilItEnds(t *testing.T) {
	run := rowRun(row("ok ok ok ok"), timeline.Event{Seen: 4 * tick, Kind: timeline.TargetChanged, To: "ended",
		Object: timeline.Object{Name: "new"}})
	run.Events[1].Seen = 1000 * tick
	tl := analyze(t, run)
	if target := tl.Targets[0]; target.Measured != (model.Instant{Earliest: 0, Latest: 4 * tick}) ||
		target.Coverage != 1 {
		t.Errorf("%+v", target)
	}
}

func TestTargetTotals(t *testing.T) {
	requests := row("ok+0.1*90 ok+1*9 ok+3 x x t+8 late local delayed+7")
	requests[3].Sent = requests[3].Due + 2*tick // late
	requests[3].Done = requests[3].Sent + tick/10
	target := analyze(t, rowRun(requests)).Targets[0]
	if target.Sent != 104 || target.OK != 101 || target.Delayed != 1 || target.Failed != 3 || target.NotSent != 2 ||
		target.Late != 1 {
		t.Errorf("%+v", target)
	}
	want := map[string]int{"ok": 101, "refused": 2, "timeout_response": 1, "notsent": 1, "local": 1}
	if diff := gocmp.Diff(want, target.Classes); diff != "" {
		t.Error(diff)
	}
	near := func(got, want time.Duration) bool { return got >= want && got <= want+want/500+time.Microsecond }
	l := target.Latency
	if !near(l.P50, tick/10) || !near(l.P90, tick/10) && !near(l.P90, tick) || !near(l.P99, 2*tick+tick/10) ||
		!near(l.P999, 3*tick) || l.Max != 3*tick {
		t.Errorf("latency %+v", l)
	}
}

func TestFailuresAreListedUpToACap(t *testing.T) {
	requests := row("x*12000 ok")
	slices.Reverse(requests)
	tl := analyze(t, rowRun(requests))
	if len(tl.Failures) != 10_000 || tl.FailuresTruncated != 2000 || tl.Failures[0].Seq != 0 ||
		tl.Failures[9_999].Seq != 9_999 {
		t.Errorf("%d listed, %d not, first %+v", len(tl.Failures), tl.FailuresTruncated, tl.Failures[0])
	}
}

func TestOneRequestMakesNoResolution(t *testing.T) {
	run := rowRun(row("ok"))
	run.Events[0].Seen = 200 * tick
	if got := analyze(t, run).Targets[0].Resolution; got != 200*tick {
		t.Errorf("resolution %v; nothing in 200 ticks but one request", got)
	}
}

func TestCommandIsTold(t *testing.T) {
	run := rowRun(row("ok*10"),
		timeline.Event{Seen: 2 * tick, Kind: timeline.Command, To: "running"},
		timeline.Event{Seen: 8 * tick, Kind: timeline.Command, To: "exited", ExitCode: new(1)})
	run.Meta.Command = []string{"kubectl", "drain"}
	tl := analyze(t, run)
	want := &model.Command{Args: []string{"kubectl", "drain"}, Start: new(2 * tick), End: new(8 * tick),
		ExitCode: new(1)}
	if diff := gocmp.Diff(want, tl.Run.Command); diff != "" {
		t.Error(diff)
	}
}

func TestWindowTellsWhoAnsweredInside(t *testing.T) {
	requests := row("ok*30 x ok ok ok x ok*30")
	for i := range requests {
		requests[i].Backend = uint16(i % 2)
	}
	run := rowRun(requests)
	run.Backends = []timeline.Backend{{ID: 1, Name: "web-1"}}
	w := onlyWindow(t, analyze(t, run))
	if diff := gocmp.Diff(map[string]int{"web-1": 2}, w.Backends); diff != "" {
		t.Error(diff)
	}
}
