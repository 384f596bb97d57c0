package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"lapse/correlate/compare"
	"lapse/correlate/model"
	"lapse/internal/report/document"
	"lapse/timeline"
)

// diffs are comparisons people meet: before and after a fix, and of things that are not alike.
var diffs = map[string]func() *Comparison{
	"fixed": func() *Comparison {
		fixed := race()
		fixed.Targets[0].OK, fixed.Targets[0].Failed = fixed.Targets[0].Sent, 0
		fixed.Windows, fixed.Verdict.Failed, fixed.Verdict.Windows = []model.Window{}, 0, 0
		fixed.Verdict.Result, fixed.Verdict.ExitCode = model.Pass, 0
		return Compare(race(), fixed, "runs/before", "runs/after")
	},
	"held": func() *Comparison {
		before, after := race(), race()
		held := model.Held{Target: "web held", Connections: 100, Stood: 100, Standing: 100, Cut: 40, Unwarned: 38, Cuts: 40, Back: &model.Length{Min: 12 * ms, Max: 1031 * ms}, Coverage: 1}
		before.Held = []model.Held{held}
		held.Unwarned = 0
		after.Held = []model.Held{held}
		return Compare(before, after, "runs/before", "runs/after")
	},
	"same":   func() *Comparison { return Compare(race(), race(), "runs/one", "runs/two") },
	"unlike": func() *Comparison { return Compare(race(), inconclusive(), "runs/web", "runs/shop/timeline.json") },
	"worse":  func() *Comparison { return Compare(fewer(), aborted(), "runs/before", "runs/after") },
	"hostile": func() *Comparison {
		return Compare(hostileNames(), hostileNames(), "\x1b[2Jruns/a", "runs/\u202eb")
	},
}

// fewer is the run aborted, with fewer failures.
func fewer() *model.Timeline {
	tl := aborted()
	tl.Run.Aborted, tl.Verdict.Coverage = "", 1
	tl.Run.Command.End, tl.Run.Command.ExitCode = new(20*s), new(0)
	tl.Targets[0].Failed, tl.Unobserved = 3, nil
	w := &tl.Windows[0]
	w.Open, w.Length, w.Downtime = model.Open{}, model.Length{Min: 20 * ms, Max: 40 * ms}, model.Length{Min: 20 * ms, Max: 40 * ms}
	return tl
}

func renderDiff(t *testing.T, format string, c *Comparison, opts Options) []byte {
	t.Helper()
	var out bytes.Buffer
	f, _ := FormatNamed(DiffFormats(), format)
	said(&c.A)
	said(&c.B)
	if err := f.Diff(&out, c, opts); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func TestComparisonsReadAsCommitted(t *testing.T) {
	for name, diff := range diffs {
		golden(t, "diff/"+name+".80.txt", renderDiff(t, "table", diff(), Options{Width: 80, Unicode: true}))
		golden(t, "diff/"+name+".120.txt", renderDiff(t, "table", diff(), Options{Width: 120, Unicode: true}))
		golden(t, "diff/"+name+".md", renderDiff(t, "markdown", diff(), Options{}))
	}
	golden(t, "diff/fixed.json", renderDiff(t, "json", diffs["fixed"](), Options{}))
}

func TestComparisonStaysWithinTheScreenAndHarmless(t *testing.T) {
	for name, diff := range diffs {
		for width := 40; width <= 160; width += 13 {
			for line := range strings.Lines(string(renderDiff(t, "table", diff(), Options{Width: width, Unicode: true}))) {
				line = strings.TrimSuffix(line, "\n")
				if n := document.Columns(line); n > width || document.Clean(line) != line {
					t.Errorf("%s at width %d: %d columns: %q", name, width, n, line)
				}
			}
		}
	}
}

func TestComparisonSaysUpFrontWhatCannotBeCompared(t *testing.T) {
	for _, format := range []string{"table", "markdown"} {
		out := strings.ToLower(string(renderDiff(t, format, diffs["unlike"](), Options{Width: 120, Unicode: true})))
		before, _, ok := strings.Cut(out, "not comparable")
		if !ok || strings.Contains(before, "changes") {
			t.Errorf("%s does not begin with what is unlike:\n%s", format, out)
		}
	}
}

// Too few requests fail on each node to tell, and enough in all.
func TestComparisonSaysUpFrontWhatAllTargetsTogetherShow(t *testing.T) {
	fromThree := func(failed int) *model.Timeline {
		tl := &model.Timeline{}
		for _, node := range []string{"node-a", "node-b", "node-c"} {
			of := timeline.Target{Name: "web new " + node, Kind: timeline.New}
			tl.Targets = append(tl.Targets, model.Target{Target: of, Sent: 3000, Failed: failed})
		}
		return tl
	}
	d := compare.Compare(fromThree(0), fromThree(5))
	want := "failures: more (0 of 9000 in A, 15 of 9000 in B)"
	if got := diffHeadline(d); !strings.Contains(got, want) || d.Changes[0].Direction != compare.Unclear {
		t.Errorf("%q, want %q; of one node: %s", got, want, d.Changes[0].Direction)
	}
}

func TestComparisonAsJSONHoldsWhatAPipelineAsks(t *testing.T) {
	var got struct {
		A, B struct{ Name, ID string }
		compare.Diff
	}
	if err := json.Unmarshal(renderDiff(t, "json", diffs["fixed"](), Options{}), &got); err != nil {
		t.Fatal(err)
	}
	if got.A.Name != "runs/before" || len(got.Changes) == 0 || got.Changes[0].Direction != compare.Less || got.NotComparable == nil {
		t.Errorf("%+v", got)
	}
}

func TestComparisonAsMarkdownStaysSmall(t *testing.T) {
	c := diffs["same"]()
	for i := range 3000 {
		c.Diff.Causes = append(c.Diff.Causes, compare.CauseChange{Rule: fmt.Sprint("rule", i), A: compare.CauseSide{Windows: 1, Text: strings.Repeat("@ ", 500)}})
		c.Diff.NotComparable = append(c.Diff.NotComparable, strings.Repeat("` ", 500))
	}
	if out := renderDiff(t, "markdown", c, Options{}); len(out) > 60_000 {
		t.Errorf("%d bytes", len(out))
	}
}
