package main

import (
	"strings"
	"testing"
	"time"
)

func TestSpread(t *testing.T) {
	for _, test := range []struct {
		values []float64
		digits int
		want   string
	}{
		{[]float64{3, 1, 2}, 0, "2 (1..3)"},
		{[]float64{1, 2, 3, 4}, 1, "2.5 (1.0..4.0)"},
		{[]float64{0.101, 0.099}, 1, "0.1"}, // extremes that print alike say nothing
	} {
		if got := spreadOf(test.values).format(test.digits); got != test.want {
			t.Errorf("%v: %s, want %s", test.values, got, test.want)
		}
	}
}

func TestClaimsSayHowTheyStand(t *testing.T) {
	for _, test := range []struct {
		claim claim
		want  string
	}{
		{claim{Figure: "f", Must: "≤ 1", Measured: "0.5", Held: true}, "| f | ≤ 1 | 0.5 | held |"},
		{claim{Figure: "f", Must: "≤ 1", Measured: "2"}, "| f | ≤ 1 | 2 | **missed** |"},
		{claim{Figure: "f", Must: "≤ 1", Held: true, Missing: "no such verb"}, "| f | ≤ 1 | not measured: no such verb | – |"},
	} {
		got := table([]string{"a", "b", "c", "d"}, [][]string{test.claim.row()})
		want := "| a | b | c | d |\n|---|---|---|---|\n" + test.want + "\n"
		if got != want {
			t.Errorf("%s\nwant\n%s", got, want)
		}
	}
}

func TestPageTellsWhatWasMissed(t *testing.T) {
	p := page{Claims: []claim{{Figure: "one", Held: true}, {Figure: "two"}, {Figure: "three", Missing: "why"}}, Core: "| a |\n", Selftest: "it said"}
	var b strings.Builder
	if err := p.render(&b); err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, want := range []string{"1 of the targets were missed", "not measured: why", "## One core", "it said"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if strings.Contains(text, "## Soak") {
		t.Error("a part that was not run has a heading")
	}
}

func TestTablesWithTheSameColumnsBecomeOne(t *testing.T) {
	one, two := table([]string{"a", "b"}, [][]string{{"1", "2"}}), table([]string{"a", "b"}, [][]string{{"3", "4"}, {"5", "6"}})
	got := appendTable(appendTable("", one), two)
	if want := "| a | b |\n|---|---|\n| 1 | 2 |\n| 3 | 4 |\n| 5 | 6 |\n"; got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}

func TestSummaryLeavesOutWhatATableBelowShowsAsHeld(t *testing.T) {
	p := page{Claims: []claim{{Figure: "alone", Held: true}, {Figure: "held", Held: true, Tabled: true}, {Figure: "missed", Tabled: true}}}
	if got := p.Summary(); strings.Contains(got, "| held |  |") || !strings.Contains(got, "| alone |") || !strings.Contains(got, "| missed |") {
		t.Error(got)
	}
}

func TestSelftestIsCutToItsResultUnlessItFailed(t *testing.T) {
	const printed = "PASS\n\nOUTAGES\nmany\n"
	for code, want := range map[int]string{0: "PASS\n", 3: printed} {
		if got := excerpt(printed, code); got != want {
			t.Errorf("exit %d: %q, want %q", code, got, want)
		}
	}
}

// Lapse's CPU is held against hey's of the same run, not against the median of all.
func TestCPUIsHeldAgainstHeysOfTheSameRun(t *testing.T) {
	costs := func(micros ...int) (of []result) {
		for _, m := range micros {
			of = append(of, result{cpu: time.Duration(m) * time.Microsecond})
		}
		return of
	}
	var p page
	p.claimBesideHey(map[string][]result{"hey": costs(40, 80, 60), "Lapse, engine": costs(40, 60, 30), "`lapse run`": costs(80, 88, 66)})
	if len(p.Claims) != 2 || p.Claims[0].Measured != "0.75 (0.50..1.00)" || !p.Claims[0].Held || p.Claims[1].Measured != "1.10 (1.10..2.00)" || p.Claims[1].Held {
		t.Errorf("%+v", p.Claims)
	}
}

func TestResultsOfEveryToolAreCompared(t *testing.T) {
	results := map[string][]result{}
	for i, tool := range tools {
		results[tool.name] = []result{{outcome: outcome{Failed: i}}, {outcome: outcome{Failed: i + 2}}}
	}
	f := figure{name: "failed", of: func(r *result) float64 { return float64(r.Failed) }, must: "≤ 4", holds: atMost(4)}
	got := compareTable(tools, []figure{f}, results)
	if !strings.Contains(got, "| failed | 1 (0..2) | 2 (1..3) | 3 (2..4) | 4 (3..5) | 5 (4..6) | ≤ 4 |") {
		t.Error(got)
	}
	var p page
	p.claim([]figure{f}, results)
	if len(p.Claims) != 2 || !p.Claims[0].Held || p.Claims[1].Held {
		t.Errorf("%+v", p.Claims)
	}
}

func TestSoakSeesMemoryGrow(t *testing.T) {
	var samples []memorySample
	for i := range 100 {
		samples = append(samples, memorySample{time.Duration(i) * time.Second, int64(1000 + 10*i)})
	}
	early, late := grown(samples)
	if early >= late || late < 1790 || late > 1990 || early < 1190 || early > 1400 {
		t.Errorf("from %v to %v", early, late)
	}
}

func TestCoordinatorIsHeldAgainstItsTargets(t *testing.T) {
	var p page
	const text = "BenchmarkCoordinator-2 \t 1 \t 0 ns/op \t 0.50 cores \t 600 MiB-peak \t 1.40 s-verdict \t 3 lost\n"
	lines, err := readBench(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	p.tellCoordinator(lines)
	got := map[string]string{}
	for _, c := range p.Claims {
		row := c.row()
		got[strings.TrimPrefix(row[0], "100 nodes, 100 Services, 1000 endpoints: ")] = row[2] + " " + row[3]
	}
	for figure, want := range map[string]string{
		"cores, nobody looks":                                          "0.50 held",
		"resident memory, peak with the result, MiB":                   "600 **missed**",
		"of these missing in the result or the copy, or counted twice": "3 **missed**",
		"page: until the verdict is shown, s":                          "1.40 held",
		"page: frames per second while zooming":                        "not measured: the benchmark did not measure it –",
	} {
		if got[figure] != want {
			t.Errorf("%s: %q, want %q", figure, got[figure], want)
		}
	}
	if strings.Contains(p.Coordinator, "| how far the judgement is behind the probers, at most, s | 0 |") {
		t.Error("what was not measured is 0")
	}
}
