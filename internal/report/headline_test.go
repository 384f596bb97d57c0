package report

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/wording"
	"lapse/timeline"
)

func TestHeadlineLeadsWithWhatWasFound(t *testing.T) {
	for sample, want := range map[string]string{
		"race":         "shop/web: 64 of 80000 requests failed while kubectl drain node-b --ignore-daemonsets ran",
		"two-services": "524 of 600000 requests failed after kubectl drain node-b had ended; the command failed (exit code 1)",
		"inconclusive": "https://shop.example.com/: 180 of 11180 requests failed; only 92.73 % was observed",
		"refused":      "the command failed (exit code 1); no failure seen in 5960 requests; only 96.53 % was observed",
		"clean":        "no failure seen in 6000 requests; an outage of 21.3 ms or longer would have been seen at any time",
		"slow":         "no failure seen in 5000 requests; 9 answers slower than 500 ms; an outage of 8.4 ms or longer would have been seen at any time",
		"aborted":      "shop/web: 960 of 2100 requests failed while kubectl rollout restart deployment/web ran; only 86.06 % was observed",
	} {
		if got := headline(samples[sample]()); got != want {
			t.Errorf("%s: %q\nwant %q", sample, got, want)
		}
	}
}

func TestPassSaysWhichOutageWouldHaveBeenSeenAndHowMuchOfTheTime(t *testing.T) {
	tl := cleanRun()
	tl.Verdict.Coverage, tl.Verdict.DetectionLimit = 0.9971, 42*ms
	tl.Targets[0].GapLimit, tl.Targets[1].GapLimit = 50*ms, 50*ms
	tl.Unobserved = []model.Unobserved{{Target: tl.Targets[0].Name, Start: s, End: s + 87*ms}}
	want := "no failure seen in 6000 requests; an outage of 50 ms or longer would have been seen in 99.71 % of the time; the longest gap was 87 ms"
	if got := headline(tl); got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
}

// A run from several nodes names the one that observed least: what it missed no other node has seen.
func TestHeadlineNamesTheNodeThatObservedLeast(t *testing.T) {
	seen := func(node string, share float64) model.NodeCoverage {
		return model.NodeCoverage{Node: node, Coverage: share, Unobserved: 15300 * ms, Target: "web new from " + node}
	}
	const passed = "no failure seen in 6000 requests; an outage of 21.3 ms or longer would have been seen at any time"
	for _, tt := range []struct {
		nodes    []model.NodeCoverage
		headline string
		sound    string
		valid    string
	}{
		{[]model.NodeCoverage{seen("node1", 1), seen("node2", 1)}, passed, "valid", ""},
		{[]model.NodeCoverage{seen("node2", 0.9975), seen("node1", 1)}, passed + "; least was observed from node2, 99.75 %", "valid", ""},
		{
			[]model.NodeCoverage{seen("node2", 0.3283), seen("node1", 1)},
			"no failure seen in 6000 requests; node2 observed 32.83 % and was silent for 15.3 s (web new from node2)", "incomplete",
			"node2 observed 32.83 % and was silent for 15.3 s (web new from node2)",
		},
		{
			[]model.NodeCoverage{{Node: "node3"}, seen("node2", 0.5), seen("node1", 1)},
			"no failure seen in 6000 requests; node3 observed nothing, and 1 more of 3 nodes observed too little", "incomplete",
			"node2 observed 50 % and was silent for 15.3 s (web new from node2)",
		},
	} {
		tl := cleanRun()
		tl.Verdict.Nodes = tt.nodes
		if got := headline(tl); got != tt.headline {
			t.Errorf("%q\nwant %q", got, tt.headline)
		}
		if got := soundness(tl); got != tt.sound {
			t.Errorf("measurement: %s, want %s", got, tt.sound)
		}
		if got := validityParts(said(tl), nil); tt.valid != "" && !slices.Contains(got, tt.valid) {
			t.Errorf("VALID does not say %q: %q", tt.valid, got)
		}
	}
}

// Over bare TCP nobody's answer was awaited: the headline does not say that an outage would have been seen.
func TestHeadlineOverBareConnectionsClaimsNoMore(t *testing.T) {
	tl := cleanRun()
	tl.Verdict.Blind = "blind: a success shows only that somebody accepted a connection"
	if got, want := headline(tl), "no failure seen in 6000 requests; blind: a success shows only that somebody accepted a connection"; got != want {
		t.Errorf("%q\nwant %q", got, want)
	}
	if _, remark := gateSaid(tl, model.GateResult{Outcome: model.GatePass}); remark != "pass, but blind" {
		t.Errorf("a gate: %q", remark)
	}
	tl = cleanRun()
	for i := range tl.Targets {
		tl.Targets[i].Proves = "a reply with status 200 to 399"
	}
	if got := validityParts(said(tl), nil); !slices.Contains(got, "a success is a reply with status 200 to 399") {
		t.Errorf("VALID: %q", got)
	}
}

func TestDowntimeThatNothingBoundsIsUnknown(t *testing.T) {
	tl := race()
	tl.Verdict.Downtime = model.Downtime{Total: model.Length{Max: 9 * ms}, Open: true}
	if got, want := extent(tl), "how much full outage that equals is not known"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDowntimeThatIsBoundedIsNotUnknownForWantOfCoverage(t *testing.T) {
	tl := inconclusive()
	tl.Verdict.Downtime = model.Downtime{Total: model.Length{Max: 42 * ms}}
	if got, want := extent(tl), "equals ≤ 42 ms of full outage at the worst"; !strings.HasSuffix(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRunThatProvesTooLittleSaysWhatWouldHelp(t *testing.T) {
	for sample, want := range map[string]string{"inconclusive": "give the prober CPU", "refused": "lower --rate", "race": "", "clean": "", "aborted": ""} {
		lines := caveats(samples[sample]())
		if want == "" && strings.Contains(strings.Join(lines, " "), "would help") {
			t.Errorf("%s: %q, but it needs no help", sample, lines)
		}
		if want != "" && (len(lines) == 0 || !strings.HasPrefix(lines[len(lines)-1], "what would help: ") || !strings.Contains(lines[len(lines)-1], want)) {
			t.Errorf("%s: %q, want a last line with %q", sample, lines, want)
		}
	}
}

// Requests that the prober had no file descriptor for are no stall, and a prober that is gone is none either.
func TestWhatIsNoStallIsNotCalledOne(t *testing.T) {
	tl := cleanRun()
	tl.Verdict.Validity.NotSent, tl.Verdict.Validity.Local, tl.Verdict.Validity.Shortage = 598, 598, "too many open files"
	valid := strings.Join(validityParts(said(tl), nil), " · ")
	if want := "late 0 % · prober failed itself: 598 requests without evidence (too many open files) · control ok"; !strings.Contains(valid, want) || strings.Contains(valid, wording.ProberStalled) {
		t.Errorf("%q, want %q in it", valid, want)
	}
	tl.Verdict.Validity.NotSent, tl.Verdict.Validity.Stalls = 600, 1
	valid = strings.Join(validityParts(said(tl), nil), " · ")
	if want := "prober stalled: nothing unobserved, 2 requests without evidence, late 0 % · prober failed itself: 598 requests"; !strings.Contains(valid, want) {
		t.Errorf("%q, want %q in it", valid, want)
	}
	t0 := tl.Targets[0].Name
	tl.Targets[0].Coverage, tl.Unobserved = 0.6, []model.Unobserved{{Target: t0, Start: 10 * s, End: 22 * s, Reason: model.ReasonGone}, {Target: t0, Start: 2 * s, End: 3 * s, Reason: model.ReasonStalled}}
	if got, want := strings.Join(health(tl), "; "), "prober lost: "+t0+" coverage 60 %"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestRecordingThatBreaksOffIsNotCalledAborted(t *testing.T) {
	tl := aborted()
	tl.Run.Truncated, tl.Run.Planned, tl.Run.Aborted = true, 3600*s, "killed, or still running"
	if got, want := caveats(tl)[0], "recorded for 24.4 s of 1 h 0 min; killed, or still running"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := trust(tl), "measurement: incomplete · exit 6, the recording breaks off"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestVerdictWithoutItsReasonsIsTold(t *testing.T) {
	tl := cleanRun()
	tl.Verdict.Result, tl.Verdict.Gates = model.Inconclusive, nil // as another version may have judged it
	if got := caveats(tl); len(got) > 0 {
		t.Errorf("%q", got)
	}
}

func TestCommandThatFailedIsTold(t *testing.T) {
	want := `it said: error: unable to drain node "node2" due to error: global timeout reached: 15s`
	for _, f := range Formats {
		format := f.Name
		if f.Facts || f.Ext == "json" || format == "html" {
			continue
		}
		var out strings.Builder
		if err := f.Write(&out, Saved{Judged: said(refused())}, Options{Width: 2000, Unicode: true}); err != nil {
			t.Fatal(err)
		}
		text := strings.NewReplacer("`", "", "&#34;", `"`).Replace(out.String())
		if !strings.Contains(text, want) || strings.Count(text, "it said: error when evicting") != strings.Count(text, want) {
			t.Errorf("%s does not tell what the command said:\n%s", format, text)
		}
	}
}

// A gate that holds in a run that observed too little did not pass.
func TestGateOfARunThatProvesTooLittleIsNoPass(t *testing.T) {
	for _, format := range []string{"table", "markdown", "junit"} {
		out := string(render(t, format, "refused", screens["120"]))
		if !strings.Contains(out, "not broken, but not enough was observed") || strings.Contains(out, "✓") {
			t.Errorf("%s:\n%s", format, out)
		}
	}
	if mark, remark := gateSaid(cleanRun(), cleanRun().Verdict.Gates[0]); mark != "✓" || remark != "pass" {
		t.Errorf("a gate of a valid run: %s %s", mark, remark)
	}
}

func TestEveryFormatLeadsWithTheHeadline(t *testing.T) {
	for _, sample := range slices.Sorted(maps.Keys(samples)) {
		if sample == "hostile" {
			continue
		}
		want := headline(samples[sample]())
		for _, format := range []string{"table", "markdown", "junit"} {
			out := string(render(t, format, sample, Options{Width: 2000, Unicode: true}))
			out = strings.NewReplacer("`", "", "&lt;", "<").Replace(out)
			if !strings.Contains(out, want) {
				t.Errorf("%s of %s has no %q:\n%s", format, sample, want, out)
			}
		}
	}
}

func TestWindowCutByAStandstillSaysWhatItCanBeAtMost(t *testing.T) {
	tl := inconclusive()
	w := tl.Windows[0]
	if got, want := windowSaid(tl, w).Lasted, "899 ms to 5.04 s"; got != want {
		t.Errorf("length %q, want %q", got, want)
	}
	if got, want := windowSaid(tl, w).Edges, "its end was not observed (prober stalled, 4.12 s)"; got != want {
		t.Errorf("note %q, want %q", got, want)
	}
	w.Most = nil
	if got, want := windowSaid(tl, w).Lasted, "≥ 899 ms"; got != want {
		t.Errorf("length %q, want %q", got, want)
	}
}

func TestStartThatIsHardlyKnownIsNoPoint(t *testing.T) {
	tl := race()
	w := model.Window{Start: model.Instant{Earliest: 4 * s, Latest: 5 * s}}
	if got, want := startText(tl, w.Start), wallClock(tl, 4500*ms, "15:04:05.000"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.Start.Latest += ms
	if got, want := startText(tl, w.Start), "by "+wallClock(tl, 5001*ms, "15:04:05.000"); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestDowntimeOfAPartialWindowHasBothItsBoundsWhereTheyAreKnown(t *testing.T) {
	w := model.Window{Kind: model.Partial, Open: model.Open{End: true}, Downtime: model.Length{Min: 85300 * time.Nanosecond, Max: ms}}
	if got, want := windowSaid(race(), w).Downtime, "≥ 85.3 µs"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	w.Most = &model.Most{Length: 50 * ms, Downtime: 12 * ms}
	if got, want := windowSaid(race(), w).Downtime, "85.3 µs to 12 ms"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestServiceIsNamedOnceThoughTwoOfItsPortsAreMeasured(t *testing.T) {
	web := timeline.Service{Namespace: "shop", Name: "web"}
	ports := timeline.Service{Namespace: "shop", Name: "web", Measured: []string{"http", "metrics"}}
	if got := subject(model.RunInfo{Services: []timeline.Service{ports}}); got != "svc shop/web:http,metrics" {
		t.Errorf("two ports of a Service are %q", got)
	}
	one := timeline.Service{Namespace: "shop", Name: "web", Ports: []string{"80/TCP → http", "9090/TCP → 9090"}, Measured: []string{"metrics"}}
	if got := subject(model.RunInfo{Services: []timeline.Service{one}}); got != "svc shop/web:metrics" {
		t.Errorf("one of a Service's two ports is %q", got)
	}
	if got := subject(model.RunInfo{Services: []timeline.Service{web, web}}); got != "svc shop/web" {
		t.Errorf("%q", got)
	}
}

func TestSmallRatesAreNotZero(t *testing.T) {
	for rate, want := range map[float64]string{0.01: "0.01", 0.5: "0.5", 1: "1", 93.26: "93.3", 600: "600"} {
		if got := quantity.Number(rate); got != want {
			t.Errorf("%v reads %s, want %s", rate, got, want)
		}
	}
}
