package dashboard_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"lapse/correlate/model"
	"lapse/correlate/quantity"
	"lapse/correlate/verdict"
	"lapse/dashboard"
	"lapse/dashboard/internal/sample"
	"lapse/dashboard/publish"
	"lapse/internal/layer"
	"lapse/timeline"
)

// open opens the page on a run, at a place of it.
func open(t *testing.T, run *model.Timeline, fragment string) *tab {
	t.Helper()
	store := dashboard.NewStore()
	if err := publish.To(store).Show(run, run.Run.Duration); err != nil {
		t.Fatal(err)
	}
	page := newTab(t, serve(t, store, "127.0.0.1:0").url()+fragment)
	page.until("has drawn its rows", `document.querySelector('[data-row] canvas')?.width > 200`)
	return page
}

// withHeld adds ten held connections to the made-up run, of which four were cut at 30 s, which no incident is about.
func withHeld(run *model.Timeline) *model.Timeline {
	cut := model.CutWindow{Window: model.Window{
		ID: len(run.Windows) + 1, Target: "web held", Kind: model.CutKind, Sent: 10, Failed: 4, Share: 0.4,
		Classes: map[string]int{"eof": 4},
		Start:   model.Instant{Earliest: 29900 * time.Millisecond, Latest: 30 * time.Second},
		End:     model.Instant{Earliest: 30200 * time.Millisecond, Latest: 30300 * time.Millisecond},
	}}
	run.Held = []model.Held{{
		Target: "web held", Connections: 10, Heartbeat: time.Second, Stood: 10, Standing: 6, Cut: 4,
		Windows: []model.CutWindow{cut}, List: []model.HeldCut{},
	}}
	target := run.Targets[0]
	target.ID, target.Name, target.Kind = 900, "web held", timeline.Held
	run.Targets = append(run.Targets, target)
	verdict.Say(run)
	return run
}

// The page opens on the incident, with a second before it and two after; the strip above the rows shows the whole run on
// a scale of its own, which no band of the rows crosses.
func TestThePageOpensOnTheIncident(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	page := open(t, run, "")
	page.see(`[data-testid="brush"]`)
	if text := page.text(`[data-testid="range"]`); strings.Contains(text, "1 min") {
		t.Errorf("the page opens on %q", text)
	}
	if n := page.count(`[data-testid="plots"] [data-testid="overview"]`); n != 0 {
		t.Error("the strip of the whole run is among the rows, whose bands cross it")
	}
	if n := page.count(`[data-testid="band"]`); n == 0 || n > len(run.Incidents) {
		t.Errorf("%d bands in view for %d incidents", n, len(run.Incidents))
	}
	page.see(`[data-testid="step"]`)
	page.press("0")
	page.until("shows the whole run", `!document.querySelector('[data-testid="brush"]')`)
}

// The ], a badge, an incident and a link bring the timeline into view, zoomed to what was chosen.
func TestChoosingAWindowShowsItOnTheTimeline(t *testing.T) {
	layer.Real(t)
	const inView = `((box) => box.top >= 0 && box.top + 300 <= innerHeight)(document.querySelector('[data-testid="plots"]').getBoundingClientRect())`
	run := sample.Run(sample.Length)
	page := open(t, run, "")
	page.run(chromedp.EmulateViewport(1400, 600))
	atTheEnd := func() { eval[bool](page, `scrollTo(0, document.body.scrollHeight), true`) }
	atTheEnd()
	page.press("]")
	page.until("shows the timeline", inView)

	eval[bool](page, `location.hash = "", true`)
	atTheEnd()
	id := len(run.Incidents)
	eval[bool](page, fmt.Sprintf(`document.querySelector('[data-incident-id="%d"] .twist[aria-expanded="false"]').click(), true`, id))
	page.until("has the incident in its address", fmt.Sprintf(`new URLSearchParams(location.hash.slice(1)).get("incident") === "%d"`, id))
	page.until("shows the timeline", inView)

	eval[bool](page, `location.hash = "#window=2", true`)
	page.see(why(2))
	page.until("shows the timeline", inView)
	at := run.Windows[1]
	if text := page.text(`[data-testid="range"]`); at.End.Latest-at.Start.Earliest < 2*time.Second && strings.Contains(text, "min") {
		t.Errorf("a link to window 2 shows %q", text)
	}
	page.see(`[data-testid="brush"]`)
}

// Whichever event is selected, the axis shows nothing from before the run.
func TestAnEventIsNotShownFromBeforeTheRun(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	first := &run.Events[1]
	first.Seen, first.At = 400*time.Millisecond, model.Instant{Earliest: model.Unbounded, Latest: 400 * time.Millisecond}
	page := open(t, run, "")
	eval[float64](page, `document.querySelector('[data-testid="event-log"]').scrollTop = 0`)
	row := fmt.Sprintf(`[data-testid="event-row"][data-event-id="%d"]`, first.ID)
	page.see(row)
	page.click(row)
	from, to := page.address("range")
	if from < 0 || to-from > 10 {
		t.Errorf("an event 0.4 s into the run is shown from %v to %v s", from, to)
	}
}

// Nothing is wider than the page, on a telephone and at 200 %, whatever is open.
func TestNothingIsWiderThanThePage(t *testing.T) {
	layer.Real(t)
	page := open(t, withHeld(withRoutes(sample.Run(sample.Length))), "")
	page.openFigures()
	page.openIncidents()
	page.openWindow(1)
	for _, width := range []int64{1400, 1024, 700, 420} {
		page.run(chromedp.EmulateViewport(width, 900))
		const drawn = `document.querySelector('[data-testid="plots"]').clientWidth <= innerWidth && [...document.querySelectorAll("[data-row] canvas, [data-testid='overview'] canvas")].every((c) => c.getBoundingClientRect().right <= innerWidth)`
		page.until("has its rows in the new width", drawn)
		const wide = `[...document.querySelectorAll("main *")].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && !e.closest(".scroll-x, .event-log, .under, .over, .marks, .prober-figures")).slice(0, 5).map((e) => e.tagName + "." + e.className).join()`
		if n := eval[int64](page, `document.documentElement.scrollWidth`); n > width {
			t.Errorf("at %d pixels the page is %d wide: %s", width, n, eval[string](page, wide))
		}
	}
}

// What a pass says nothing of stands on the page as in the terminal.
func TestThePageSaysWhatIsNotCovered(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	const sentence = "the node ports are not asked: --target node-port"
	run.Run.Services[0].NotCovered = []string{sentence}
	page := open(t, run, "")
	if text := page.text(`[data-testid="not-covered"]`); !strings.Contains(text, sentence) {
		t.Errorf("the page says %q", text)
	}
}

// Held connections that were cut have a row among the clients' and a badge, and ] comes to them.
func TestCutConnectionsAreWindowsOnTheTimeline(t *testing.T) {
	layer.Real(t)
	run := withHeld(sample.Run(sample.Length))
	cut := run.Held[0].Windows[0].ID
	page := open(t, run, wholeRun)
	page.see(`[data-testid="held-row"]`)
	mark := fmt.Sprintf(`[data-testid="window-mark"][data-window-id="%d"]`, cut)
	page.see(mark)
	before := 0 // windows
	for _, w := range run.Windows {
		if w.Start.Earliest < run.Held[0].Windows[0].Start.Earliest {
			before++
		}
	}
	page.press(strings.Repeat("[", len(run.Windows)+1) + strings.Repeat("]", before))
	page.see(row(cut) + ".selected")
	page.press("0")
	page.click(mark)
	page.see(row(cut) + ".selected")
}

// Before there is a verdict nothing is green: the page says which phase the run is in, and how much is left of it.
func TestARunThatGoesOnIsNoPass(t *testing.T) {
	layer.Real(t)
	page := open(t, sample.Run(4*time.Second), "")
	if text := page.text(`[data-testid="verdict-result"]`); !strings.Contains(text, "Measuring") {
		t.Errorf("4 s into the baseline the page says %q", text)
	}
	if n := page.count(`.verdict.pass`); n != 0 {
		t.Error("it looks like a pass")
	}
	if text := strings.ReplaceAll(page.text(`[data-testid="phase"]`), "\u00a0", " "); !strings.Contains(text, "baseline, 6 s left") {
		t.Errorf("the phase reads %q", text)
	}
}

// The answer is copied as Markdown, with a link to what is shown.
func TestTheAnswerIsCopied(t *testing.T) {
	layer.Real(t)
	page := open(t, sample.Run(sample.Length), "")
	eval[bool](page, `Object.defineProperty(navigator, "clipboard", {value: {writeText: async (text) => { window.copied = text; }}}), true`)
	page.click(`[data-testid="copy-markdown"]`)
	page.until("has copied", `!!window.copied`)
	text := eval[string](page, `window.copied`)
	for _, want := range []string{"**FAIL**: ", "**When**: 2026-03-14", "**What**: ", "**Why**: ", "**Do**: ", "127.0.0.1"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %q", want, text)
		}
	}
	page.until("says so", `document.querySelector('[data-testid="copy-markdown"]').textContent === "Copied"`)
}

// The page says how long it lasted in the words of the summary: from when to when requests failed, which share, and how much
// full outage that equals. No incident begins before what set it off, and the error bars of windows are with these.
func TestThePageHasOneVocabularyForLengths(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	page := open(t, run, "")
	page.openFigures()
	plain := func(selector string) string { return strings.ReplaceAll(page.text(selector), "\u00a0", " ") }
	for i := range run.Incidents {
		in := &run.Incidents[i]
		card := fmt.Sprintf(`[data-testid="incident"][data-incident-id="%d"]`, in.ID)
		if text := plain(card + ` [data-testid="incident-when"]`); text != in.Said.When {
			t.Errorf("incident %d was %q, want %q", in.ID, text, in.Said.When)
		}
		if text := plain(card + " .incident-head"); strings.Contains(text, "window") || strings.Contains(text, "downtime") {
			t.Errorf("the head of incident %d reads %q", in.ID, text)
		}
	}
	if text := plain(".figures"); strings.Contains(text, "window") || strings.Contains(text, "Downtime") || !strings.Contains(text, "Equals full outage of") {
		t.Errorf("the figures read %q", text)
	}
	longest := 0 * time.Second
	for _, in := range run.Incidents {
		if in.FailedFrom != nil {
			longest = max(longest, *in.FailedTo-*in.FailedFrom)
		}
	}
	if text := plain(`[data-testid="failed-for"]`); text != quantity.Span(longest) {
		t.Errorf("the longest incident failed for %q, want %q", text, quantity.Span(longest))
	}
}

// While a run goes on its head has the failures of the last seconds, and what preflight predicts before that is put to the test.
func TestTheLiveHeadHasTheLastFailuresAndWhatIsPredicted(t *testing.T) {
	layer.Real(t)
	run := sample.Run(4 * time.Second)
	predicted := run.Events[0]
	predicted.ID, predicted.Kind = 9000, timeline.Predicted
	predicted.Preflight = &timeline.Preflight{Rules: []timeline.AskedRule{}, Predictions: []timeline.Prediction{
		{Rule: "LP05", Name: "no-prestop", Severity: "may-lose", Text: "1 in 2 requests may fail", Evidence: []string{}},
		{Rule: "LP01", Name: "one-replica", Severity: "may-lose", Text: "nobody else answers", Evidence: []string{}, Accepted: "one is enough"},
	}}
	run.Events = append(run.Events, predicted)
	page := open(t, run, "")
	plain := func(selector string) string { return strings.ReplaceAll(page.text(selector), "\u00a0", " ") }
	if text := plain(`[data-testid="spark"]`); text != "no failure in the last 30 seconds" {
		t.Errorf("before anything failed: %q", text)
	}
	if text := plain(`[data-testid="foretold"]`); !strings.Contains(text, "1 in 2 requests may fail") || strings.Contains(text, "nobody else") {
		t.Errorf("preflight predicts %q", text)
	}
	page = open(t, sample.Run(14*time.Second), "")
	if text := plain(`[data-testid="spark"]`); !strings.Contains(text, "failures in the last 30 seconds") {
		t.Errorf("after failures: %q", text)
	}
	if n := page.count(`[data-testid="spark"] rect`); n == 0 {
		t.Error("no failure is drawn")
	}
}

// Two targets whose names differ at their ends only can be told apart, and an endpoint's address is whole.
func TestLongLabelsAreNotCut(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	long := run.Targets[0]
	long.ID, long.Name = 901, "web loadbalancer new from outside"
	run.Targets = append(run.Targets, long)
	page := open(t, run, "")
	page.run(chromedp.EmulateViewport(1400, 900))
	const cut = `[...document.querySelectorAll('[data-testid="strip"] .row-label, [data-testid="endpoint-lane"] .row-label, [data-testid="pod-lane"] .row-label')].filter((e) => e.scrollWidth > e.clientWidth || e.firstElementChild?.scrollHeight > e.firstElementChild?.clientHeight + 1).map((e) => e.textContent).join()`
	if text := eval[string](page, cut); text != "" {
		t.Errorf("labels are cut: %s", text)
	}
}

// What a rule of preflight could not judge is no news: it is folded.
func TestWhatPreflightCouldNotJudgeIsFolded(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	unjudged := []model.UnjudgedRule{{Rule: "LP19", Why: "no right to get configmaps"}, {Rule: "LP19", Why: "no right to get configmaps"}}
	run.Scorecard = &model.Scorecard{Predictions: []model.ScoredPrediction{}, Misses: []model.Miss{}, Unjudged: unjudged}
	page := open(t, run, "")
	if text := page.text(`[data-testid="preflight"]`); strings.Contains(text, "configmaps") {
		t.Errorf("preflight reads %q", text)
	}
	eval[bool](page, `document.querySelector('[data-testid="not-judged"]').open = true`)
	if text := page.text(`[data-testid="preflight"]`); strings.Count(text, "configmaps") != 1 {
		t.Errorf("unfolded it reads %q", text)
	}
}

// A command stands with the sentence that it carries out, before what else there is to do.
func TestThePatchStandsWithWhatItDoes(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	for i := range run.Incidents {
		said := &run.Incidents[i].Said
		said.Do, said.Patch = []string{"serve on for 2 s", "let clients retry"}, "kubectl patch deploy web"
	}
	text := open(t, run, "").text(`[data-testid="answer-do"]`)
	first, patch, second := strings.Index(text, "serve on"), strings.Index(text, "kubectl patch"), strings.Index(text, "let clients")
	if first < 0 || first > patch || patch > second {
		t.Errorf("what to do reads %q", text)
	}
}

// On a telephone a row's figures stand below its name.
func TestFiguresOfRowsAreShownOnATelephone(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	other := run.Targets[0]
	run.Targets[0].Node, other.Node, other.ID, other.Name = "node-a", "node-b", 902, other.Name+" from node-b"
	run.Targets = append(run.Targets, other)
	page := open(t, run, "")
	page.run(chromedp.EmulateViewport(420, 900))
	target := run.Targets[1]
	want := fmt.Sprintf("%d failed / %d", target.Failed, target.Sent)
	page.until("has the figures", fmt.Sprintf(`document.querySelector('[data-testid="strip"][data-id=%q] .row-label').innerText.includes(%q)`, target.Name, want))
	const cut = `[...document.querySelectorAll(".row-label:has(.beneath)")].filter((e) => e.querySelector(".beneath").getBoundingClientRect().bottom > e.parentElement.getBoundingClientRect().bottom + 1).map((e) => e.textContent).join()`
	if text := eval[string](page, cut); text != "" {
		t.Errorf("labels are taller than their rows: %s", text)
	}
}

// From when on requests were sent at another rate is a line through all rows, and a sentence says what it means for
// what is known.
func TestAChangeOfTheRateIsShown(t *testing.T) {
	layer.Real(t)
	run := sample.Run(sample.Length)
	for i := range run.Targets {
		at := model.Instant{Earliest: 9 * time.Second, Latest: 10 * time.Second}
		run.Targets[i].Rerated = &model.Rerated{At: at, From: 5, Resolution: 10 * time.Millisecond}
	}
	page := open(t, run, "")
	text := strings.ReplaceAll(page.text(`[data-testid="rate-change"]`), "\u00a0", " ")
	if !strings.Contains(text, "sent at 5/s until") || !strings.Contains(text, "later failures to 10 ms") {
		t.Errorf("the page says %q", text)
	}
	if n := page.count(".rate-change"); n != 1 {
		t.Errorf("%d lines for one instant", n)
	}
	page.picture("rate")
}
