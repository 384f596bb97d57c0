package correlate

import (
	"strings"
	"testing"
	"time"

	"lapse/correlate/model"
	"lapse/correlate/verdict"
	"lapse/timeline"
)

// outcome judges a run by one gate.
func outcome(t *testing.T, tl *model.Timeline, expr string) model.GateResult {
	t.Helper()
	verdict.Judge(tl, gatesOf(t, expr))
	return tl.Verdict.Gates[0]
}

// A window that was under way when measuring ended has no upper bound: no limit is known to be kept.
func TestNoLengthOfAWindowThatDidNotEndKeepsALimit(t *testing.T) {
	for _, side := range []model.Open{{End: true}, {Start: true}} {
		tl := wellRun(failing(8))
		tl.Windows[0].Open = side
		for expr, want := range map[string]model.GateOutcome{
			"downtime.total>1h": model.GateUndecided, "window.longest>1h": model.GateUndecided,
			"blackout.longest>1h": model.GateUndecided,
			"downtime.total>39ms": model.GateFail, "window.longest>39ms": model.GateFail,
			"blackout.longest>39ms": model.GateFail,
			"window.longest<40ms":   model.GatePass, "window.longest<1h": model.GateUndecided,
			"failed>8": model.GatePass, "windows>1": model.GatePass,
		} {
			if got := outcome(t, tl, expr); got.Outcome != want {
				t.Errorf("%+v %s: %s with %+v, want %s", side, expr, got.Outcome, got.Value, want)
			}
		}
		outcome(t, tl, "downtime.total>1h")
		if got := strings.Join(tl.Verdict.Reasons, "; "); tl.Verdict.ExitCode != verdict.ExitInconclusive ||
			!strings.Contains(got, "(≥ 40 ms)") {
			t.Errorf("exit %d, reasons %q", tl.Verdict.ExitCode, got)
		}
	}
}

// Unobserved time beside a window is bounded by the good requests beyond it, and may all have been down.
func TestUnobservedTimeCountsAgainstALengthAsIfAllOfItWasDown(t *testing.T) {
	tl := analyze(t, rowRun(row("ok*100 -*10 x*20 ok*3000")))
	w := onlyWindow(t, tl)
	if !w.Open.Start || w.Length.Max > 21*tick || w.Most == nil || w.Most.Length != 31*tick ||
		w.Most.Downtime != 31*tick {
		t.Fatalf("%+v, most %+v", w, w.Most)
	}
	for expr, want := range map[string]model.GateOutcome{
		"window.longest>250ms": model.GateUndecided, "window.longest>310ms": model.GatePass,
		"window.longest>180ms": model.GateFail,
		"downtime.total>250ms": model.GateUndecided, "downtime.total>310ms": model.GatePass,
		"blackout.longest>250ms": model.GateUndecided, "blackout.longest>310ms": model.GatePass,
	} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

// Where nobody looked, nobody knows that it was up.
func TestUnobservedTimeAwayFromWindowsCountsAgainstALength(t *testing.T) {
	tl := analyze(t, rowRun(row("ok*900 -*10 ok*900 -*6 ok*900 x*8 ok*900")))
	if w := onlyWindow(t, tl); w.Open != (model.Open{}) || w.Length.Max > 10*tick || len(tl.Unobserved) != 2 {
		t.Fatalf("%+v, unobserved %+v", w, tl.Unobserved)
	}
	for expr, want := range map[string]model.GateOutcome{
		"window.longest>119ms": model.GateUndecided, "window.longest>130ms": model.GatePass,
		"window.longest>10ms":    model.GateFail,
		"blackout.longest>119ms": model.GateUndecided, "blackout.longest>130ms": model.GatePass,
		"downtime.total>289ms": model.GateUndecided, "downtime.total>290ms": model.GatePass,
		"downtime.total>10ms": model.GateFail,
	} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

// Windows that only unobserved time parts may be one; good requests in between part them, but for as many as a window
// may hold.
func TestWindowsOnEitherSideOfUnobservedTimeMayBeOne(t *testing.T) {
	for text, want := range map[string]map[string]model.GateOutcome{
		"ok*900 -*10 x*20 -*10 x*20 ok*900": {
			"window.longest>600ms": model.GateUndecided, "window.longest>730ms": model.GatePass,
			"blackout.longest>600ms": model.GateUndecided, "blackout.longest>730ms": model.GatePass,
			"downtime.total>600ms": model.GateUndecided, "downtime.total>730ms": model.GatePass,
			"windows>1": model.GateUndecided,
		},
		"ok*900 x*20 -*10 x*20 -*10 x*20 ok*900": {
			"window.longest>800ms": model.GateUndecided, "window.longest>810ms": model.GatePass,
			"blackout.longest>800ms": model.GateUndecided, "blackout.longest>810ms": model.GatePass,
			"windows>1": model.GateUndecided, "windows>0": model.GateFail,
		},
		"ok*900 x*20 ok -*10 x*20 ok*900": {
			"window.longest>510ms": model.GateUndecided, "window.longest>520ms": model.GatePass,
			"blackout.longest>300ms": model.GateUndecided, "blackout.longest>310ms": model.GatePass,
			"windows>1": model.GateUndecided,
		},
		"ok*900 x*20 ok*2 -*10 ok*2 x*20 ok*900": {
			"window.longest>540ms": model.GateUndecided, "window.longest>550ms": model.GatePass,
			"blackout.longest>210ms": model.GatePass, "windows>1": model.GateUndecided,
		},
		"ok*900 x*20 ok*9 -*10 x*20 ok*900": {
			"window.longest>300ms": model.GateUndecided, "window.longest>310ms": model.GatePass,
			"windows>1": model.GateFail,
		},
		"ok*900 x*20 ok*4 x*20 ok*900": { // a join apart, all of it observed
			"window.longest>200ms": model.GateUndecided, "window.longest>210ms": model.GatePass,
			"windows>1": model.GateFail,
		},
		"ok*900 x*20 ok*9 x*20 -*10 ok*900": {
			"window.longest>300ms": model.GateUndecided, "window.longest>310ms": model.GatePass,
			"windows>1": model.GateFail,
		},
	} {
		tl := analyze(t, rowRun(row(text)))
		for expr, want := range want {
			if got := outcome(t, tl, expr); got.Outcome != want {
				t.Errorf("%s\n%s: %s with %+v, want %s", text, expr, got.Outcome, got.Value, want)
			}
		}
	}
}

// Three failures without a success between are a blackout, but not if nobody looked in between.
func TestFewFailuresAboutUnobservedTimeAreNotKnownToBeABlackout(t *testing.T) {
	tl := analyze(t, rowRun(row("ok*900 x*2 -*3 x*2 ok*900")))
	if w := onlyWindow(t, tl); w.Kind != model.Outage || w.Length.Min != 6*tick {
		t.Fatalf("%+v", w)
	}
	for expr, want := range map[string]model.GateOutcome{
		"blackout.longest>50ms": model.GateUndecided, "blackout.longest>230ms": model.GatePass,
		"window.longest>50ms": model.GateFail,
	} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

// A good answer that comes while the prober stands still bounds a window, but not the rest of that time.
func TestOutageMayLieInTheRestOfTheTimeThatCutsAWindow(t *testing.T) {
	tl := analyze(t, rowRun(row("ok*900 x*8 ok+3 -*20 ok*900"), timeline.Event{Kind: timeline.ProberStall,
		Since: 9085 * ms, Seen: 9290 * ms}))
	if w := onlyWindow(t, tl); !w.Open.End || w.Most == nil || w.Most.Length != 12*tick {
		t.Fatalf("%+v, most %+v", w, w.Most)
	}
	for expr, want := range map[string]model.GateOutcome{
		"window.longest>180ms": model.GateUndecided, "blackout.longest>180ms": model.GateUndecided,
		"downtime.total>250ms": model.GateUndecided,
	} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

func TestWindowThatMeasuringBeganOrEndedInIsNotBounded(t *testing.T) {
	for _, text := range []string{"x*20 ok*100", "ok*100 x*20", "ok*100 -*10 x*20"} {
		if w := onlyWindow(t, analyze(t, rowRun(row(text)))); w.Most != nil || w.Open == (model.Open{}) {
			t.Errorf("%s: open %+v, most %+v", text, w.Open, w.Most)
		}
	}
	if w := onlyWindow(t, analyze(t, rowRun(row("ok*100 x*20 ok*100")))); w.Most != nil || w.Open != (model.Open{}) {
		t.Errorf("closed: open %+v, most %+v", w.Open, w.Most)
	}
}

// Where only a share of requests failed, all may have in the time nobody looked.
func TestUnobservedTimeInsideAPartialWindowMayHaveBeenDownWhole(t *testing.T) {
	const some = "x ok ok ok ok ok ok ok ok x ok ok ok ok ok ok ok ok "
	observed := onlyWindow(t, analyze(t, joined(some+some)))
	cut := onlyWindow(t, analyze(t, joined(some+"-*40 "+some)))
	if more := cut.Downtime.Max - observed.Downtime.Max; observed.Kind != model.Partial || cut.Kind != model.Partial ||
		more < 39*tick {
		t.Errorf("40 ticks nobody saw added %v to the most it can be: %v, then %v", more, observed.Downtime,
			cut.Downtime)
	}
}

// joined is a run of a row whose failures within a second are one window.
func joined(text string) timeline.Run {
	run := rowRun(row("ok*300 " + text + "x ok*300"))
	run.Meta.Options.Join = time.Second
	return run
}

func TestLatencyOfATargetThatNeverAnsweredIsNotKept(t *testing.T) {
	tl := wellRun(failing(8))
	tl.Targets = append(tl.Targets, model.Target{Target: timeline.Target{Name: "web reused", Kind: timeline.Reused}, Sent: 100, Failed: 100,
		Coverage: 1})
	for expr, want := range map[string]model.GateOutcome{"latency.p99>1s": model.GateUndecided,
		"latency.p99>10ms": model.GateFail} {
		if got := outcome(t, tl, expr); got.Outcome != want {
			t.Errorf("%s: %s with %+v, want %s", expr, got.Outcome, got.Value, want)
		}
	}
}

// Of an answer that the prober read late it is known only that it took no longer.
func TestAnswersReadLateMayHaveTakenAnyTime(t *testing.T) {
	for text, want := range map[string]map[string]model.GateOutcome{
		"ok+0.5*970 delayed+6*30": {
			"latency.p99>20ms": model.GateUndecided, "latency.p99>100ms": model.GatePass, "latency.p99>4ms": model.GateFail,
			"latency.p99>=60ms": model.GateUndecided,
		},
		"ok+0.5*1995 delayed+6*5": {"latency.p99>6ms": model.GatePass, "latency.p99>4ms": model.GateFail}, // no more than 1 %
		"ok+0.5*5 delayed+6*995":  {"latency.p99>4ms": model.GateUndecided, "latency.p99>100ms": model.GatePass},
		"delayed+6*100 ok+0.5":    {"latency.p99>0.1ms": model.GateUndecided},
	} {
		tl := analyze(t, rowRun(row(text)))
		for expr, want := range want {
			if got := outcome(t, tl, expr); got.Outcome != want {
				t.Errorf("%s: %s: %s with %+v, want %s", text, expr, got.Outcome, got.Value, want)
			}
		}
	}
}

// Whatever the latencies were, the bar holds the one that the quantile stands for.
func TestLatencyBoundsHoldWhatTheHistogramRounded(t *testing.T) {
	for d := time.Microsecond; d < time.Minute; d += d/37 + 777 {
		var counted tally
		counted.latencies.add(d)
		counted.slowest = time.Hour // else the one value would be known exactly
		if least, most := verdict.LatencyBounds(counted.quantiles().P99); d < least || d > most ||
			most-least > d/500+3*time.Microsecond {
			t.Fatalf("%v is not within %v and %v", d, least, most)
		}
	}
	tl := wellRun(func(tl *model.Timeline) { tl.Targets[0].Latency.P99 = time.Minute })
	if got := outcome(t, tl, "latency.p99>2m"); got.Outcome != model.GateUndecided {
		t.Errorf("%+v: longer than a minute is counted as a minute", got)
	}
}
