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

const ms = time.Millisecond

// wellRun is a run with one target that went well.
func wellRun(change ...func(*model.Timeline)) *model.Timeline {
	tl := &model.Timeline{Targets: []model.Target{{
		Target: timeline.Target{
			ID: 1, Name: "web new", Kind: timeline.New,
		}, Sent: 1000, OK: 1000, Coverage: 1, Resolution: 5 * ms,
		Latency: &model.Latency{P99: 20 * ms},
	}}}
	for _, c := range change {
		c(tl)
	}
	return tl
}

func failing(n int) func(*model.Timeline) {
	return func(tl *model.Timeline) {
		tl.Targets[0].OK -= n
		tl.Targets[0].Failed += n
		tl.Windows = append(tl.Windows, model.Window{
			ID: 1, Target: "web new", Kind: model.Outage, Length: model.Length{Min: 40 * ms, Max: 50 * ms},
			Downtime: model.Length{Min: 40 * ms, Max: 50 * ms}, Sent: n, Failed: n,
		})
	}
}

func covering(share float64) func(*model.Timeline) {
	return func(tl *model.Timeline) { tl.Targets[0].Coverage = share }
}

func gatesOf(t *testing.T, exprs string) []verdict.Gate {
	t.Helper()
	var gates []verdict.Gate
	for expr := range strings.SplitSeq(exprs, ";") {
		if strings.TrimSpace(expr) == "" {
			continue
		}
		gate, err := verdict.ParseGate(expr)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, gate)
	}
	return gates
}

// The first word of a report follows the exit code, not the gates alone (D7).
func TestTheFirstWordFollowsTheExitCode(t *testing.T) {
	ended := func(code int) func(*model.Timeline) {
		return func(tl *model.Timeline) { tl.Run.Command = &model.Command{ExitCode: &code} }
	}
	aborted := func(tl *model.Timeline) { tl.Run.Aborted = "interrupted" }
	for _, tt := range []struct {
		word   string
		gates  string
		change []func(*model.Timeline)
	}{
		{"PASS", "failed>0", nil},
		{"NO GATE", "", nil},
		{"FAIL", "failed>0", []func(*model.Timeline){failing(3), ended(1)}},
		{"COMMAND FAILED", "failed>100", []func(*model.Timeline){failing(3), ended(52)}},
		{"ABORTED", "failed>100", []func(*model.Timeline){failing(3), ended(130), aborted}},
		{"INCONCLUSIVE", "failed>0", []func(*model.Timeline){covering(0.5)}},
		{"LIVE", "failed>0", []func(*model.Timeline){func(tl *model.Timeline) { tl.Run.Live = true }}},
	} {
		tl := wellRun(tt.change...)
		verdict.Judge(tl, gatesOf(t, tt.gates))
		if tl.Said.Word != tt.word {
			t.Errorf("%q of exit code %d, want %q", tl.Said.Word, tl.Verdict.ExitCode, tt.word)
		}
	}
}

func TestVerdictPrecedence(t *testing.T) {
	failed := 1
	succeeded := 0
	for _, tt := range []struct {
		name    string
		run     *model.Timeline
		gates   string
		command *int
		aborted bool
		result  model.Result
		exit    int
		reason  string
	}{
		{"ungated", wellRun(), "", nil, false, model.Ungated, 0, "no failure seen in 1000 requests; an outage of 5 " +
			"ms or longer would have been seen at any time"},
		{"ungated with failures", wellRun(failing(8)), "", &succeeded, false, model.Ungated, 0,
			"8 of 1000 requests failed: downtime 45 ms ±5 in 1 window"},
		{"ungated but not measured enough", wellRun(covering(0.98)), "", nil, false, model.Inconclusive, 4,
			"coverage 98 % is below the required 99 %"},
		{"ungated and nothing measured", &model.Timeline{}, "", nil, false, model.Inconclusive, 4,
			"nothing was measured"},
		{"passed", wellRun(), "failed>0", &succeeded, false, model.Pass, 0, "no failure seen"},
		{"gate failed", wellRun(failing(8)), "windows>3; failed>0", nil, false, model.Fail, 3,
			"gate failed > 0 failed: 8"},
		{"gate failed beats low coverage", wellRun(failing(8), covering(0.5)), "failed>0", nil, false, model.Fail, 3,
			"coverage 50 %"},
		{"gate failed beats abort", wellRun(failing(8)), "failed>0", nil, true, model.Fail, 3, "the run was aborted"},
		{"gate failed beats command", wellRun(failing(8)), "failed>0", &failed, false, model.Fail, 3,
			"the wrapped command failed with exit code 1"},
		{"gate would pass but not measured enough", wellRun(covering(0.98999)), "failed>0", nil, false,
			model.Inconclusive, 4, "coverage 98.99 % is below the required 99 %: downtime in unobserved time cannot " +
				"be excluded"},
		{"gate undecided", wellRun(failing(8)), "downtime.total>45ms", nil, false, model.Inconclusive, 4,
			"gate downtime.total > 45ms: the error bars (45 ms ±5) cannot decide it"},
		{"gate undecided below the detection limit", wellRun(), "window.longest>1ms", nil, false, model.Inconclusive,
			4, "the error bars (≤ 5 ms)"},
		{"inconclusive beats command", wellRun(covering(0.5)), "", &failed, false, model.Inconclusive, 4,
			"exit code 1"},
		{"aborted beats inconclusive", wellRun(covering(0.5)), "failed>0", &failed, true, model.Inconclusive, 6,
			"the run was aborted: interrupted"},
		{"aborted ungated", wellRun(), "", nil, true, model.Inconclusive, 6, "the run was aborted"},
		{"command failed, gates passed", wellRun(), "failed>0", &failed, false, model.Pass, 5,
			"the wrapped command failed with exit code 1"},
		{"command failed, ungated", wellRun(), "", &failed, false, model.Ungated, 5,
			"the wrapped command failed with exit code 1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.run.Run.Command = &model.Command{ExitCode: tt.command}
			if tt.aborted {
				tt.run.Run.Aborted = "interrupted"
			}
			verdict.Judge(tt.run, gatesOf(t, tt.gates))
			v := tt.run.Verdict
			if v.Result != tt.result || v.ExitCode != tt.exit {
				t.Errorf("result %s, exit code %d; want %s, %d", v.Result, v.ExitCode, tt.result, tt.exit)
			}
			if !strings.Contains(strings.Join(v.Reasons, "\n"), tt.reason) {
				t.Errorf("reasons %q do not say %q", v.Reasons, tt.reason)
			}
		})
	}
}

func TestVerdictSumsFailuresAndTakesTheWorstTargetOtherwise(t *testing.T) {
	tl := wellRun(failing(8), covering(0.999))
	tl.Targets = append(tl.Targets,
		model.Target{Target: timeline.Target{ID: 2, Name: "web reused", Kind: timeline.Reused}, Sent: 100, OK: 98, Failed: 2, NotSent: 4,
			Late: 11, Coverage: 0.995, Resolution: 9 * ms, Latency: &model.Latency{P99: 70 * ms}},
		model.Target{Target: timeline.Target{ID: 3, Name: "web direct a", Kind: timeline.Direct}, Sent: 100, Failed: 100, Coverage: 0.1,
			Resolution: time.Second},
		model.Target{Target: timeline.Target{ID: 4, Name: "control", Kind: timeline.Control}, Sent: 100, OK: 100, Coverage: 1},
	)
	tl.Windows = append(tl.Windows,
		model.Window{ID: 2, Target: "web reused", Kind: model.Partial,
			Length: model.Length{Min: 10 * ms, Max: 90 * ms}, Downtime: model.Length{Min: 1 * ms, Max: 9 * ms},
			Blackout: &model.Length{Min: 5 * ms, Max: 8 * ms}},
		model.Window{ID: 3, Target: "web reused", Kind: model.Partial,
			Length: model.Length{Min: 20 * ms, Max: 30 * ms}, Downtime: model.Length{Min: 2 * ms, Max: 4 * ms}},
		model.Window{ID: 4, Target: "web reused", Kind: model.Slow,
			Length: model.Length{Min: time.Second, Max: time.Second}},
	)
	tl.Unobserved = []model.Unobserved{{Target: "web reused", Start: 0, End: 30 * ms},
		{Target: "web reused", Start: time.Second, End: time.Second + 5*ms},
		{Target: "web new", Start: 0, End: 20 * ms}}
	tl.Events = []model.Event{{Event: timeline.Event{Kind: timeline.WatchGap}}, {Event: timeline.Event{Kind: timeline.ProberStall}}, {Event: timeline.Event{Kind: timeline.ProberStall}},
		{Event: timeline.Event{Kind: timeline.WatchLane, To: "off", Object: timeline.Object{Kind: "Node"}}},
		{Event: timeline.Event{Kind: timeline.WatchLane, To: "off", Object: timeline.Object{Kind: "Event"}}},
		{Event: timeline.Event{Kind: timeline.WatchLane, To: "on", Object: timeline.Object{Kind: "Event"}}}}
	verdict.Judge(tl, nil)
	v := tl.Verdict

	if v.Sent != 1100 || v.Failed != 10 || v.ErrorRate != 0.02 || v.Windows != 2 {
		t.Errorf("sent %d failed %d rate %v windows %d, want 1100, 10, 0.02, 2", v.Sent, v.Failed, v.ErrorRate,
			v.Windows)
	}
	// at least the worse target's, at most with what was not observed of the other
	if want := (model.Length{Min: 40 * ms, Max: 206 * ms}); v.Downtime.Total != want {
		t.Errorf("downtime %v, want %v", v.Downtime.Total, want)
	}
	// 30 ms unobserved, 9 ms to the next request, 70 ms an answer takes
	if want := (model.Length{Min: 40 * ms, Max: 109 * ms}); *v.LongestWindow != want {
		t.Errorf("longest window %v, want bounds %v: either may be the longest, and so may one that was not observed",
			*v.LongestWindow, want)
	}
	if want := (model.Length{Min: 40 * ms, Max: 109 * ms}); *v.LongestBlackout != want {
		t.Errorf("longest blackout %v, want %v: an outage is one", *v.LongestBlackout, want)
	}
	if v.DetectionLimit != 9*ms || v.Coverage != 0.995 || *v.LatencyP99 != 70*ms {
		t.Errorf("limit %v coverage %v p99 %v, want 9ms, 0.995, 70ms", v.DetectionLimit, v.Coverage, *v.LatencyP99)
	}
	want := model.Validity{Late: 11.0 / 1104, NotSent: 4, WatchGaps: 1, Stalls: 2, Unobserved: 35 * ms, Control: "ok",
		LanesOff: []string{"Node"}}
	if got := v.Validity; got.Late != want.Late || got.NotSent != 4 || got.WatchGaps != 1 || got.Stalls != 2 ||
		got.Unobserved != want.Unobserved || got.Control != "ok" || strings.Join(got.LanesOff, ",") != "Node" {
		t.Errorf("validity %+v, want %+v", got, want)
	}
}

func TestVerdictSaysWhatWasWrongWithTheControlTarget(t *testing.T) {
	tl := wellRun()
	verdict.Judge(tl, nil)
	if got := tl.Verdict.Validity.Control; got != "absent" {
		t.Errorf("control %q without a control target, want absent", got)
	}
	tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Kind: timeline.Control}, Sent: 10, OK: 7, Failed: 3,
		Classes: map[string]int{"ok": 7, "timeout_connect": 2, "refused": 1, "local": 9}})
	verdict.Judge(tl, nil)
	if got, want := tl.Verdict.Validity.Control, "3 of 10 requests failed: 2 timeout_connect, 1 refused"; got != want {
		t.Errorf("control %q, want %q", got, want)
	}
}

func TestVerdictAndGateGiveOneThingOneNumber(t *testing.T) {
	tl := wellRun(failing(8), covering(0.98))
	tl.Unobserved = []model.Unobserved{{Target: "web new", Start: 5 * time.Second, End: 5*time.Second + 400*ms}}
	var gates []verdict.Gate
	for _, expr := range []string{"downtime.total>30ms", "window.longest>30ms", "blackout.longest>30ms"} {
		gate, err := verdict.ParseGate(expr)
		if err != nil {
			t.Fatal(err)
		}
		gates = append(gates, gate)
	}
	verdict.Judge(tl, gates)
	v := tl.Verdict
	for i, published := range []model.Length{v.Downtime.Total, *v.LongestWindow, *v.LongestBlackout} {
		if g := v.Gates[i]; g.Value.Length() != published || published.Max < 400*ms {
			t.Errorf("%s: the gate has %v, the verdict %v: want the same, with what was not observed", g.Expr,
				g.Value.Length(), published)
		}
	}
	if want := "8 of 1000 requests failed: downtime 40 ms to 475 ms in 1 window"; !strings.Contains(
		strings.Join(v.Reasons, "\n"), want) {
		t.Errorf("reasons %q, want %q in them", v.Reasons, want)
	}
}

// An inconclusive run has found something too: that comes first, and what would help last.
func TestInconclusiveRunLeadsWithWhatItFoundAndEndsWithWhatWouldHelp(t *testing.T) {
	run := rowRun(row("ok*300 x*20 ok*300 " + strings.Repeat("-*9 ok*200 ", 3) + "-*120 ok*100"))
	run.Meta.Options.Resolution, run.Meta.Options.MinCoverage = 50*ms, 0.9
	tl := analyze(t, run)
	verdict.Judge(tl, gatesOf(t, "downtime.total>500ms"))
	want := []string{
		"20 of 1320 requests failed: downtime 190 ms to 1.76 s in 1 window",
		"coverage 89.7 % is below the required 90 %: downtime in unobserved time cannot be excluded",
		"gate downtime.total > 500ms: the error bars (190 ms to 1.76 s) cannot decide it",
		"what would help: give the prober CPU, or lower --rate; where only outages longer than 100ms matter, judge " +
			"it with --resolution 100ms",
	}
	if diff := gocmp.Diff(want, tl.Verdict.Reasons); diff != "" {
		t.Errorf("reasons (-want +got):\n%s", diff)
	}
	again, err := Analyze(run, Options{Resolution: 100 * ms})
	if err != nil {
		t.Fatal(err)
	}
	if verdict.Judge(again, nil); again.Verdict.Result != model.Ungated || again.Verdict.Coverage < 0.9 {
		t.Errorf("at the resolution that would help: %s with coverage %v", again.Verdict.Result, again.Verdict.Coverage)
	}
}

func TestWhatIsNeededForAPassIsTheUsersChoice(t *testing.T) {
	for needed, want := range map[float64]model.Result{0.99: model.Inconclusive, 0.95: model.Pass} {
		run := rowRun(row("ok*300 -*20 ok*180"))
		run.Meta.Options.MinCoverage = needed
		tl := analyze(t, run)
		verdict.Judge(tl, gatesOf(t, "failed>0"))
		if tl.Verdict.Result != want || tl.Run.MinCoverage != needed {
			t.Errorf("--min-coverage %v: %s with coverage %v, want %s", needed, tl.Verdict.Result, tl.Verdict.Coverage,
				want)
		}
	}
}

func TestNoFailureIsSaidWithWhatWouldHaveBeenSeen(t *testing.T) {
	for text, want := range map[string]string{
		"ok*100": "no failure seen in 100 requests; an outage of 10 ms or longer would have " +
			"been seen at any time",
		"ok*1000 -*2 ok*1000": "no failure seen in 2000 requests; an outage of 30 ms or longer would have " +
			"been seen at any time",
		"ok*1000 -*2 ok*8 -*9 ok*1000": "no failure seen in 2008 requests; an outage of 30 ms or longer would have " +
			"been seen in 99.5 % of the time; the longest gap was 100 ms",
	} {
		tl := analyze(t, rowRun(row(text)))
		verdict.Judge(tl, nil)
		if got := tl.Verdict.Reasons[0]; got != want {
			t.Errorf("%s:\n got %s\nwant %s", text, got, want)
		}
	}
}
