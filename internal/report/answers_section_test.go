package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// Somebody who was woken up reads one screen.
func TestTheSummaryOfARunIsAScreen(t *testing.T) {
	for sample, most := range map[string]int{"race": 35, "predicted": 35, "recurring": 35, "inconclusive": 35, "held": 50, "clean": 12, "slow": 35} {
		out := string(render(t, "table", sample, screens["120"]))
		if n := strings.Count(out, "\n"); n > most {
			t.Errorf("%s: %d lines, want %d at most:\n%s", sample, n, most, out)
		}
	}
}

// A length has one name for a reader: failed from and to, the share, and the full outage it equals (D3).
func TestTheSummaryNeedsNoWindows(t *testing.T) {
	gate := regexp.MustCompile(`window\.\w+`)
	for sample := range samples {
		for _, format := range []string{"table", "markdown", "junit"} {
			out := gate.ReplaceAllString(string(render(t, format, sample, screens["120"])), "")
			if i := strings.Index(out, "window"); i >= 0 {
				t.Errorf("%s of %s: %q", format, sample, out[max(0, i-60):min(len(out), i+40)])
			}
		}
	}
}

// Whoever greps gets whole sentences.
func TestNothingWrapsWhereThereIsNoScreen(t *testing.T) {
	tl := samples["predicted"]()
	tl.Windows[0].Causes[0].Text = strings.Repeat("a long story of a Pod ", 30)
	tl.Incidents[0].Causes[0].Text = tl.Windows[0].Causes[0].Text
	said(tl)
	var out bytes.Buffer
	if err := Table(&out, tl, Options{Width: document.Unlimited, Unicode: true}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{tl.Said.Headline, tl.Said.Extent, tl.Incidents[0].Said.When, tl.Incidents[0].Said.Why, tl.Incidents[0].Said.Do[0], tl.Said.Measured} {
		if want == "" || !strings.Contains(out.String(), strings.TrimSpace(want)) {
			t.Errorf("%q is not in one line:\n%s", want, out.String())
		}
	}
}

// Where a fact stands does not depend on the width (D20).
func TestTheExitCodeStandsBelowAtEveryWidth(t *testing.T) {
	for _, width := range []int{60, 80, 120, 200, 1000} {
		out := string(render(t, "table", "race", Options{Width: width, Unicode: true}))
		head, below, _ := strings.Cut(out, "\n\n")
		if strings.Contains(head, "exit 3") || strings.Count(below, "exit 3 (failed > 0)") != 1 {
			t.Errorf("at width %d:\n%s", width, out)
		}
	}
}

// Markdown is read where the run is not (D23).
func TestMarkdownNamesNoPathOfItsMachineAndNoFlag(t *testing.T) {
	out := string(render(t, "markdown", "race", Options{RunDir: "/home/runner/work/shop/runs/ci-7"}))
	if strings.Contains(out, "/home/runner") || strings.Contains(out, "-v") || !strings.Contains(out, "ci-7") {
		t.Errorf("%s", out)
	}
}

func TestAQuietSummaryIsTheVerdict(t *testing.T) {
	opts := screens["120"]
	opts.Quiet = true
	if out := string(render(t, "table", "race", opts)); strings.Count(out, "\n") > 2 || !strings.HasPrefix(out, " FAIL  shop/web: 64 of 80000") {
		t.Errorf("%s", out)
	}
}

func TestAPatchIsPrintedToBePasted(t *testing.T) {
	tl := samples["predicted"]()
	for _, format := range []string{"table", "markdown"} {
		out := string(render(t, format, "predicted", Options{Width: 60, Unicode: true}))
		for line := range strings.Lines(tl.Incidents[0].Said.Patch) {
			if !strings.Contains(out, strings.TrimRight(line, "\n")) {
				t.Errorf("%s: no line %q in\n%s", format, line, out)
			}
		}
	}
}

// Each incident is said with what to do; the same advice is given once.
func TestAnswersReferToAdviceThatWasGiven(t *testing.T) {
	tl := samples["race"]()
	second := tl.Incidents[0]
	second.ID = 2
	tl.Incidents = []model.Incident{tl.Incidents[0], second}
	var out bytes.Buffer
	if err := Table(&out, tl, screens["120"]); err != nil {
		t.Fatal(err)
	}
	if strings.Count(out.String(), "as for incident 1") != 1 || !strings.Contains(out.String(), "incident 2 of 2") {
		t.Errorf("%s", out.String())
	}
}

// What is piped is not wrapped: a line of the summary is a line.
func TestASummaryOfOneIncidentFitsAScreen(t *testing.T) {
	for name, sample := range samples {
		tl := sample()
		if len(tl.Incidents) != 1 {
			continue
		}
		out := string(render(t, "table", name, Options{Width: document.Unlimited, Unicode: true, RunDir: "runs/a"}))
		if n := strings.Count(out, "\n"); n > 35 {
			t.Errorf("%s has %d lines:\n%s", name, n, out)
		}
	}
}

func TestASummaryOfAPassIsTwelveLinesAtMost(t *testing.T) {
	for name, many := range map[string]int{"clean": 0, "slow": 1, "held": 1, "rollout": 2, "race": 20} {
		tl := samples[name]()
		tl.Verdict.Result, tl.Verdict.Gates, tl.Run.Aborted = model.Pass, nil, ""
		for len(tl.Incidents) > 0 && len(tl.Incidents) < many {
			next := tl.Incidents[0]
			next.ID = len(tl.Incidents) + 1
			tl.Incidents = append(tl.Incidents, next)
		}
		var out bytes.Buffer
		if err := Table(&out, tl, Options{Width: document.Unlimited, Unicode: true, RunDir: "runs/a"}); err != nil {
			t.Fatal(err)
		}
		text := out.String()
		if n := strings.Count(text, "\n"); n > 12 {
			t.Errorf("%s, %d incidents: %d lines:\n%s", name, len(tl.Incidents), n, text)
		}
		if len(tl.Incidents) > 0 && len(tl.Incidents[0].Causes) > 0 && !strings.Contains(text, tl.Incidents[0].Causes[0].Rule) {
			t.Errorf("%s says nothing of what happened:\n%s", name, text)
		}
		if many == 20 && !strings.Contains(text, "and 16 more incidents that did less harm") {
			t.Errorf("%s", text)
		}
	}
}

// A plain word says what a window is (D3).
func TestNoDefaultSummarySaysWindow(t *testing.T) {
	for name := range samples {
		for _, format := range []string{"table", "markdown", "junit"} {
			if out := string(render(t, format, name, screens["120"])); strings.Contains(strings.ReplaceAll(out, "window.longest", ""), "window") {
				t.Errorf("%s of %s:\n%s", format, name, out)
			}
		}
	}
}

// The rows of Pods of several Services say whose they are (D15).
func TestAPodOfSeveralServicesHasItsWholeName(t *testing.T) {
	if out := string(render(t, "table", "race", screens["120"])); !strings.Contains(out, "pod x2kzq") {
		t.Errorf("%s", out)
	}
	tl := samples["race"]()
	tl.Run.Services = append(tl.Run.Services, timeline.Service{Namespace: "shop", Name: "cart"})
	var out bytes.Buffer
	if err := Table(&out, tl, screens["120"]); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), "pod web-5c9d7f-x2kzq") {
		t.Errorf("%s", out.String())
	}
}

func TestARuleThatCouldNotJudgeSeveralServicesIsNamedOnce(t *testing.T) {
	if out := string(render(t, "table", "predicted", Options{Width: 200, Unicode: true, Verbose: true})); strings.Count(out, "LP19") != 1 {
		t.Errorf("%s", out)
	}
}
