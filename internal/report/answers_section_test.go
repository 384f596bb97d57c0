package report

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"lapse/correlate/model"
	"lapse/internal/report/document"
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
