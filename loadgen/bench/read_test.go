package main

import (
	"slices"
	"strings"
	"testing"
)

func TestResidentMemoryIsRead(t *testing.T) {
	const status = "Name:\tbench\nVmHWM:\t   20480 kB\nVmRSS:\t   10240 kB\nRssAnon:\t 1 kB\n"
	for name, want := range map[string]int64{"VmHWM": 20480 << 10, "VmRSS": 10240 << 10, "RssAnon": 1 << 10, "VmSwap": 0} {
		if got := statusField(status, name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

func TestServerCutsWhatItIsTold(t *testing.T) {
	plan := serverPlan{CutFrom: 10, CutEvery: 5, CutCount: 3}
	var cut []int
	for n := 1; n < 100; n++ {
		if plan.cuts(n) {
			cut = append(cut, n)
		}
	}
	if !slices.Equal(cut, []int{10, 15, 20}) {
		t.Errorf("cut %v", cut)
	}
	if (serverPlan{}).cuts(0) {
		t.Error("a server that serves well cuts")
	}
}

func TestHeysReportIsRead(t *testing.T) {
	o, err := readHey([]byte(`{"ErrorDist":{"EOF":3,"reset":1},"StatusCodeDist":{"200":90,"503":6}}`))
	if err != nil || o.Requests != 100 || o.Failed != 10 {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := readHey([]byte(`{}`)); err == nil {
		t.Error("a report of nothing passes")
	}
}

func TestLapsesTimelineIsRead(t *testing.T) {
	o, err := readTimeline([]byte(`{"targets":[{"name":"control","sent":9},{"name":"reused","sent":100,"failed":7,"notSent":2,"late":1}]}`))
	if err != nil || o.Requests != 100 || o.Failed != 7 || o.NotSent != 2 || o.Late != 1 {
		t.Errorf("%+v, %v", o, err)
	}
	if _, err := readTimeline([]byte(`{"targets":[]}`)); err == nil {
		t.Error("a timeline without the target passes")
	}
}

const benchText = `goos: linux
BenchmarkAnalyze10M-2           1        1500000000 ns/op               90.0 MiB-heap          150.0 ns/request
BenchmarkAnalyze10M-2           1        2500000000 ns/op               95.0 MiB-heap          250.0 ns/request
BenchmarkAnalyze1M-2            9         100000000 ns/op               20.0 MiB-heap          100.0 ns/request
BenchmarkTrackerAdd/facts_only-2           14000000               90.00 ns/op            3 B/op
PASS
`

func TestGoBenchmarksAreRead(t *testing.T) {
	lines, err := readBench(strings.NewReader(benchText))
	if err != nil {
		t.Fatal(err)
	}
	if got := values(lines, "Analyze10M", "ns/op", 1e-9); !slices.Equal(got, []float64{1.5, 2.5}) {
		t.Errorf("%v", got)
	}
	held := analysisFigures[0].judge("Analyze10M", lines)
	if !held.Held || held.Measured != "2.00 (1.50..2.50)" {
		t.Errorf("%+v", held)
	}
	if missing := analysisFigures[3].judge(analysisFigures[3].bench, lines); missing.Missing == "" {
		t.Errorf("%+v", missing)
	}
	if c := linearity(lines); c.Held || c.Measured != "2.00" {
		t.Errorf("%+v", c)
	}
	if c := linearity(nil); c.Missing == "" {
		t.Errorf("%+v", c)
	}
}

func TestPartsAreChosenByName(t *testing.T) {
	chosen, err := choose("cut,exact")
	if err != nil || len(chosen) != 2 || chosen[0].name != "cut" {
		t.Errorf("%v, %v", chosen, err)
	}
	if _, err := choose("exakt"); err == nil {
		t.Error("an unknown part passes")
	}
}

func TestProcFieldsAreRead(t *testing.T) {
	if got := procField("processor\t: 0\nmodel name\t: AMD EPYC\n", "model name"); got != "AMD EPYC" {
		t.Errorf("%q", got)
	}
	if got := gib("24641536 kB"); got != "23.5 GiB" {
		t.Errorf("%q", got)
	}
}
